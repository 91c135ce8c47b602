//go:build !linux

package subprocess

import (
	"os"
	"os/exec"
)

// hold does nothing on a system where no process removes the folder.
func hold(string) (release func(), err error) { return func() {}, nil }

// removeUnheld does nothing on a system that cannot tell who holds a folder.
func removeUnheld(string) (done bool, err error) { return false, nil }

// dieWithUs does nothing on a system that cannot do it.
func dieWithUs(*exec.Cmd) (release func()) { return func() {} }

// limitFiles does nothing on a system that cannot do it.
func limitFiles(*os.Process, int64) {}
