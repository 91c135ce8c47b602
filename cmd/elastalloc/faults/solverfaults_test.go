//go:build linux

package faults

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// solverFaults returns failures of solvers, including failures that real solvers do not have.
func solverFaults() []fault {
	faults := exits()
	faults = append(faults, outputs()...)
	faults = append(faults, claims()...)
	return append(faults, files()...)
}

// exits returns the faults of the exit of the program.
func exits() []fault {
	remove := func(t *testing.T, program string) {
		t.Helper()
		if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
	}
	notExecutable := func(t *testing.T, program string) {
		t.Helper()
		if err := os.Chmod(program, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kill := func(t *testing.T, tempDir string) {
		t.Helper()
		signalSolver(t, tempDir, syscall.SIGKILL)
	}
	return []fault{
		{
			name: "is removed after the start", before: remove,
			outcome: unavailable, detail: []string{"no such file or directory"},
		},
		{
			name: "is not executable anymore", before: notExecutable,
			outcome: unavailable, detail: []string{"permission denied"},
		},
		{
			name: "hangs", hangs: true, script: "exec sleep 1000",
			outcome: timedOut, detail: []string{"SOLVER has no complete solution: no solution file; signal: terminated"},
		},
		{
			name: "hangs and ignores TERM", hangs: true, script: "trap '' TERM; while :; do sleep 1000; done",
			outcome: timedOut, detail: []string{"signal: killed"},
		},
		{
			name: "closes its output and hangs", hangs: true, script: "exec >&- 2>&-; exec sleep 1000",
			outcome: timedOut, detail: []string{"signal: terminated"},
		},
		{
			name: "stops itself", hangs: true, script: "kill -STOP $$",
			outcome: timedOut, detail: []string{"signal: killed"},
		},
		{
			name: "crashes", script: "echo 'Presolve 1234 rows'; kill -SEGV $$",
			outcome: crashed, detail: []string{"signal: segmentation fault", "Presolve 1234 rows"},
		},
		{
			name: "is killed", script: "exec sleep 1000", during: kill,
			outcome: crashed, detail: []string{"signal: killed"},
		},
		{
			name: "fails", script: "echo 'no license found' >&2; exit 3",
			outcome: crashed, detail: []string{"no solution file; exit status 3", "no license found"},
		},
		{
			name: "does nothing", script: "exit 0",
			outcome: crashed, detail: []string{"no solution file; exit status 0"},
		},
		{
			name:    "returns a solution and leaves children",
			script:  "sleep 1000 & (trap '' TERM HUP; exec sleep 1000) & " + writesSolution,
			outcome: answered,
		},
		{
			name: "hangs with children that ignore TERM", hangs: true,
			script:  "(trap '' TERM; while :; do sleep 1000; done) & (trap '' TERM; while :; do sleep 1000; done) & wait",
			outcome: timedOut, detail: []string{"signal: terminated"},
		},
		{
			name: "returns a solution, then hangs", hangs: true, script: writesSolution + "; exec sleep 1000",
			outcome: answered, detail: []string{"reports: Optimal"},
		},
		{
			name: "returns a solution, then crashes", script: writesSolution + "; kill -SEGV $$",
			outcome: answered, detail: []string{"reports: Optimal"},
		},
	}
}

// outputs returns the faults of the output of the program.
func outputs() []fault {
	return []fault{
		{
			name: "prints garbage", script: "head -c 3000 /dev/urandom; head -c 3000 /dev/urandom > solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "prints 5 MB and crashes", script: "head -c 5000000 /dev/zero | tr '\\0' x; kill -ABRT $$",
			outcome: crashed, detail: []string{"signal: aborted"},
		},
		{
			name: "prints 5 MB of control characters and returns a solution", script: "head -c 5000000 /dev/zero; " + writesSolution,
			outcome: answered, detail: []string{"reports: Optimal"},
		},
		{
			// It prints more than is kept, and then slowly, to limit the load.
			name: "prints without end", hangs: true,
			script:  "yes 'Cbc0010I After 1000 nodes' | head -c 50000000; while :; do echo 'Cbc0010I After 1000 nodes'; sleep 0.1; done",
			outcome: timedOut, detail: []string{"After 1000 nodes"},
		},
	}
}

// claims returns the faults of the claims of the program.
func claims() []fault {
	// edited returns an edit that changes the value of the first column that is 1 in the optimal plan.
	edited := func(value string) func(*solved, *solution) {
		return func(_ *solved, s *solution) {
			for i := range s.columns {
				if s.columns[i].value == "1" {
					s.columns[i].value = value
					return
				}
			}
		}
	}
	return []fault{
		{
			name: "claims a wrong optimum", edit: func(p *solved, s *solution) { *s = *p.solution(p.smallest) },
			outcome: invalidPlan, detail: []string{"SOLVER", "reports: Optimal", "refuted: the claimed optimum is ", "exact has a plan of "},
		},
		{
			name: "reports a wrong objective", edit: func(_ *solved, s *solution) { s.objective *= 0.99 },
			outcome: invalidPlan, detail: []string{"reports: Optimal", "refuted"},
		},
		{
			name: "claims infeasibility", edit: func(_ *solved, s *solution) { s.status = "Infeasible" },
			outcome: invalidPlan, detail: []string{"reports: Infeasible, but every problem has a plan"},
		},
		{
			name: "uses more nodes than the pool has", edit: func(p *solved, s *solution) { *s = *p.solution(p.greatest) },
			outcome: invalidPlan, detail: []string{"nodes"},
		},
		{
			name: "reports NaN", edit: edited("nan"),
			outcome: invalidPlan, detail: []string{"is NaN; must be an integer"},
		},
		{
			name: "reports infinity", edit: edited("inf"),
			outcome: invalidPlan, detail: []string{"is +Inf; must be"},
		},
		{
			name: "reports half a choice", edit: edited("0.5"),
			outcome: invalidPlan, detail: []string{"is 0.5; must be an integer"},
		},
		{
			name: "reports a value out of range", edit: edited("7"),
			outcome: invalidPlan, detail: []string{"is 7; must be between 0 and 1"},
		},
		{
			name: "reports a number that exceeds a float", edit: edited("1e999"),
			outcome: crashed, detail: []string{"1e999"},
		},
		{
			name: "reports a number of 3,000 digits", edit: edited(strings.Repeat("9", 3000)),
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "reports a number of 5,000 digits", edit: edited(strings.Repeat("9", 5000)),
			outcome: crashed, detail: []string{"token too long"},
		},
		{
			name: "repeats a column", edit: func(_ *solved, s *solution) { s.columns[7] = s.columns[3] },
			outcome: crashed, detail: []string{"has two values"},
		},
		{
			name: "omits a column", edit: func(_ *solved, s *solution) { s.columns = s.columns[:len(s.columns)-1] },
			outcome: crashed, detail: []string{"column", "is missing"},
		},
		{
			name: "reports a status in bytes that are not text",
			edit: func(_ *solved, s *solution) { s.status = "Stopped on \xff\x1b[31m\x00" },
			// The plan is valid independent of the status.
			outcome: answered, detail: []string{"reports: "},
		},
	}
}

// files returns the faults of the files of the program.
func files() []fault {
	return []fault{
		{
			name: "writes an incomplete solution", script: `head -c 9000 "$SOLUTION" > solution.txt; exit 0`,
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "makes its solution a gigabyte", script: "exec truncate -s 1G solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "writes without end", script: "exec yes '17 x_9_9_9 0 0' > solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution", "signal: file size limit exceeded"},
		},
		{
			// The same for files.
			name: "writes files without end", hangs: true,
			script:  `i=0; while :; do i=$((i+1)); head -c 200000 /dev/zero > file.$i; [ $i -lt 200 ] || sleep 0.1; done`,
			outcome: timedOut, detail: []string{"no solution file; signal: "},
		},
		{
			name: "makes its solution a pipe", script: "mkfifo solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "makes its solution a pipe with a reader", script: "mkfifo solution.txt; cat solution.txt & sleep 0.05",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "makes its solution a device", script: "ln -s /dev/zero solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "makes its solution a folder", script: "mkdir solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "removes its folder", script: `rm -rf "$PWD"`,
			outcome: crashed, detail: []string{"no solution file"},
		},
	}
}
