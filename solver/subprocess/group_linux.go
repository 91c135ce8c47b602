package subprocess

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// killWithParent makes the kernel kill the command when this process exits. The kernel treats the exit
// of the thread that started the command as the exit of the process, so the calling goroutine stays on
// its thread until release is called.
func killWithParent(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}

// limitFileSize limits the size in bytes of the files that a process and its children write. The process
// is running already and may have written more before, so the limit only stops a process that writes
// without end.
func limitFileSize(process *os.Process, bytes int64) {
	limit := syscall.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	// The call fails if the process has exited. Then there is nothing to limit.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(process.Pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0) //nolint:gosec // Package syscall has no prlimit for other processes.
}
