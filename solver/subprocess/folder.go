package subprocess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// folderPrefix begins the name of every folder of a run; digits follow.
const folderPrefix = "elastalloc-run-"

// errSwept means that a folder was taken for an abandoned one before it was held.
var errSwept = errors.New("the new folder was removed by another process")

// withFolder calls do with a new folder that only this user may enter, and removes it.
func withFolder(do func(dir string) error) (err error) {
	dir, release, err := newFolder()
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() {
		defer release()
		if failed := os.RemoveAll(dir); failed != nil && err == nil {
			err = fmt.Errorf("removing a folder: %w", failed)
		}
	}()
	return do(dir)
}

// newFolder makes a folder that is held until release is called or this process
// ends, however it does.
func newFolder() (dir string, release func(), err error) {
	const tries = 10 // There is one sweep per start of a server.
	for range tries {
		if dir, err = os.MkdirTemp("", folderPrefix); err != nil {
			return "", nil, err
		}
		if release, err = hold(dir); err == nil {
			return dir, release, nil
		}
		if !errors.Is(err, errSwept) {
			return "", nil, errors.Join(err, os.Remove(dir))
		}
	}
	return "", nil, err
}

// RemoveAbandoned removes the temporary folders that killed processes of this user have left,
// and returns how many. Those that a living process holds stay, whatever process namespace it
// lives in. Where the system cannot tell, all stay.
func RemoveAbandoned() (removed int, err error) {
	entries, err := os.ReadDir(os.TempDir())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	var failures []error
	if err != nil {
		failures = append(failures, err)
	}
	for _, entry := range entries {
		digits, ours := strings.CutPrefix(entry.Name(), folderPrefix)
		if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" || !entry.IsDir() {
			continue
		}
		done, err := removeUnheld(filepath.Join(os.TempDir(), entry.Name()))
		if done {
			removed++
		}
		failures = append(failures, err)
	}
	return removed, errors.Join(failures...)
}
