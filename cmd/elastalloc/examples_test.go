package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// TestSchedulerLoops runs the scheduler loops of docs/schedulers/integrate.md, in Go and in Python,
// with a server and without one. Every job completes. The simulated clusters exit if, in any second, a machine has
// more nodes in use and being released than it has.
func TestSchedulerLoops(t *testing.T) {
	const loop = "../../examples/scheduler"
	program := filepath.Join(t.TempDir(), "scheduler")
	if output, err := exec.Command("go", "build", "-o", program, loop).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	recording := filepath.Join(t.TempDir(), "recording")
	server := startServer(t, "--record="+recording)
	loops := map[string]func(t *testing.T, args ...string) *exec.Cmd{
		"Go": func(_ *testing.T, args ...string) *exec.Cmd { return exec.Command(program, args...) },
		"Python": func(t *testing.T, args ...string) *exec.Cmd {
			t.Helper()
			command := exec.Command(python, append([]string{filepath.Join(loop, "scheduler.py")}, args...)...)
			command.Env = append(os.Environ(), "PYTHONPATH="+wheel(t))
			return command
		},
	}
	for name, command := range loops {
		t.Run(name, func(t *testing.T) {
			for seed := range testtier.Conformance.Examples(1, 20) {
				output := runLoop(t, command(t, "--server", server.Addr, "--jobs=20", fmt.Sprint("--seed=", 1+seed)))
				if !regexp.MustCompile(`^20 jobs took [0-9.]+ min on average, with [0-9]+ ` +
					`resizes and [0-9]+ moves; 0 calls failed\n$`).MatchString(output) {
					t.Errorf("with a server and seed %d the output is %q", 1+seed, output)
				}
			}
			// A closed port.
			args := []string{"--server", "127.0.0.1:1", "--jobs=3"}
			if name == "Python" { // Its calls wait for a server.
				args = append(args, "--timeout=0.01")
			}
			output := runLoop(t, command(t, args...))
			if !strings.HasPrefix(output, "3 jobs took") || strings.Contains(output, " 0 calls failed") {
				t.Errorf("without a server the output is %q", output)
			}
		})
	}
	if calls := servertest.Metrics(t, server)[`elastalloc_recording_dropped_total{reason="disk"}`]; calls != 0 {
		t.Errorf("%v calls are missing in the recording", calls)
	}
}

// runLoop returns the standard output of a command.
func runLoop(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, stderr.String())
	}
	return string(output)
}

// TestSlurmExample runs the Python tests of the example of docs/schedulers/slurm.md. They need no Slurm.
func TestSlurmExample(t *testing.T) {
	if _, err := exec.LookPath(python); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	command := exec.Command(python, "-B", "-m", "unittest", "reconcile_test")
	command.Dir = "../../examples/slurm"
	output, err := command.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^Ran [1-9]`).Match(output) {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestPolicyExamples runs the Python tests of the policies of docs/evaluation/pollux.md and elastisim.md
// with a server. They do not need the simulators.
func TestPolicyExamples(t *testing.T) {
	environment := append(os.Environ(), "PYTHONPATH="+wheel(t), "ELASTALLOC_SERVER="+startServer(t).Addr)
	for _, name := range []string{"pollux", "elastisim"} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(python, "-B", "-m", "unittest", "policy_test")
			command.Dir = "../../examples/" + name
			command.Env = environment
			output, err := command.CombinedOutput()
			if err != nil || !regexp.MustCompile(`(?m)^Ran [1-9]`).Match(output) {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}
