package subprocess

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithUs has the command end when this process does, however that happens. The
// system takes the end of the thread that started the command for that of the
// process, so the thread is kept until the returned function is called.
func dieWithUs(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}
