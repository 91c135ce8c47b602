package subprocess

import (
	"errors"
	"os"
	"syscall"
)

// lockDir locks a directory until release is called. The kernel unlocks it when this process exits. The
// error is errDirRemoved if another process has removed the directory in the meantime.
func lockDir(path string) (release func(), err error) {
	dir, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDirRemoved
	}
	if err != nil {
		return nil, err
	}
	switch err := lock(dir); {
	case errors.Is(err, syscall.EWOULDBLOCK), err == nil && !isSameDir(dir, path):
		dir.Close()
		return nil, errDirRemoved
	default:
		// On a file system without locks, no process removes the directory either.
		return func() { dir.Close() }, nil
	}
}

// removeUnlocked removes a directory of this user that no process has locked. It locks the directory
// while it removes it.
func removeUnlocked(path string) (done bool, err error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return false, nil // It was removed, or it belongs to another user.
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return false, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return false, nil
	}
	if lock(dir) != nil || !isSameDir(dir, path) {
		return false, nil
	}
	err = os.RemoveAll(path)
	return err == nil, err
}

// lock locks a directory for this process. It fails instead of waiting for the lock.
func lock(dir *os.File) error {
	return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// isSameDir reports whether an open directory is still the directory at a path.
func isSameDir(dir *os.File, path string) bool {
	opened, err := dir.Stat()
	if err != nil {
		return false
	}
	current, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, current)
}
