package subprocess

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestParentKilled checks that a program is killed when the process that runs it is killed.
func TestParentKilled(t *testing.T) {
	if program := os.Getenv("SUBPROCESS_TEST_RUN"); program != "" {
		_, err := Run(context.Background(), Command{Program: program, Env: []string{"PATH=/usr/bin:/bin"}})
		t.Fatalf("the program has exited: %v", err)
	}
	pipe := newExitPipe(t)
	program := script(t, "exec 3>"+pipe.path, "echo ready >&3", "exec sleep 1000")
	parent := exec.Command(os.Args[0], "-test.run=^TestParentKilled$")
	parent.Env = append(os.Environ(), "SUBPROCESS_TEST_RUN="+program)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pipe.line(t)
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = parent.Wait() // It was killed.
	pipe.waitForExit(t)
}

// TestFileLimit checks that a program that writes an endless file is stopped, and that other programs are not
// affected.
func TestFileLimit(t *testing.T) {
	tests := map[string]struct{ script, status string }{
		"more than the limit": {"exec yes > file", "signal: file size limit exceeded"},
		"the limit":           {"head -c 100000 /dev/zero > file", "exit status 0"},
		"output is a pipe":    {"head -c 300000 /dev/zero", "exit status 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // So that the disk does not become full.
			defer cancel()
			got, err := Run(ctx, Command{
				Program: script(t, test.script), Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, FileLimit: 100_000,
			})
			if err != nil {
				t.Fatal(err)
			}
			if status := strings.TrimSuffix(got.Status, " (core dumped)"); status != test.status {
				t.Errorf("status %q; want %q", status, test.status)
			}
		})
	}
}
