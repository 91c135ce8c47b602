package subprocess

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// dieWithUs has the command end when this process does, however that happens. The
// system takes the end of the thread that started the command for that of the
// process, so the thread is kept until the returned function is called.
func dieWithUs(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}

// limitFiles limits how many bytes a file may have that a process or one of its
// children writes. The process runs already, so that it may have written more in
// its first instant: the limit is against one that does not stop writing.
func limitFiles(process *os.Process, bytes int64) {
	limit := syscall.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	// It fails where the process has ended, and then there is nothing to limit.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(process.Pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0) //nolint:gosec // Package syscall offers it for this process alone.
}
