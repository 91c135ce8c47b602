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

// ReadError is a position in a recording after which calls are missing or in the wrong order.
type ReadError struct {
	// Path is the path of the file.
	Path string
	// Calls is the number of calls of the file before the error.
	Calls int
	// Err is io.ErrUnexpectedEOF if the file is incomplete, because of a crash or a full disk or because it
	// is still being written. It wraps ErrClockSetBack if the clock was set back; reading continues then.
	Err error
}

// String describes the error for people.
func (c *ReadError) String() string {
	after := fmt.Sprintf("%s: after %d calls ", c.Path, c.Calls)
	if c.Calls == 1 {
		after = c.Path + ": after 1 call "
	}
	switch {
	case errors.Is(c.Err, ErrClockSetBack):
		return after + c.Err.Error() + "; times are out of order"
	case errors.Is(c.Err, io.ErrUnexpectedEOF):
		return after + "the file is incomplete: a server is still writing it, or was killed"
	default:
		return fmt.Sprintf("%sthe rest cannot be read: %v", after, c.Err)
	}
}

// ErrClockSetBack means that a call is older than the call before it by more than the duration of a call.
var ErrClockSetBack = errors.New("the clock was set back")

// maxCallTime is an upper bound on the duration of a call. Calls are written in the order of their
// completion, so that their times may be out of order by this much.
const maxCallTime = time.Minute

// maxLine is the maximum length of a line that is read or written, 64 MiB. The line of a large cluster
// is much shorter.
const maxLine = 64 << 20

var errLineTooLong = errors.New("line is longer than 64 MiB")

// Read calls yield for each call in the recordings in dirs, in the order of the files and of the lines.
// If yield returns an error, Read stops and returns it. An incomplete file is read up to its end, and
// the errors are returned. It is an error if a directory or file cannot be opened, or if there is no
// file.
func Read(dirs []string, yield func(Entry) error) ([]ReadError, error) {
	var errs []ReadError
	found := false
	for _, dir := range dirs {
		paths, err := files(dir)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			found = true
			fileErrors, err := readFile(path, yield)
			if err != nil {
				return nil, err
			}
			errs = append(errs, fileErrors...)
		}
	}
	if !found {
		return nil, fmt.Errorf("no recordings (%sYYYYMMDDTHHMMSSZ%s) in %v", namePrefix, nameSuffix, dirs)
	}
	return errs, nil
}

// ReadAll returns the calls in the recordings in dirs in the order of time, and the errors.
func ReadAll(dirs []string) ([]Entry, []ReadError, error) {
	var entries []Entry
	errs, err := Read(dirs, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	return entries, errs, err
}

func readFile(path string, yield func(Entry) error) ([]ReadError, error) {
	disk, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	if info, err := disk.Stat(); err != nil || info.Size() == 0 { // The decoder takes an empty file for a complete one.
		return []ReadError{{path, 0, io.ErrUnexpectedEOF}}, err
	}
	decoder, err := zstd.NewReader(disk, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxLine))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	lines := bufio.NewReaderSize(decoder, 1<<16)
	var errs []ReadError
	var previous time.Time
	for calls := 0; ; calls++ {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			if len(text) == 0 {
				return errs, nil
			}
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return append(errs, ReadError{path, calls, err}), nil
		}
		entry, err := parse(text)
		if err != nil {
			return append(errs, ReadError{path, calls, err}), nil
		}
		if back := previous.Sub(entry.Time); back > maxCallTime {
			errs = append(errs, ReadError{path, calls, fmt.Errorf("%w by %v", ErrClockSetBack, back.Round(time.Second))})
		}
		previous = entry.Time
		if err := yield(entry); err != nil {
			return nil, err
		}
	}
}

// readLine reads a line. It returns a line without a newline with io.EOF.
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
