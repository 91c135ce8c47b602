// Package external solves the MILP of a decision with the programs of external solvers. Whether
// there is such a program, Probe of a backend says. Each file is how to speak to one of them:
// its command line, its warm start, its solution file, and the version and the bound in its
// output.
package external

import (
	"math"
	"strconv"
	"strings"
)

// longestLine is how long a line of a solution file may be, in bytes.
const longestLine = 4096

// number writes a number as the programs read it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// lastNumber returns the finite number in the last line of an output that begins with the
// prefix and has one, else NaN.
func lastNumber(output, prefix string) float64 {
	last := math.NaN()
	for line := range strings.Lines(output) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), prefix)
		if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); found && err == nil && !math.IsInf(value, 0) {
			last = value
		}
	}
	return last
}
