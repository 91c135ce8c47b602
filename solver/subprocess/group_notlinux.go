//go:build !linux

package subprocess

import (
	"os"
	"os/exec"
)

// dieWithUs does nothing on a system that cannot do it.
func dieWithUs(*exec.Cmd) (release func()) { return func() {} }

// limitFiles does nothing on a system that cannot do it.
func limitFiles(*os.Process, int64) {}
