//go:build unix

package subprocess

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/milp"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// plain is the dialect of the shell scripts of these tests. A solution has the status on the first line, then
// a name and a value per line.
type plain struct{ unsupported error }

func (plain) DisplayName() string { return "Plain" }

func (d plain) Arguments(task Task) ([]string, error) {
	return []string{task.Model, task.Solution, task.Start, task.TimeLimit.String(), number(task.RelativeGap)}, d.unsupported
}

func (plain) WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error {
	fmt.Fprintln(w, columns)
	for name, value := range values {
		fmt.Fprintln(w, name, value)
	}
	return nil
}

func (plain) ParseSolution(r io.Reader) (Solution, error) {
	verdicts := map[string]Verdict{"optimal": Optimal, "feasible": Feasible, "late": TimedOut, "infeasible": Infeasible}
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		return Solution{}, errors.New("empty")
	}
	s := Solution{Status: lines.Text(), Verdict: verdicts[lines.Text()], Objective: -1.5, Values: map[string]float64{}}
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return Solution{}, err
		}
		s.Values[name] = value
	}
	return s, nil
}

func (plain) ParseBound(output string) float64 {
	if strings.Contains(output, "bound") {
		return -1.75
	}
	return math.NaN()
}

func (plain) VersionArguments() []string { return []string{"version"} }

func (plain) ParseVersion(output string) string {
	version, _, _ := strings.Cut(output, "\n")
	return strings.TrimPrefix(version, "Plain ")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// oneJob returns a problem with one step and one job of the sizes 1 and 2. Its columns are x_1_1_1, x_1_1_2
// and s_1_1.
func oneJob(nodes int) *problem.Problem {
	return &problem.Problem{Capacity: []int{nodes}, Steps: 1, Jobs: []problem.AdmittedJob{{
		Demand: 2, Gain: []float64{1, 1}, Options: solver.Nodes(1, 2), FirstStepWork: []float64{1, 2}, StepWork: []float64{1, 2},
	}}}
}

// solverScript returns a script that prints a version and writes a solution.
func solverScript(t *testing.T, solution string, more ...string) string {
	t.Helper()
	lines := append([]string{"echo Plain 1.2", "cat > solution.txt <<END", solution, "END"}, more...)
	return script(t, lines...)
}

const (
	oneNode  = "x_1_1_1 1\nx_1_1_2 0\ns_1_1 1"
	twoNodes = "x_1_1_1 0\nx_1_1_2 1\ns_1_1 2"
)

func oneHot() problem.SolveOptions {
	return problem.SolveOptions{Formulation: solver.FormulationOneHot}
}

// emptyTempDir sets TMPDIR to a directory that must be empty at the end of the test.
func emptyTempDir(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			t.Errorf("remaining temporary directories: %v, %v", entries, err)
		}
	})
}

func TestBackendResults(t *testing.T) {
	// The solver reports values in the units of the model.
	model, err := milp.Build(oneJob(2), solver.FormulationOneHot)
	if err != nil {
		t.Fatal(err)
	}
	objective, bound := model.Objective(-1.5), model.Objective(-1.75)
	tests := []struct {
		name    string
		program string
		want    problem.Result
	}{
		{
			name:    "optimal",
			program: solverScript(t, "optimal\n"+twoNodes, "echo bound"),
			want: problem.Result{
				Plan: problem.Plan{solver.Nodes(2)}, Bound: math.Inf(1), Limit: solver.LimitNone,
				Claim:  &problem.Claim{Optimal: true, Objective: objective, Bound: bound},
				Detail: fmt.Sprintf("Plain 1.2 reports: optimal, objective %.10g, bound %.10g", objective, bound),
			},
		},
		{
			name:    "feasible, with exit status 1",
			program: solverScript(t, "feasible\n"+oneNode, "exit 1"),
			want: problem.Result{
				Plan: problem.Plan{solver.Nodes(1)}, Bound: math.Inf(1), Limit: solver.LimitTime,
				Claim:  &problem.Claim{Objective: objective, Bound: math.NaN()},
				Detail: fmt.Sprintf("Plain 1.2 reports: feasible, objective %.10g", objective),
			},
		},
		{
			name:    "crashed after writing the solution",
			program: solverScript(t, "optimal\nx_1_1_1 0.000001\nx_1_1_2 0.999999\ns_1_1 2", "kill -SEGV $$"),
			want: problem.Result{
				Plan: problem.Plan{solver.Nodes(2)}, Bound: math.Inf(1), Limit: solver.LimitNone,
				Claim:  &problem.Claim{Optimal: true, Objective: objective, Bound: math.NaN()},
				Detail: fmt.Sprintf("Plain 1.2 reports: optimal, objective %.10g", objective),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			emptyTempDir(t)
			b := NewBackend(solver.BackendCBC, test.program, plain{})
			got, err := b.Solve(t.Context(), oneJob(2), oneHot())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("Solve() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackendErrors(t *testing.T) {
	tests := []struct {
		name        string
		program     string
		unsupported error
		is          error  // an error of package problem, or nil
		message     string // part of the error
	}{
		{
			name: "no program", program: "elastalloc-no-such-program",
			is: solver.ErrUnavailable, message: "executable file not found",
		},
		{
			name: "an unsupported task", program: script(t), unsupported: errors.New("no such option"),
			is: solver.ErrUnavailable, message: "no such option",
		},
		{
			name: "no solution", program: script(t, "echo one; echo two; echo three; echo four; exit 2"),
			message: `Plain has no complete solution: no solution file; exit status 2, last output "two | three | four"`,
		},
		{
			name: "an assertion", program: script(t, "echo ClpNonLinearCost.cpp: assertion; kill -ABRT $$"),
			message: `no solution file; signal: aborted`,
		},
		{name: "no output", program: script(t), message: "exit status 0, no output"},
		{name: "a pipe", program: script(t, "mkfifo solution.txt"), message: "no complete solution: not a regular file: p"},
		{name: "a link", program: script(t, "ln -s /dev/zero solution.txt"), message: "no complete solution: not a regular file: L"},
		{name: "an invalid number", program: solverScript(t, "optimal\nx_1_1_1 one"), message: `parsing "one"`},
		{name: "a truncated solution", program: solverScript(t, "optimal\nx_1_1_1 1\nx_1_1_2 0"),
			message: "no complete solution: column s_1_1 is missing; exit status 0"},
		{name: "an unknown status", program: solverScript(t, "difficulties"), message: "Plain 1.2 reports: difficulties; exit status 0"},
		{
			name: "no plan in time", program: solverScript(t, "late"),
			is: solver.ErrTimedOut, message: "Plain 1.2 reports: late",
		},
		{
			name: "infeasible", program: solverScript(t, "infeasible"),
			is: solver.ErrInvalidPlan, message: "Plain 1.2 reports: infeasible, but every problem has a plan",
		},
		{
			name: "a fraction", program: solverScript(t, "optimal\nx_1_1_1 0.5\nx_1_1_2 0.5\ns_1_1 1"),
			is: solver.ErrInvalidPlan, message: "x_1_1_1 is 0.5",
		},
		{
			name: "not a number", program: solverScript(t, "optimal\nx_1_1_1 NaN\nx_1_1_2 0\ns_1_1 1"),
			is: solver.ErrInvalidPlan, message: "x_1_1_1 is NaN",
		},
		{
			name: "too many nodes", program: solverScript(t, "optimal\n"+twoNodes),
			is: solver.ErrInvalidPlan, message: "plan uses 2 nodes in step 1; the pool has 1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			emptyTempDir(t)
			b := NewBackend(solver.BackendCBC, test.program, plain{unsupported: test.unsupported})
			got, err := b.Solve(t.Context(), oneJob(1), oneHot())
			if err == nil {
				t.Fatalf("Solve() = %+v; want an error", got)
			}
			if !strings.Contains(err.Error(), test.message) {
				t.Errorf("error %q; want one with %q", err, test.message)
			}
			for _, kind := range []error{solver.ErrUnavailable, solver.ErrTimedOut, solver.ErrInvalidPlan} {
				if errors.Is(err, kind) != (kind == test.is) {
					t.Errorf("error %q is %q: %t", err, kind, kind != test.is)
				}
			}
		})
	}
}

// TestEndlessSolution checks that reading a solution file stops at its maximum size.
func TestEndlessSolution(t *testing.T) {
	emptyTempDir(t)
	program := script(t, "yes 'x_1_1_1 1' | head -c 30000000 > solution.txt")
	_, err := NewBackend(solver.BackendCBC, program, plain{}).Solve(t.Context(), oneJob(1), oneHot())
	if err == nil {
		t.Error("Solve() has a plan")
	}
}

// TestSolverStopped checks a solver that is stopped at the deadline: its solution is used if it is complete.
// The deadline is increased until the solver has reached the point at which it hangs, because that takes
// longer on a busy machine.
func TestSolverStopped(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	hang := "touch " + marker + "; while :; do sleep 1000; done"
	for name, test := range map[string]struct {
		program string
		want    error
	}{
		"with a solution":      {solverScript(t, "feasible\n"+oneNode, hang), nil},
		"with half a solution": {solverScript(t, "feasible\nx_1_1_1 1", hang), solver.ErrTimedOut},
		"without any plan":     {solverScript(t, "infeasible", hang), solver.ErrTimedOut},
		"with half a line":     {solverScript(t, "feasible\nx_1_1_1 on", hang), solver.ErrTimedOut},
		"without":              {script(t, "trap '' TERM", hang), solver.ErrTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			emptyTempDir(t)
			var (
				got problem.Result
				err error
			)
			for limit := 250 * time.Millisecond; limit < 5*time.Minute; limit *= 4 {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				got, err = NewBackend(solver.BackendCBC, test.program, plain{}).Solve(ctx, oneJob(1), oneHot())
				cancel()
				if os.Remove(marker) == nil {
					break
				}
			}
			if !errors.Is(err, test.want) {
				t.Fatalf("Solve() = %+v, %v; want error %v", got, err, test.want)
			}
			if err == nil && got.Limit != solver.LimitTime {
				t.Errorf("limit %s; want %s", got.Limit, solver.LimitTime)
			}
		})
	}
}

// TestSolverTimeLimit checks a solver that exits by itself, without a solution, after its own time limit.
func TestSolverTimeLimit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	program := script(t, `sleep "${4%s}"; echo reader reached time limit; exit 255`)
	got, err := NewBackend(solver.BackendHiGHS, program, plain{}).Solve(ctx, oneJob(1), oneHot())
	if !errors.Is(err, solver.ErrTimedOut) {
		t.Errorf("Solve() = %+v, %v; want an error wrapping ErrTimedOut", got, err)
	}
}

func TestCancellation(t *testing.T) {
	emptyTempDir(t)
	pipe := newExitPipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		program := script(t, "exec 3>"+pipe.path, "echo ready >&3", "sleep 1000")
		_, err := NewBackend(solver.BackendCBC, program, plain{}).Solve(ctx, oneJob(1), oneHot())
		done <- err
	}()
	pipe.line(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want context.Canceled", err)
	}
	pipe.waitForExit(t)
}

// TestIncumbent checks the warm start that the solver reads: a value for every column.
func TestIncumbent(t *testing.T) {
	for name, test := range map[string]struct {
		incumbent problem.Plan
		want      string
	}{
		"legal":   {problem.Plan{solver.Nodes(1)}, "start.txt | 3 | x_1_1_1 1 | x_1_1_2 0 | s_1_1 1"},
		"illegal": {problem.Plan{solver.Nodes(2)}, "none"},
		"none":    {nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			options := oneHot()
			options.Incumbent = test.incumbent
			dir := t.TempDir()
			program := solverScript(t, "optimal\n"+oneNode,
				`if [ -n "$3" ]; then (echo "$3"; cat "$3"); else echo none; fi > `+dir+`/seen`)
			if _, err := NewBackend(solver.BackendCBC, program, plain{}).Solve(t.Context(), oneJob(1), options); err != nil {
				t.Fatal(err)
			}
			seen, err := os.ReadFile(dir + "/seen")
			if err != nil {
				t.Fatal(err)
			}
			if got := lastLines(string(seen), 10, quotedLength); got != test.want {
				t.Errorf("the solver read %q; want %q", got, test.want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	emptyTempDir(t)
	for name, test := range map[string]struct{ program, version string }{
		"the solver":        {script(t, `[ "$1" = version ] && echo Plain 1.2`), "1.2"},
		"another program":   {script(t, "exit 3"), ""},
		"a missing program": {"elastalloc-no-such-program", ""},
		"a killed program":  {script(t, "kill -KILL $$"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBackend(solver.BackendCBC, test.program, plain{})
			version, err := b.Probe(t.Context())
			if version != test.version || (test.version == "") != errors.Is(err, solver.ErrUnavailable) {
				t.Errorf("Probe() = %q, %v; want %q", version, err, test.version)
			}
		})
	}
}
