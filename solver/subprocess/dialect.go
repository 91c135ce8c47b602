package subprocess

import (
	"io"
	"iter"
	"time"
)

// Dialect defines the arguments and the file formats of a MILP solver. Its methods have no side effects
// except for the files that they write.
type Dialect interface {
	// DisplayName returns the name of the solver for people.
	DisplayName() string
	// Arguments returns the command line for a task, with file names relative to the task's folder. It
	// may write further files into that folder. An error means that the solver does not support the
	// task.
	Arguments(task Task) ([]string, error)
	// WriteStart writes a warm start: the value of each column of the model, in order. The caller
	// detects errors of w when it flushes w, so that they may be ignored.
	WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error
	// ParseSolution parses a solution file.
	ParseSolution(r io.Reader) (Solution, error)
	// ParseBound returns the bound that the output reports, in the units of the model, or NaN if there
	// is none.
	ParseBound(output string) float64
	// VersionArguments returns the command line that prints the version.
	VersionArguments() []string
	// ParseVersion returns the version that every output contains, or "" if there is none.
	ParseVersion(output string) string
}

// Task is one run of a solver.
type Task struct {
	// Dir is the working directory of the run.
	Dir string
	// Model, Start and Solution are names of files in Dir. Start is "" if there is no warm start. The
	// solver writes Solution.
	Model, Start, Solution string
	// TimeLimit is the limit of the wall-clock time, 0 for no limit.
	TimeLimit time.Duration
	// RelativeGap is the gap at which the solver stops, as in problem.SolveOptions.
	RelativeGap float64
}

// Solution is the content of a solution file.
type Solution struct {
	// Status is the status of the run in the words of the solver.
	Status string
	// Verdict is the meaning of Status.
	Verdict Verdict
	// Objective is the objective that the solver reports, in the units of the model, or NaN if it
	// reports none.
	Objective float64
	// Values has the values of the columns, and maybe of rows, by name. It is set only if Verdict is
	// Optimal or Feasible.
	Values map[string]float64
}

// Verdict is the meaning of a solver's status.
type Verdict int

// The verdicts.
const (
	Failed     Verdict = iota // no solution, for any other reason
	TimedOut                  // no solution when the time limit expired
	Infeasible                // the solver claims that there is no solution
	Feasible                  // a solution of an incomplete search
	Optimal                   // a solution that the solver claims to be optimal
)
