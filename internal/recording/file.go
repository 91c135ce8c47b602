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
	created time.Time
	disk    *os.File
	encoder *zstd.Encoder
	// bytes is the number of compressed bytes written to disk.
	bytes int64
}

// maxNameTries is the number of seconds whose names are tried if a file exists already.
const maxNameTries = 60

// create creates a file that is named after now, or after one of the next seconds if the file exists already.
func create(dir string, now time.Time) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for i := range maxNameTries {
		name := namePrefix + now.Add(time.Duration(i)*time.Second).UTC().Format(nameLayout) + nameSuffix
		// Job ids are confidential.
		disk, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f := &file{path: disk.Name(), created: now, disk: disk}
		// One goroutine and a small window keep the memory small. The calls of a scheduler resemble the call
		// before, so that a larger window would compress little better. A file that was closed without calls is not empty.
		f.encoder, err = zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
		if err != nil {
			return nil, errors.Join(err, disk.Close())
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s has files for all of the next %d seconds", dir, maxNameTries)
}

// Write writes compressed bytes to disk.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.disk.Write(p)
	f.bytes += int64(n)
	return n, err
}

func (f *file) close() error { return errors.Join(f.encoder.Close(), f.disk.Close()) }

// abandon closes the file without flushing it, and removes it if it is empty.
func (f *file) abandon() {
	_ = f.disk.Close()
	if f.bytes == 0 {
		_ = os.Remove(f.path)
	}
}

// files returns the paths of the recordings in a directory, oldest first.
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

// deleteOldest deletes the oldest recordings until all recordings together have at most maxBytes.
func deleteOldest(dir string, maxBytes int64) error {
	paths, err := files(dir)
	if err != nil {
		return err
	}
	sizes := make([]int64, len(paths))
	total := int64(0)
	for i, path := range paths {
		info, err := os.Lstat(path) // Lstat, because links may be dangling.
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
