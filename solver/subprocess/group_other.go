//go:build !unix

package subprocess

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// setProcessGroup fails, because without process groups the children of a solver could outlive the decision.
func setProcessGroup(*exec.Cmd) error { return errors.ErrUnsupported }

func terminateGroup(leader *os.Process) error { return leader.Kill() }

func killGroup(*os.Process) {}

func drainPipe(*os.File, io.Writer) {}
