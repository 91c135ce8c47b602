package subprocess

import (
	"io"
	"iter"
	"time"
)

// Dialect is what differs between MILP solvers. All of its methods are pure apart
// from the files that they are told to write.
type Dialect interface {
	// Title returns the name of the solver for a person.
	Title() string
	// Arguments returns the command line for a task, whose files are named relative
	// to its folder, and writes what else the solver needs into that folder. An
	// error means that the solver cannot do what the task asks.
	Arguments(task Task) ([]string, error)
	// WriteStart writes a warm start: a value for each of the model's columns, in
	// their order. An error of the writer may be left for its flush.
	WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error
	// ParseSolution parses a solution file.
	ParseSolution(r io.Reader) (Solution, error)
	// ParseBound returns the bound that the output claims, in the units of the
	// model, and NaN where it claims none.
	ParseBound(output string) float64
	// VersionArguments returns the command line that prints the version.
	VersionArguments() []string
	// ParseVersion returns the version that is part of any output, or nothing.
	ParseVersion(output string) string
}

// Task is one run of a solver.
type Task struct {
	// Dir is the folder of the run, where the solver works.
	Dir string
	// Model, Start and Solution are the names of files in it. Start is empty where
	// without a warm start; Solution is for the solver to write.
	Model, Start, Solution string
	// TimeLimit is of wall-clock time; 0 means no limit.
	TimeLimit time.Duration
	// RelativeGap is as in solver.SolveOptions.
	RelativeGap float64
}

// Solution is what a solution file says.
type Solution struct {
	// Status is what became of the run, in the words of the solver.
	Status string
	// Verdict is what these mean.
	Verdict Verdict
	// Objective is the claimed one in the units of the model, NaN where there is none.
	Objective float64
	// Values are those of the columns, and maybe of rows, by name. There are some
	// only where the verdict is Optimal or Feasible.
	Values map[string]float64
}

// Verdict is what a solver says of a model.
type Verdict int

// The verdicts.
const (
	Failed     Verdict = iota // it has nothing, for a reason of its own
	TimeUp                    // it has nothing as its time was up
	Infeasible                // it says that there is nothing
	Feasible                  // it has a solution and stopped before it was done
	Optimal                   // it has a solution and says that none is better
)
