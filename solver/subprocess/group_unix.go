//go:build unix

package subprocess

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// setProcessGroup makes the command the leader of a new process group.
func setProcessGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// terminateGroup sends TERM to the process group of a leader.
func terminateGroup(leader *os.Process) error {
	if err := syscall.Kill(-leader.Pid, syscall.SIGTERM); err != nil {
		return os.ErrProcessDone // Kill has no other reason to fail here.
	}
	return nil
}

// killGroup sends KILL to the remaining processes of the process group of a leader. It may be called after
// Wait: the process id is not reused while the group has a member, nor immediately afterwards.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// maxPipeBytes is the maximum capacity of a pipe of an unprivileged process.
const maxPipeBytes = 1 << 20

// drainPipe copies the bytes that a pipe contains, without waiting for more.
func drainPipe(pipe *os.File, w io.Writer) {
	_ = pipe.SetReadDeadline(time.Time{})
	connection, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = connection.Read(func(fd uintptr) (done bool) {
		buffer := make([]byte, 32<<10)
		// The bound is for processes that continue to write.
		for remaining := maxPipeBytes; remaining > 0; {
			n, err := syscall.Read(int(fd), buffer)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 { // The pipe is empty or closed.
				break
			}
			_, _ = w.Write(buffer[:n])
			remaining -= n
		}
		return true
	})
}
