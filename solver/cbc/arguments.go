package cbc

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// Arguments returns the command line. CBC carries its arguments out in order: what
// is set before -solve holds for it.
func (dialect) Arguments(task subprocess.Task) ([]string, error) {
	arguments := []string{"-import", task.Model}
	if task.Start != "" {
		arguments = append(arguments, "-mipstart", task.Start)
	}
	if task.TimeLimit > 0 {
		arguments = append(arguments,
			// Its clock is that of the CPU otherwise, which stands while CBC waits.
			"-timeMode", "elapsed",
			"-sec", number(task.TimeLimit.Seconds()),
		)
	}
	return append(arguments,
		// It stops once a plan is proven within this share of the optimum. The
		// allowable gap, which is absolute, would stop it as well.
		"-ratioGap", number(task.RelativeGap),
		"-allowableGap", "0",
		// A row may be broken by 1e-7 by default, and a job's progress with it.
		"-primalTolerance", "1e-9",
		"-integerTolerance", "1e-9",
		// The same task, the same answer.
		"-randomSeed", "1", "-randomCbcSeed", "1",
		"-solve",
		// Zeros too, so that a file that was cut off shows.
		"-printingOptions", "all",
		"-solution", task.Solution,
	), nil
}

// VersionArguments returns the command line that prints the banner alone.
func (dialect) VersionArguments() []string { return []string{"-quit"} }

// WriteStart writes a file for -mipstart, which looks like a solution file: a line
// of status, then index, name, value and reduced cost of each column.
func (dialect) WriteStart(w io.Writer, _ int, values iter.Seq2[string, float64]) error {
	buffered := bufio.NewWriter(w)
	fmt.Fprintln(buffered, "Stopped on iterations - objective value 0")
	i := 0
	for name, value := range values {
		fmt.Fprintln(buffered, i, name, number(value), 0)
		i++
	}
	return buffered.Flush()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
