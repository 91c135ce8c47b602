//go:build unix

package subprocess

import (
	"os"
	"os/exec"
	"syscall"
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
