package cbc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/milp"
	"github.com/elastalloc/elastalloc/solver/solvertest"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// The tests of this file run the program; what it answers is the matter of the
// conformance suite in solvertest.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProbe(t *testing.T) {
	version, err := New(solvertest.Program(t, solver.BackendCBC)).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version, "2.") && !strings.HasPrefix(version, "3.") && version != "devel" {
		t.Errorf("version %q; want one of CBC", version)
	}
}

func TestMissingProgram(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "cbc"))
	if version, err := s.Probe(t.Context()); !errors.Is(err, solver.ErrUnavailable) {
		t.Errorf("Probe() = %q, %v; want an error wrapping ErrUnavailable", version, err)
	}
	p := solver.NewProblem(solvertest.Snapshots().Example(1), solver.AdmissionFIFO)
	options := solver.SolveOptions{Formulation: solver.FormulationOneHot}
	if result, err := s.Solve(t.Context(), p, options); !errors.Is(err, solver.ErrUnavailable) {
		t.Errorf("Solve() = %+v, %v; want an error wrapping ErrUnavailable", result, err)
	}
}

// TestArgumentsAreUnderstood checks that the program knows each of its arguments
// and takes the warm start, of which only its output tells.
func TestArgumentsAreUnderstood(t *testing.T) {
	program := solvertest.Program(t, solver.BackendCBC)
	for _, formulation := range []solver.Formulation{solver.FormulationOneHot, solver.FormulationPaper} {
		t.Run(string(formulation), func(t *testing.T) {
			task := subprocess.Task{
				Dir: t.TempDir(), Model: "model.mps", Start: "start.txt", Solution: "solution.txt",
				TimeLimit: time.Minute, RelativeGap: 1e-3,
			}
			p := &solver.Problem{Capacity: []int{5, 5}, Steps: 2, Jobs: []solver.AdmittedJob{
				{Demand: 3, Gain: []float64{1, 1}, Sizes: []int{1, 2, 4}, FirstStepWork: []float64{1, 2, 3}, StepWork: []float64{1, 2, 3}},
				{Demand: 9, Gain: []float64{1, 1}, Sizes: []int{0, 1}, FirstStepWork: []float64{0, 2}, StepWork: []float64{0, 2}},
			}}
			writeModel(t, task, p, formulation, solver.Plan{{2, 4}, {1, 0}})
			arguments, err := dialect{}.Arguments(task)
			if err != nil {
				t.Fatal(err)
			}
			report, err := subprocess.Run(t.Context(), subprocess.Command{
				Program: program, Args: arguments, Dir: task.Dir, OutputLimit: 1 << 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, complaint := range []string{"No match", "out of range", "not valid", "errors on input", "mipstart values could not"} {
				if strings.Contains(report.Output, complaint) {
					t.Errorf("the program complains: %q", complaint)
				}
			}
			for _, want := range []string{
				"MIPStart values read for", "timeMode changed from cpu to elapsed", "seconds was changed", "MIPStart provided solution",
			} {
				if !strings.Contains(report.Output, want) {
					t.Errorf("the output does not say %q", want)
				}
			}
			if t.Failed() {
				t.Log(report.Output)
			}
		})
	}
}

// writeModel writes the files of a task.
func writeModel(t *testing.T, task subprocess.Task, p *solver.Problem, f solver.Formulation, start solver.Plan) {
	t.Helper()
	model, err := milp.Build(p, f)
	if err != nil {
		t.Fatal(err)
	}
	var mps, values strings.Builder
	err = errors.Join(
		model.WriteMPS(&mps),
		dialect{}.WriteStart(&values, model.Columns(), model.Start(start)),
		os.WriteFile(filepath.Join(task.Dir, task.Model), []byte(mps.String()), 0o600),
		os.WriteFile(filepath.Join(task.Dir, task.Start), []byte(values.String()), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
}
