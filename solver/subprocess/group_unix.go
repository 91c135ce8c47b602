//go:build unix

package subprocess

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup has the command start as the leader of a process group of its own.
func ownGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// terminate asks the group that a process leads to end.
func terminate(leader *os.Process) error {
	if err := syscall.Kill(-leader.Pid, syscall.SIGTERM); err != nil {
		return os.ErrProcessDone // The one reason there can be.
	}
	return nil
}

// killGroup ends what is left of the group that a process leads. The leader may
// have been waited for: its number stays taken while its group has a member, and
// where it has none there is nothing to kill, as process numbers do not come up
// again at once.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// largestPipe is the most that a pipe holds without the rights of root.
const largestPipe = 1 << 20

// readRest copies what a pipe holds, and waits for no more.
func readRest(pipe *os.File, to io.Writer) {
	_ = pipe.SetReadDeadline(time.Time{})
	connection, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = connection.Read(func(fd uintptr) (done bool) {
		buffer := make([]byte, 32<<10)
		// Without the bound, one that writes on would keep us here.
		for left := largestPipe; left > 0; {
			n, err := syscall.Read(int(fd), buffer)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 { // It is empty, or at its end.
				break
			}
			_, _ = to.Write(buffer[:n])
			left -= n
		}
		return true
	})
}
