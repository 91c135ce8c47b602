//go:build linux

package faults

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// solverFaults returns the ways in which solvers fail, those of the real ones and
// worse.
func solverFaults() []fault {
	faults := endings()
	faults = append(faults, outputs()...)
	faults = append(faults, lies()...)
	return append(faults, files()...)
}

// endings are the faults of how and when the program ends.
func endings() []fault {
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
			name: "is gone since the start", before: remove,
			outcome: unavailable, detail: []string{"no such file or directory"},
		},
		{
			name: "is not executable any more", before: notExecutable,
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
			name: "is killed from outside", script: "exec sleep 1000", during: kill,
			outcome: crashed, detail: []string{"signal: killed"},
		},
		{
			name: "fails", script: "echo 'no licence found' >&2; exit 3",
			outcome: crashed, detail: []string{"no solution file; exit status 3", "no licence found"},
		},
		{
			name: "does nothing", script: "exit 0",
			outcome: crashed, detail: []string{"no solution file; exit status 0"},
		},
		{
			name:    "answers and leaves children behind",
			script:  "sleep 1000 & (trap '' TERM HUP; exec sleep 1000) & " + writesAnswer,
			outcome: answered,
		},
		{
			name: "hangs with children that ignore TERM", hangs: true,
			script:  "(trap '' TERM; while :; do sleep 1000; done) & (trap '' TERM; while :; do sleep 1000; done) & wait",
			outcome: timedOut, detail: []string{"signal: terminated"},
		},
		{
			name: "answers, then hangs", hangs: true, script: writesAnswer + "; exec sleep 1000",
			outcome: answered, detail: []string{"reports: Optimal"},
		},
		{
			name: "answers, then crashes", script: writesAnswer + "; kill -SEGV $$",
			outcome: answered, detail: []string{"reports: Optimal"},
		},
	}
}

// outputs are the faults of what the program prints.
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
			name: "prints 5 MB of control characters and answers", script: "head -c 5000000 /dev/zero; " + writesAnswer,
			outcome: answered, detail: []string{"reports: Optimal"},
		},
		{
			// More than anybody keeps, then slowly, lest it take the machine.
			name: "prints without end", hangs: true,
			script:  "yes 'Cbc0010I After 1000 nodes' | head -c 50000000; while :; do echo 'Cbc0010I After 1000 nodes'; sleep 0.1; done",
			outcome: timedOut, detail: []string{"After 1000 nodes"},
		},
	}
}

// lies are the faults of what the program claims.
func lies() []fault {
	// edited returns a lie that changes the value of a column, the first that the
	// optimal plan has at 1.
	edited := func(value string) func(*problem, *solution) {
		return func(_ *problem, s *solution) {
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
			name: "claims a wrong optimum", lie: func(p *problem, s *solution) { *s = *p.solution(p.smallest) },
			outcome: invalidPlan, detail: []string{"SOLVER", "reports: Optimal", "refuted: the claimed optimum is ", "exact has a plan of "},
		},
		{
			name: "works out a wrong objective", lie: func(_ *problem, s *solution) { s.objective *= 0.99 },
			outcome: invalidPlan, detail: []string{"reports: Optimal", "refuted"},
		},
		{
			name: "claims infeasibility", lie: func(_ *problem, s *solution) { s.status = "Infeasible" },
			outcome: invalidPlan, detail: []string{"reports: Infeasible, but every problem has a plan"},
		},
		{
			name: "uses more nodes than there are", lie: func(p *problem, s *solution) { *s = *p.solution(p.greatest) },
			outcome: invalidPlan, detail: []string{"nodes"},
		},
		{
			name: "says NaN", lie: edited("nan"),
			outcome: invalidPlan, detail: []string{"is NaN; must be an integer"},
		},
		{
			name: "says infinity", lie: edited("inf"),
			outcome: invalidPlan, detail: []string{"is +Inf; must be"},
		},
		{
			name: "says half a choice", lie: edited("0.5"),
			outcome: invalidPlan, detail: []string{"is 0.5; must be an integer"},
		},
		{
			name: "says a value out of range", lie: edited("7"),
			outcome: invalidPlan, detail: []string{"is 7; must be between 0 and 1"},
		},
		{
			name: "says a number that no float holds", lie: edited("1e999"),
			outcome: crashed, detail: []string{"1e999"},
		},
		{
			name: "says a number of 3,000 digits", lie: edited(strings.Repeat("9", 3000)),
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "says a number of 5,000 digits", lie: edited(strings.Repeat("9", 5000)),
			outcome: crashed, detail: []string{"token too long"},
		},
		{
			name: "says a column twice", lie: func(_ *problem, s *solution) { s.columns[7] = s.columns[3] },
			outcome: crashed, detail: []string{"has two values"},
		},
		{
			name: "leaves a column out", lie: func(_ *problem, s *solution) { s.columns = s.columns[:len(s.columns)-1] },
			outcome: crashed, detail: []string{"column", "is missing"},
		},
		{
			name: "names its status in bytes that are not text",
			lie:  func(_ *problem, s *solution) { s.status = "Stopped on \xff\x1b[31m\x00" },
			// Whatever it calls it, the plan is good.
			outcome: answered, detail: []string{"reports: "},
		},
	}
}

// files are the faults of what the program does with its folder.
func files() []fault {
	return []fault{
		{
			name: "stops writing in the middle", script: `head -c 9000 "$ANSWER" > solution.txt; exit 0`,
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
			// So it is with files.
			name: "writes files without end", hangs: true,
			script:  `i=0; while :; do i=$((i+1)); head -c 200000 /dev/zero > file.$i; [ $i -lt 200 ] || sleep 0.1; done`,
			outcome: timedOut, detail: []string{"no solution file; signal: "},
		},
		{
			name: "makes its solution a pipe", script: "mkfifo solution.txt",
			outcome: crashed, detail: []string{"SOLVER has no complete solution"},
		},
		{
			name: "makes its solution a pipe that somebody reads", script: "mkfifo solution.txt; cat solution.txt & sleep 0.05",
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
