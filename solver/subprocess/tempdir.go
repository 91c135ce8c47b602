package subprocess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dirPrefix is the prefix of the names of temporary directories. Digits follow it.
const dirPrefix = "elastalloc-run-"

// errDirRemoved means that another process has removed a new directory before it was locked.
var errDirRemoved = errors.New("the new directory was removed by another process")

// withTempDir calls f with a new temporary directory that only this user can access, and removes it
// afterwards.
func withTempDir(f func(dir string) error) (err error) {
	dir, release, err := newTempDir()
	if err != nil {
		return fmt.Errorf("creating a temporary directory: %w", err)
	}
	defer func() {
		defer release()
		if removeErr := os.RemoveAll(dir); removeErr != nil && err == nil {
			err = fmt.Errorf("removing a temporary directory: %w", removeErr)
		}
	}()
	return f(dir)
}

// newTempDir creates a directory that is locked until release is called or this process exits.
func newTempDir() (dir string, release func(), err error) {
	const maxTries = 10 // Each server calls RemoveStaleDirs once, at its start.
	for range maxTries {
		if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
			return "", nil, err
		}
		if release, err = lockDir(dir); err == nil {
			return dir, release, nil
		}
		if !errors.Is(err, errDirRemoved) {
			return "", nil, errors.Join(err, os.Remove(dir))
		}
	}
	return "", nil, err
}

// RemoveStaleDirs removes the temporary directories that killed processes of this user have left, and
// returns their number. It keeps directories that a process has locked, also a process in another process
// namespace. On systems without such locks it removes nothing.
func RemoveStaleDirs() (removed int, err error) {
	entries, err := os.ReadDir(os.TempDir())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), dirPrefix)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !entry.IsDir() {
			continue
		}
		done, err := removeUnlocked(filepath.Join(os.TempDir(), entry.Name()))
		if done {
			removed++
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}
