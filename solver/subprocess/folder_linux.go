package subprocess

import (
	"errors"
	"os"
	"syscall"
)

// hold locks a folder until release is called. The system unlocks it when this
// process ends. The error is errSwept if another process has removed it meanwhile.
func hold(dir string) (release func(), err error) {
	folder, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errSwept
	}
	if err != nil {
		return nil, err
	}
	switch err := lock(folder); {
	case errors.Is(err, syscall.EWOULDBLOCK), err == nil && !isAt(folder, dir):
		folder.Close()
		return nil, errSwept
	default:
		// On a file system without locks no process removes the folder either.
		return func() { folder.Close() }, nil
	}
}

// removeUnheld removes a folder of this user that no process holds, and holds it as it
// does so.
func removeUnheld(dir string) (done bool, err error) {
	folder, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return false, nil // It is gone, or another user's.
	}
	if err != nil {
		return false, err
	}
	defer folder.Close()
	info, err := folder.Stat()
	if err != nil {
		return false, err
	}
	if status, ok := info.Sys().(*syscall.Stat_t); !ok || int(status.Uid) != os.Geteuid() {
		return false, nil
	}
	if lock(folder) != nil || !isAt(folder, dir) {
		return false, nil
	}
	err = os.RemoveAll(dir)
	return err == nil, err
}

// lock locks a folder for this process, at once or not at all.
func lock(folder *os.File) error {
	return syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// isAt reports whether an open folder is still the one at a path.
func isAt(folder *os.File, path string) bool {
	opened, err := folder.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}
