//go:build !linux

package subprocess

import (
	"os"
	"os/exec"
)

// lockDir does nothing, because removeUnlocked removes nothing.
func lockDir(string) (release func(), err error) { return func() {}, nil }

// removeUnlocked does nothing, because locks are implemented only for Linux.
func removeUnlocked(string) (done bool, err error) { return false, nil }

// killWithParent does nothing, because only Linux supports it.
func killWithParent(*exec.Cmd) (release func()) { return func() {} }

// limitFileSize does nothing, because only Linux supports it.
func limitFileSize(*os.Process, int64) {}
