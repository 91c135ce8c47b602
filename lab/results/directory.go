package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Directory writes a directory of results atomically. Write writes files to a staging directory, and
// Commit renames it to the target.
type Directory struct {
	target, staging string
	files           int
}

// ErrNotEmpty means that the target already contains files.
var ErrNotEmpty = errors.New("is not empty; must be a new or empty folder")

// NewDirectory returns a Directory for target, or ErrNotEmpty.
func NewDirectory(target string) (*Directory, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return nil, err
	}
	if err := checkFree(target); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return nil, err
	}
	staging, err := os.MkdirTemp(filepath.Dir(target), "."+filepath.Base(target)+".partial-")
	return &Directory{target: target, staging: staging}, err
}

// Write writes a file; name is its slash-separated path within the directory.
func (d *Directory) Write(name string, content []byte) error {
	d.files++
	path := filepath.Join(d.staging, filepath.FromSlash(name))
	//nolint:gosec // Results are not secret.
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644))
}

// Files returns the number of files written.
func (d *Directory) Files() int { return d.files }

// Commit renames the results to the target.
func (d *Directory) Commit() error {
	if err := os.Chmod(d.staging, 0o755); err != nil { //nolint:gosec // As above.
		return err
	}
	if err := checkFree(d.target); err != nil {
		return err
	}
	// A directory is not renamed onto another, not even onto an empty one.
	if err := os.Remove(d.target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(d.staging, d.target)
}

// checkFree returns an error unless target is missing or an empty directory.
func checkFree(target string) error {
	entries, err := os.ReadDir(target)
	if len(entries) > 0 {
		return fmt.Errorf("%s %w", target, ErrNotEmpty)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Discard removes all files that are not committed.
func (d *Directory) Discard() error { return os.RemoveAll(d.staging) }
