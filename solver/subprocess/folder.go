package subprocess

import (
	"fmt"
	"os"
)

// withFolder calls do with a new folder that only this user may enter, and removes it.
func withFolder(do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "elastalloc-run-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() {
		if failed := os.RemoveAll(dir); failed != nil && err == nil {
			err = fmt.Errorf("removing a folder: %w", failed)
		}
	}()
	return do(dir)
}
