package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Cut is where a recording does not go on as it should.
type Cut struct {
	// Path is that of the file.
	Path string
	// Calls is how many calls were read of it before.
	Calls int
	// Err is io.ErrUnexpectedEOF where a crash or a full disk cut the file short, or it is
	// still written. ErrClockSetBack is of a file that was read further.
	Err error
}

// String says where the recording does not go on as it should.
func (c *Cut) String() string {
	after := fmt.Sprintf("%s: after %d calls ", c.Path, c.Calls)
	if c.Calls == 1 {
		after = c.Path + ": after 1 call "
	}
	switch {
	case errors.Is(c.Err, ErrClockSetBack):
		return after + c.Err.Error() + "; the times before and after are mixed up"
	case errors.Is(c.Err, io.ErrUnexpectedEOF):
		return after + "it ends within one: a server still writes it, or was killed"
	default:
		return fmt.Sprintf("%sthe rest cannot be read: %v", after, c.Err)
	}
}

// ErrClockSetBack is the error of a Cut before a call that is older than the one before
// by more than calls take.
var ErrClockSetBack = errors.New("the clock was set back")

// maxCallTime is more than any call takes: calls are written in the order of their ends.
const maxCallTime = time.Minute

// maxLine is the longest line that is read or written, 64 MiB: many times that of a large cluster.
const maxLine = 64 << 20

var errLineTooLong = errors.New("a line is too long")

// Read calls yield with the calls in the recordings of some folders, in the order of their
// files and within a file of their writing, until yield returns an error, which it
// returns. A file is read up to where it is cut off, and the cuts are returned. It is an
// error if a folder or file cannot be opened, or if there is no file.
func Read(dirs []string, yield func(Entry) error) ([]Cut, error) {
	var cuts []Cut
	found := false
	for _, dir := range dirs {
		paths, err := files(dir)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			found = true
			of, err := readFile(path, yield)
			if err != nil {
				return nil, err
			}
			cuts = append(cuts, of...)
		}
	}
	if !found {
		return nil, fmt.Errorf("no recordings, %sYYYYMMDDTHHMMSSZ%s, in %v", namePrefix, nameSuffix, dirs)
	}
	return cuts, nil
}

// ReadAll returns the calls in the recordings of some folders in the order of time, and
// where they do not go on as they should.
func ReadAll(dirs []string) ([]Entry, []Cut, error) {
	var entries []Entry
	cuts, err := Read(dirs, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	return entries, cuts, err
}

func readFile(path string, yield func(Entry) error) ([]Cut, error) {
	disk, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	decoder, err := zstd.NewReader(disk, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxLine))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	lines := bufio.NewReaderSize(decoder, 1<<16)
	var cuts []Cut
	var before time.Time
	for calls := 0; ; calls++ {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			if len(text) == 0 {
				return cuts, nil
			}
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return append(cuts, Cut{path, calls, err}), nil
		}
		entry, err := parse(text)
		if err != nil {
			return append(cuts, Cut{path, calls, err}), nil
		}
		if back := before.Sub(entry.Time); back > maxCallTime {
			cuts = append(cuts, Cut{path, calls, fmt.Errorf("%w by %v", ErrClockSetBack, back.Round(time.Second))})
		}
		before = entry.Time
		if err := yield(entry); err != nil {
			return nil, err
		}
	}
}

// readLine reads a line. A line without an end is returned with io.EOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > maxLine {
			return nil, errLineTooLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}
