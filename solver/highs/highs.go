// Package highs solves the MILP of a decision with the program highs of HiGHS.
//
//	arguments.go  its command line, its options and its warm start
//	solution.go   its solution file
//	output.go     what is read off its output: version and bound
package highs

import (
	"cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// DefaultProgram is the program where none is named: that of this name on the PATH.
const DefaultProgram = "highs"

// Solver is the backend HiGHS. It is stateless and safe for concurrent use.
type Solver struct{ *subprocess.Backend }

// New returns the backend that runs a program, a path or a name on the PATH;
// DefaultProgram if it is empty. Whether there is such a program, Probe says.
func New(program string) *Solver {
	return &Solver{subprocess.NewBackend(solver.BackendHiGHS, cmp.Or(program, DefaultProgram), dialect{})}
}

// dialect is how to speak to HiGHS.
type dialect struct{}

// Title returns the solver's name for a person.
func (dialect) Title() string { return "HiGHS" }
