//go:build !unix

package subprocess

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// ownGroup refuses: without process groups, processes of a solver could outlive
// their decision.
func ownGroup(*exec.Cmd) error { return errors.ErrUnsupported }

func terminate(leader *os.Process) error { return leader.Kill() }

func killGroup(*os.Process) {}

func readRest(*os.File, io.Writer) {}
