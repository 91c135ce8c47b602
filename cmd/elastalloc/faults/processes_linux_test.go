package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// The home of a solver and its children is a folder below the TMPDIR of the server. With a TMPDIR per server, the
// environment of a process identifies the server to which it belongs.

// solverProcesses returns the processes whose home is below a folder.
func solverProcesses(t *testing.T, tempDir string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A process that has exited has no environment.
		environment, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if bytes.Contains(append([]byte{0}, environment...), []byte("\x00HOME="+tempDir+"/")) {
			found = append(found, pid)
		}
	}
	return found
}

// signalSolver waits for a solver of a server to run and sends it a signal.
func signalSolver(t *testing.T, tempDir string, signal syscall.Signal) {
	t.Helper()
	wait.Until(t, "a solver running", func() bool {
		for _, pid := range solverProcesses(t, tempDir) {
			if err := syscall.Kill(pid, signal); err == nil {
				return true
			}
		}
		return false
	})
}

// describe returns a description of processes for a failure message.
func describe(processes []int) string {
	var text strings.Builder
	for _, pid := range processes {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(&text, "%d: %s\n", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	}
	return text.String()
}

// peakMemory returns the maximum resident memory of a process in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}
