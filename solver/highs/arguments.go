package highs

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// optionsFile is the name of the options file in the folder of a run.
const optionsFile = "options.txt"

// Arguments writes the options file and returns the command line.
func (dialect) Arguments(task subprocess.Task) ([]string, error) {
	options := []struct{ name, value string }{
		// It stops once a plan is proven within this share of the plan. The absolute
		// gap, 1e-6 by default, would stop it as well.
		{"mip_rel_gap", number(task.RelativeGap)},
		{"mip_abs_gap", "0"},
		// A row may be broken by 1e-7 by default, and a job's progress with it; an
		// integer may be off by 1e-6.
		{"primal_feasibility_tolerance", "1e-9"},
		{"mip_feasibility_tolerance", "1e-9"},
		// One thread is what a decision is given; the same task, the same answer.
		{"threads", "1"},
		{"parallel", "off"},
		{"random_seed", "1"},
		// Status and values, each with its name.
		{"write_solution_to_file", "true"},
		{"write_solution_style", "0"},
		{"solution_file", task.Solution},
		// Version and bound are read off the output.
		{"log_to_console", "true"},
	}
	if task.TimeLimit > 0 {
		// By the clock on the wall.
		options = append(options, struct{ name, value string }{"time_limit", number(task.TimeLimit.Seconds())})
	}
	var text strings.Builder
	for _, o := range options {
		fmt.Fprintf(&text, "%s = %s\n", o.name, o.value)
	}
	if err := os.WriteFile(filepath.Join(task.Dir, optionsFile), []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	arguments := []string{"--options_file=" + optionsFile}
	if task.Start != "" {
		arguments = append(arguments, "--read_solution_file="+task.Start)
	}
	return append(arguments, task.Model), nil
}

// VersionArguments returns the command line that prints the version alone.
func (dialect) VersionArguments() []string { return []string{"--version"} }

// WriteStart writes a file for --read_solution_file, which looks like a solution
// file. Status and objective are there for its form; HiGHS works them out itself.
func (dialect) WriteStart(w io.Writer, columns int, values iter.Seq2[string, float64]) error {
	buffered := bufio.NewWriter(w)
	fmt.Fprintf(buffered, "Model status\nUnknown\n\n# Primal solution values\nFeasible\nObjective 0\n# Columns %d\n", columns)
	for name, value := range values {
		fmt.Fprintln(buffered, name, number(value))
	}
	// HiGHS works out the values of the rows, and says so with a warning.
	fmt.Fprint(buffered, "# Rows 0\n\n# Dual solution values\nNone\n")
	return buffered.Flush()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
