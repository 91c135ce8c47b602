package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Names of files sort by time.
const (
	nameLayout = "20060102T150405Z"
	namePrefix = "decisions-"
	nameSuffix = ".jsonl.zst"
)

var namePattern = regexp.MustCompile(`^decisions-\d{8}T\d{6}Z\.jsonl\.zst$`)

type file struct {
	path    string
	began   time.Time
	disk    *os.File
	encoder *zstd.Encoder
	// bytes is how much was written to the disk.
	bytes int64
}

// maxNameTries is how many seconds further a name may lie where those before are taken.
const maxNameTries = 60

// create makes a file named after a time, or after one of the next seconds where there are
// such files already.
func create(dir string, now time.Time) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for i := range maxNameTries {
		name := namePrefix + now.Add(time.Duration(i)*time.Second).UTC().Format(nameLayout) + nameSuffix
		// Job ids are private.
		disk, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f := &file{path: disk.Name(), began: now, disk: disk}
		// One goroutine and a small window: a recording must cost little memory, and the
		// calls of a scheduler resemble the one just before.
		f.encoder, err = zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, errors.Join(err, disk.Close())
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s has files of all of the next %d seconds", dir, maxNameTries)
}

// Write writes compressed bytes to the disk.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.disk.Write(p)
	f.bytes += int64(n)
	return n, err
}

func (f *file) close() error { return errors.Join(f.encoder.Close(), f.disk.Close()) }

// abandon leaves the file as far as it was written, or not at all where nothing was.
func (f *file) abandon() {
	_ = f.disk.Close()
	if f.bytes == 0 {
		_ = os.Remove(f.path)
	}
}

// files returns the paths of the recordings in a folder, oldest first.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if namePattern.MatchString(entry.Name()) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths, nil
}

// deleteOldest deletes the oldest recordings until all together have at most maxBytes.
func deleteOldest(dir string, maxBytes int64) error {
	paths, err := files(dir)
	if err != nil {
		return err
	}
	sizes := make([]int64, len(paths))
	total := int64(0)
	for i, path := range paths {
		info, err := os.Lstat(path) // Of a link that leads nowhere as well.
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sizes[i] = info.Size()
		total += sizes[i]
	}
	for i, path := range paths {
		if total <= maxBytes {
			break
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= sizes[i]
	}
	return nil
}
