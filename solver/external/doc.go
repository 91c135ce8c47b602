// Package external solves the MILP of a decision with the programs of external solvers. Whether
// there is such a program, Probe of a backend says. Each file is how to speak to one of them:
// its command line, its warm start, its solution file, and the version and the bound in its
// output.
package external

import "strconv"

// longestLine is how long a line of a solution file may be, in bytes.
const longestLine = 4096

// number writes a number as the programs read it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
