package external

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/milp"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// suite checks the dialect of a program, in addition to the suite of package solvertest. The solver's
// directory in testdata has solutions (*.txt) and outputs (*.log) of the real program.
type suite struct {
	// new returns the backend that runs a program.
	new     func(program string) *subprocess.Backend
	dialect subprocess.Dialect
	// versions are the prefixes of the supported versions.
	versions []string
	// errors are what the program prints if its arguments are invalid. ignored are exceptions.
	// confirmations are what it prints if all arguments and the warm start are valid.
	errors, ignored, confirmations []string
	// real are the solutions in testdata by name, and files are other solution files.
	real  map[string]solution
	files map[string]solutionFile
	// outputs are the outputs in testdata by name.
	outputs map[string]parsedOutput
}

// solution is the expected content of a solution in testdata.
type solution struct {
	Status    string
	Verdict   subprocess.Verdict
	Objective float64
	// Values is the number of values, and Some are some of them.
	Values int
	Some   map[string]float64
}

// solutionFile is the content of a solution file, and the expected solution or a part of the expected error.
type solutionFile struct {
	Content string
	Want    subprocess.Solution
	Error   string
}

// parsedOutput is the parsed output of a program. Bound is NaN if the output has none.
type parsedOutput struct {
	Version string
	Bound   float64
}

// run runs the suite.
func (s suite) run(t *testing.T) {
	t.Helper()
	t.Run("probe", s.probe)
	t.Run("missing program", s.missingProgram)
	t.Run("arguments", s.arguments)
	t.Run("real solutions", s.realSolutions)
	t.Run("solution files", s.solutionFiles)
	t.Run("outputs", s.printedOutputs)
}

func (s suite) probe(t *testing.T) {
	version, err := s.new(solvertest.Program(t, s.new("").Name())).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.versions, func(prefix string) bool { return strings.HasPrefix(version, prefix) }) {
		t.Errorf("version %q; want one that begins with one of %q", version, s.versions)
	}
}

func (s suite) missingProgram(t *testing.T) {
	backend := s.new(filepath.Join(t.TempDir(), "program"))
	if version, err := backend.Probe(t.Context()); !errors.Is(err, solver.ErrUnavailable) {
		t.Errorf("Probe() = %q, %v; want an error wrapping ErrUnavailable", version, err)
	}
	p := problem.NewProblem(solvertest.Snapshots().Example(1), solver.AdmissionFIFO)
	options := problem.SolveOptions{Formulation: solver.FormulationOneHot}
	if result, err := backend.Solve(t.Context(), p, options); !errors.Is(err, solver.ErrUnavailable) {
		t.Errorf("Solve() = %+v, %v; want an error wrapping ErrUnavailable", result, err)
	}
}

// arguments checks in the output that the program accepts its arguments and the warm start.
func (s suite) arguments(t *testing.T) {
	program := solvertest.Program(t, s.new("").Name())
	p := &problem.Problem{Capacity: []int{5, 5}, Steps: 2, Jobs: []problem.AdmittedJob{
		{Demand: 3, Gain: []float64{1, 1}, Options: solver.Nodes(1, 2, 4), FirstStepWork: []float64{1, 2, 3}, StepWork: []float64{1, 2, 3}},
		{Demand: 9, Gain: []float64{1, 1}, Options: solver.Nodes(0, 1), FirstStepWork: []float64{0, 2}, StepWork: []float64{0, 2}},
	}}
	for _, formulation := range []solver.Formulation{solver.FormulationOneHot, solver.FormulationPaper} {
		t.Run(string(formulation), func(t *testing.T) {
			task := subprocess.Task{
				Dir: t.TempDir(), Model: "model.mps", Start: "start.txt", Solution: "solution.txt",
				TimeLimit: time.Minute, RelativeGap: 1e-3,
			}
			s.writeModel(t, task, p, formulation, problem.Plan{solver.Nodes(2, 4), solver.Nodes(1, 0)})
			arguments, err := s.dialect.Arguments(task)
			if err != nil {
				t.Fatal(err)
			}
			report, err := subprocess.Run(t.Context(), subprocess.Command{
				Program: program, Args: arguments, Dir: task.Dir, Env: []string{"PATH=/usr/bin:/bin"}, OutputLimit: 1 << 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			output := report.Output
			for _, ignored := range s.ignored {
				output = strings.ReplaceAll(output, ignored, "")
			}
			for _, message := range s.errors {
				if strings.Contains(output, message) {
					t.Errorf("the program prints %q", message)
				}
			}
			for _, want := range s.confirmations {
				if !strings.Contains(output, want) {
					t.Errorf("the output does not contain %q", want)
				}
			}
			if t.Failed() {
				t.Log(report.Output)
			}
		})
	}
}

// writeModel writes the files of a task.
func (s suite) writeModel(t *testing.T, task subprocess.Task, p *problem.Problem, f solver.Formulation, start problem.Plan) {
	t.Helper()
	model, err := milp.Build(p, f)
	if err != nil {
		t.Fatal(err)
	}
	var mps, values strings.Builder
	err = errors.Join(
		model.WriteMPS(&mps),
		s.dialect.WriteStart(&values, model.Columns(), model.Start(start)),
		os.WriteFile(filepath.Join(task.Dir, task.Model), []byte(mps.String()), 0o600),
		os.WriteFile(filepath.Join(task.Dir, task.Start), []byte(values.String()), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func (s suite) realSolutions(t *testing.T) {
	for name, test := range s.real {
		t.Run(name, func(t *testing.T) {
			got, err := s.dialect.ParseSolution(strings.NewReader(readTestdata(t, s.dir(), name+".txt")))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Values) != test.Values {
				t.Errorf("%d values; want %d", len(got.Values), test.Values)
			}
			for name, want := range test.Some {
				if value, ok := got.Values[name]; !ok || value != want {
					t.Errorf("%s is %v, %t; want %v", name, value, ok, want)
				}
			}
			got.Values = nil
			want := subprocess.Solution{Status: test.Status, Verdict: test.Verdict, Objective: test.Objective}
			if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("solution (-want +got):\n%s", diff)
			}
		})
	}
}

func (s suite) solutionFiles(t *testing.T) {
	for name, test := range s.files {
		t.Run(name, func(t *testing.T) {
			got, err := s.dialect.ParseSolution(strings.NewReader(test.Content))
			if test.Error != "" {
				if err == nil || !strings.Contains(err.Error(), test.Error) {
					t.Errorf("ParseSolution() = %+v, %v; want error %q", got, err, test.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.Want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("ParseSolution() (-want +got):\n%s", diff)
			}
		})
	}
}

func (s suite) printedOutputs(t *testing.T) {
	for name, want := range s.outputs {
		t.Run(name, func(t *testing.T) {
			output := readTestdata(t, s.dir(), name+".log")
			got := parsedOutput{Version: s.dialect.ParseVersion(output), Bound: s.dialect.ParseBound(output)}
			if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
	if got := s.dialect.ParseVersion("bash: no such thing\n"); got != "" {
		t.Errorf("version %q of another output; want none", got)
	}
}

// dir returns the directory of the solver in testdata.
func (s suite) dir() string { return string(s.new("").Name()) }

func readTestdata(tb testing.TB, dir, name string) string {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", dir, name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(content)
}

// fuzzSolution parses mutations of the solutions in testdata. A file without a complete solution is an error
// or a failure.
func fuzzSolution(f *testing.F, dir string, dialect subprocess.Dialect) {
	f.Helper()
	addTestdata(f, dir, "*.txt")
	f.Fuzz(func(t *testing.T, file string) {
		s, err := dialect.ParseSolution(strings.NewReader(file))
		switch {
		case err != nil && (s.Verdict != subprocess.Failed || s.Values != nil):
			t.Errorf("error %v and solution %+v", err, s)
		case err == nil && s.Verdict == subprocess.Feasible && (s.Values == nil || math.IsNaN(s.Objective)):
			t.Errorf("a plan without values or objective: %+v", s)
		case len(s.Values) > strings.Count(file, "\n"):
			t.Errorf("%d values of %d lines", len(s.Values), strings.Count(file, "\n"))
		}
		for name := range s.Values {
			if name == "" || !strings.Contains(file, name) {
				t.Errorf("the file has no column %q", name)
			}
		}
	})
}

// fuzzOutput parses version and bound in mutations of the outputs in testdata.
func fuzzOutput(f *testing.F, dir string, dialect subprocess.Dialect) {
	f.Helper()
	addTestdata(f, dir, "*.log")
	f.Fuzz(func(t *testing.T, output string) {
		if version := dialect.ParseVersion(output); strings.TrimSpace(version) != version || strings.Contains(version, "\n") {
			t.Errorf("version %q is not a word of one line", version)
		}
		if bound := dialect.ParseBound(output); math.IsInf(bound, 0) {
			t.Errorf("bound %v", bound)
		}
	})
}

// addTestdata adds the files in testdata whose names match a pattern.
func addTestdata(f *testing.F, dir, pattern string) {
	f.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", dir, pattern))
	if err != nil || len(names) == 0 {
		f.Fatalf("no files %s in testdata: %v", pattern, err)
	}
	for _, name := range names {
		f.Add(readTestdata(f, dir, filepath.Base(name)))
	}
}
