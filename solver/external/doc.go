// Package external has the backends that solve the MILP of a decision with the external solvers CBC and
// HiGHS. Each implements subprocess.Dialect: command line, warm start, solution file, and the version and
// the bound in the output of the solver.
package external

import (
	"math"
	"strconv"
	"strings"
)

// maxLineBytes is the maximum length of a line of a solution file, in bytes.
const maxLineBytes = 4096

// formatNumber formats a number for the solvers.
func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// lastNumber returns the last finite number that follows the prefix on a line of the output, or NaN if
// there is none.
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
