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
)

// plain is the dialect of the programs of these tests, which are shell scripts:
// the status on the first line of a solution, then a name and a value per line.
type plain struct{ refuse error }

func (plain) Title() string { return "Plain" }

func (d plain) Arguments(task Task) ([]string, error) {
	return []string{task.Model, task.Solution, task.Start, task.TimeLimit.String(), number(task.RelativeGap)}, d.refuse
}

func (plain) WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error {
	fmt.Fprintln(w, columns)
	for name, value := range values {
		fmt.Fprintln(w, name, value)
	}
	return nil
}

func (plain) ParseSolution(r io.Reader) (Solution, error) {
	verdicts := map[string]Verdict{"optimal": Optimal, "feasible": Feasible, "late": TimeUp, "infeasible": Infeasible}
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

// oneJob has one step and a job of the sizes 1 and 2, so the columns x_1_1_1,
// x_1_1_2 and s_1_1. The pool has a node, or two.
func oneJob(nodes int) *solver.Problem {
	return &solver.Problem{Capacity: []int{nodes}, Steps: 1, Jobs: []solver.AdmittedJob{{
		Demand: 2, Gain: []float64{1, 1}, Options: solver.Nodes(1, 2), FirstStepWork: []float64{1, 2}, StepWork: []float64{1, 2},
	}}}
}

// writes returns a script that prints a version and writes a solution.
func writes(t *testing.T, solution string, more ...string) string {
	t.Helper()
	lines := append([]string{"echo Plain 1.2", "cat > solution.txt <<END", solution, "END"}, more...)
	return script(t, lines...)
}

const (
	oneNode  = "x_1_1_1 1\nx_1_1_2 0\ns_1_1 1"
	twoNodes = "x_1_1_1 0\nx_1_1_2 1\ns_1_1 2"
)

func oneHot() solver.SolveOptions { return solver.SolveOptions{Formulation: solver.FormulationOneHot} }

// emptyTempDir has temporary folders made in a folder of their own, which must be
// empty at the end of the test.
func emptyTempDir(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind in the temporary folder: %v, %v", left, err)
		}
	})
}

func TestBackendResults(t *testing.T) {
	// What the solver says is in the units of the model.
	model, err := milp.Build(oneJob(2), solver.FormulationOneHot)
	if err != nil {
		t.Fatal(err)
	}
	objective, bound := model.Objective(-1.5), model.Objective(-1.75)
	tests := []struct {
		name    string
		program string
		want    solver.Result
	}{
		{
			name:    "optimal",
			program: writes(t, "optimal\n"+twoNodes, "echo bound"),
			want: solver.Result{
				Plan: solver.Plan{solver.Nodes(2)}, Bound: math.Inf(1), Limit: solver.LimitNone,
				Claim:  &solver.Claim{Optimal: true, Objective: objective, Bound: bound},
				Detail: fmt.Sprintf("Plain 1.2 says: optimal, objective %.10g, bound %.10g", objective, bound),
			},
		},
		{
			name:    "stopped, whatever its exit status",
			program: writes(t, "feasible\n"+oneNode, "exit 1"),
			want: solver.Result{
				Plan: solver.Plan{solver.Nodes(1)}, Bound: math.Inf(1), Limit: solver.LimitTime,
				Claim:  &solver.Claim{Objective: objective, Bound: math.NaN()},
				Detail: fmt.Sprintf("Plain 1.2 says: feasible, objective %.10g", objective),
			},
		},
		{
			name:    "crashed after all was written",
			program: writes(t, "optimal\nx_1_1_1 0.000001\nx_1_1_2 0.999999\ns_1_1 2", "kill -SEGV $$"),
			want: solver.Result{
				Plan: solver.Plan{solver.Nodes(2)}, Bound: math.Inf(1), Limit: solver.LimitNone,
				Claim:  &solver.Claim{Optimal: true, Objective: objective, Bound: math.NaN()},
				Detail: fmt.Sprintf("Plain 1.2 says: optimal, objective %.10g", objective),
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
		name    string
		program string
		refuse  error
		is      error  // nil: none of those of the backend
		says    string // part of the error
	}{
		{
			name: "no program", program: "elastalloc-no-such-program",
			is: solver.ErrUnavailable, says: "executable file not found",
		},
		{
			name: "a task that it cannot do", program: script(t), refuse: errors.New("no such option"),
			is: solver.ErrUnavailable, says: "no such option",
		},
		{
			name: "no solution", program: script(t, "echo one; echo two; echo three; echo four; exit 2"),
			says: `Plain has no whole solution: it wrote none; exit status 2 after printing "two | three | four"`,
		},
		{
			name: "an assertion", program: script(t, "echo ClpNonLinearCost.cpp: assertion; kill -ABRT $$"),
			says: `it wrote none; signal: aborted`,
		},
		{name: "nothing at all", program: script(t), says: "exit status 0 without printing anything"},
		{name: "a pipe", program: script(t, "mkfifo solution.txt"), says: "no whole solution: not a regular file: p"},
		{name: "a link", program: script(t, "ln -s /dev/zero solution.txt"), says: "no whole solution: not a regular file: L"},
		{name: "a bad solution", program: writes(t, "optimal\nx_1_1_1 one"), says: `parsing "one"`},
		{name: "a solution cut off", program: writes(t, "optimal\nx_1_1_1 1\nx_1_1_2 0"), says: "no whole solution: it lacks column s_1_1; exit status 0"},
		{name: "a failure in its words", program: writes(t, "difficulties"), says: "Plain 1.2 says: difficulties; exit status 0"},
		{
			name: "no plan in time", program: writes(t, "late"),
			is: solver.ErrTimedOut, says: "Plain 1.2 says: late",
		},
		{
			name: "no plan at all", program: writes(t, "infeasible"),
			is: solver.ErrInvalidPlan, says: "Plain 1.2 says: infeasible, but every problem has a plan",
		},
		{
			name: "a fraction", program: writes(t, "optimal\nx_1_1_1 0.5\nx_1_1_2 0.5\ns_1_1 1"),
			is: solver.ErrInvalidPlan, says: "x_1_1_1 is 0.5",
		},
		{
			name: "not a number", program: writes(t, "optimal\nx_1_1_1 NaN\nx_1_1_2 0\ns_1_1 1"),
			is: solver.ErrInvalidPlan, says: "x_1_1_1 is NaN",
		},
		{
			name: "more nodes than there are", program: writes(t, "optimal\n"+twoNodes),
			is: solver.ErrInvalidPlan, says: "plan uses 2 nodes in step 1; the pool has 1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			emptyTempDir(t)
			b := NewBackend(solver.BackendCBC, test.program, plain{refuse: test.refuse})
			got, err := b.Solve(t.Context(), oneJob(1), oneHot())
			if err == nil {
				t.Fatalf("Solve() = %+v; want an error", got)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %q; want one with %q", err, test.says)
			}
			for _, kind := range []error{solver.ErrUnavailable, solver.ErrTimedOut, solver.ErrInvalidPlan} {
				if errors.Is(err, kind) != (kind == test.is) {
					t.Errorf("error %q is %q: %t", err, kind, kind != test.is)
				}
			}
		})
	}
}

// TestEndlessSolution checks that a solution file is read up to what it may need.
func TestEndlessSolution(t *testing.T) {
	emptyTempDir(t)
	program := script(t, "yes 'x_1_1_1 1' | head -c 30000000 > solution.txt")
	_, err := NewBackend(solver.BackendCBC, program, plain{}).Solve(t.Context(), oneJob(1), oneHot())
	if err == nil {
		t.Error("Solve() has a plan")
	}
}

// TestSolverStopped checks a solver that does not end in time: what it has written
// by then is its answer, if it is whole. Its time is longer each time until it has come
// to hang, which takes a moment on a busy machine.
func TestSolverStopped(t *testing.T) {
	hangs := filepath.Join(t.TempDir(), "hangs")
	hang := "touch " + hangs + "; while :; do sleep 1000; done"
	for name, test := range map[string]struct {
		program string
		want    error
	}{
		"with a solution":      {writes(t, "feasible\n"+oneNode, hang), nil},
		"with half a solution": {writes(t, "feasible\nx_1_1_1 1", hang), solver.ErrTimedOut},
		"without any plan":     {writes(t, "infeasible", hang), solver.ErrTimedOut},
		"with half a line":     {writes(t, "feasible\nx_1_1_1 on", hang), solver.ErrTimedOut},
		"without":              {script(t, "trap '' TERM", hang), solver.ErrTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			emptyTempDir(t)
			var (
				got solver.Result
				err error
			)
			for limit := 250 * time.Millisecond; limit < 5*time.Minute; limit *= 4 {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				got, err = NewBackend(solver.BackendCBC, test.program, plain{}).Solve(ctx, oneJob(1), oneHot())
				cancel()
				if os.Remove(hangs) == nil {
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

// TestSolverGivesUpInTime checks one that ends by itself, without a solution, once
// the limit that it was told has passed.
func TestSolverGivesUpInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	program := script(t, `sleep "${4%s}"; echo reader reached time limit; exit 255`)
	got, err := NewBackend(solver.BackendHiGHS, program, plain{}).Solve(ctx, oneJob(1), oneHot())
	if !errors.Is(err, solver.ErrTimedOut) {
		t.Errorf("Solve() = %+v, %v; want an error wrapping ErrTimedOut", got, err)
	}
}

func TestCallerLeaves(t *testing.T) {
	emptyTempDir(t)
	life := newLifeline(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		program := script(t, "exec 3>"+life.path, "echo ready >&3", "sleep 1000")
		_, err := NewBackend(solver.BackendCBC, program, plain{}).Solve(ctx, oneJob(1), oneHot())
		done <- err
	}()
	life.line(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want context.Canceled", err)
	}
	life.waitForEnd(t)
}

// TestIncumbent checks what arrives at the solver: a value for every column.
func TestIncumbent(t *testing.T) {
	for name, test := range map[string]struct {
		incumbent solver.Plan
		want      string
	}{
		"legal":   {solver.Plan{solver.Nodes(1)}, "start.txt | 3 | x_1_1_1 1 | x_1_1_2 0 | s_1_1 1"},
		"illegal": {solver.Plan{solver.Nodes(2)}, "none"},
		"none":    {nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			options := oneHot()
			options.Incumbent = test.incumbent
			dir := t.TempDir()
			program := writes(t, "optimal\n"+oneNode,
				`if [ -n "$3" ]; then (echo "$3"; cat "$3"); else echo none; fi > `+dir+`/seen`)
			if _, err := NewBackend(solver.BackendCBC, program, plain{}).Solve(t.Context(), oneJob(1), options); err != nil {
				t.Fatal(err)
			}
			seen, err := os.ReadFile(dir + "/seen")
			if err != nil {
				t.Fatal(err)
			}
			if got := lastLines(string(seen), 10, quotedLength); got != test.want {
				t.Errorf("the solver saw %q; want %q", got, test.want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	emptyTempDir(t)
	for name, test := range map[string]struct{ program, version string }{
		"the solver":      {script(t, `[ "$1" = version ] && echo Plain 1.2`), "1.2"},
		"something else":  {script(t, "exit 3"), ""},
		"nothing":         {"elastalloc-no-such-program", ""},
		"a silent failer": {script(t, "kill -KILL $$"), ""},
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
