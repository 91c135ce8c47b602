package subprocess

import (
	"context"
	"os"
	"os/exec"
	"testing"
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
