//go:build !linux

package subprocess

// hold does nothing on a system where no process removes the folder.
func hold(string) (release func(), err error) { return func() {}, nil }

// removeUnheld does nothing on a system that cannot tell who holds a folder.
func removeUnheld(string) (done bool, err error) { return false, nil }
