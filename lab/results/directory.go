package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Directory is a directory of results in the making. Everything is written beside
// the place where it is to stand, and appears there at the end.
type Directory struct {
	target, staging string
	force           bool
}

// ErrNotEmpty means that a directory holds files already, and that nobody said
// that they may be replaced.
var ErrNotEmpty = errors.New("exists and is not empty")

// NewDirectory prepares results for the directory target, which need not exist. A
// target that holds files already is refused with ErrNotEmpty unless force is set:
// then files of the same name are replaced and others stay.
func NewDirectory(target string, force bool) (*Directory, error) {
	target = filepath.Clean(target)
	entries, err := os.ReadDir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case len(entries) > 0 && !force:
		return nil, fmt.Errorf("%s %w", target, ErrNotEmpty)
	}
	absolute, err := filepath.Abs(target)
	if err != nil {
		return nil, err
	}
	parent := filepath.Dir(absolute)
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return nil, err
	}
	staging, err := os.MkdirTemp(parent, "."+filepath.Base(absolute)+".partial-")
	if err != nil {
		return nil, err
	}
	return &Directory{target: absolute, staging: staging, force: force}, nil
}

// Write writes a file of the results; name is a plain file name.
func (d *Directory) Write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(d.staging, name), content, 0o644) //nolint:gosec // Results are for everybody to read.
}

// Commit makes the results appear in the target. A new or empty target appears all
// at once; one that holds files is changed file by file, without a summary while
// that goes on, since the summary is what says that results are whole.
func (d *Directory) Commit() error {
	if err := os.Chmod(d.staging, 0o755); err != nil { //nolint:gosec // As above.
		return err
	}
	// Removes an empty directory only.
	if err := os.Remove(d.target); err == nil || errors.Is(err, fs.ErrNotExist) {
		return os.Rename(d.staging, d.target)
	}
	if !d.force {
		return fmt.Errorf("%s %w", d.target, ErrNotEmpty)
	}
	return d.replace()
}

// replace moves the results into a target that holds files, the summary last.
func (d *Directory) replace() error {
	summary := filepath.Join(d.target, SummaryName)
	if err := os.Remove(summary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(d.staging)
	if err != nil {
		return err
	}
	hasSummary := false
	for _, entry := range entries {
		if entry.Name() == SummaryName {
			hasSummary = true
			continue
		}
		if err := os.Rename(filepath.Join(d.staging, entry.Name()), filepath.Join(d.target, entry.Name())); err != nil {
			return err
		}
	}
	if hasSummary {
		if err := os.Rename(filepath.Join(d.staging, SummaryName), summary); err != nil {
			return err
		}
	}
	return os.Remove(d.staging)
}

// Discard removes what was written and not committed.
func (d *Directory) Discard() error {
	return os.RemoveAll(d.staging)
}
