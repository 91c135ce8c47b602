package subprocess

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestEndOfThisProcess has another process run a program, and kills that process:
// the program ends too.
func TestEndOfThisProcess(t *testing.T) {
	if program := os.Getenv("SUBPROCESS_TEST_RUN"); program != "" {
		_, err := Run(context.Background(), Command{Program: program, Env: []string{"PATH=/usr/bin:/bin"}})
		t.Fatalf("the program has ended: %v", err)
	}
	life := newLifeline(t)
	program := script(t, "exec 3>"+life.path, "echo ready >&3", "exec sleep 1000")
	other := exec.Command(os.Args[0], "-test.run=^TestEndOfThisProcess$")
	other.Env = append(os.Environ(), "SUBPROCESS_TEST_RUN="+program)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	life.line(t)
	if err := other.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = other.Wait() // It was killed.
	life.waitForEnd(t)
}

// TestFileLimit checks that a program which writes a file without end ends, and
// that others notice nothing.
func TestFileLimit(t *testing.T) {
	tests := map[string]struct{ script, ending string }{
		"more than the limit": {"exec yes > file", "signal: file size limit exceeded"},
		"just the limit":      {"head -c 100000 /dev/zero > file", "exit status 0"},
		"output is a pipe":    {"head -c 300000 /dev/zero", "exit status 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // Lest it fill the disk.
			defer cancel()
			got, err := Run(ctx, Command{
				Program: script(t, test.script), Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, FileLimit: 100_000,
			})
			if err != nil {
				t.Fatal(err)
			}
			if ending := strings.TrimSuffix(got.Ending, " (core dumped)"); ending != test.ending {
				t.Errorf("it ended with %q; want %q", ending, test.ending)
			}
		})
	}
}
