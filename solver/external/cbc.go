package external

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// DefaultCBC is the default program of CBC, which is searched on the PATH.
const DefaultCBC = "cbc"

// CBC returns the backend that runs CBC of COIN-OR. The program is a path or a name on the PATH; "" means
// DefaultCBC.
func CBC(program string) *subprocess.Backend {
	return subprocess.NewBackend(solver.BackendCBC, cmp.Or(program, DefaultCBC), cbc{})
}

// cbc is the dialect of CBC.
type cbc struct{}

// DisplayName returns the name of the solver for people.
func (cbc) DisplayName() string { return "CBC" }

// Arguments returns the command line. CBC executes its arguments in order, so the options of the search are
// set before -solve.
func (cbc) Arguments(task subprocess.Task) ([]string, error) {
	arguments := []string{"-import", task.Model}
	if task.Start != "" {
		arguments = append(arguments, "-mipstart", task.Start)
	}
	if task.TimeLimit > 0 {
		arguments = append(arguments,
			// By default CBC measures CPU time, which does not advance while CBC waits.
			"-timeMode", "elapsed",
			"-sec", formatNumber(task.TimeLimit.Seconds()),
		)
	}
	return append(arguments,
		// CBC stops if a plan is proven within this share of the optimum. The allowable gap is absolute and
		// would stop it too.
		"-ratioGap", formatNumber(task.RelativeGap),
		"-allowableGap", "0",
		// By default CBC accepts only plans that improve the warm start by 1e-5.
		"-increment", "0",
		// By default a row may be violated by 1e-7, and so may the progress of a job.
		"-primalTolerance", "1e-9",
		"-integerTolerance", "1e-9",
		// Deterministic results.
		"-randomSeed", "1", "-randomCbcSeed", "1",
		"-solve",
		// Zeros are printed too, so that truncated files can be detected.
		"-printingOptions", "all",
		"-solution", task.Solution,
	), nil
}

// VersionArguments returns the command line that only prints the banner.
func (cbc) VersionArguments() []string { return []string{"-quit"} }

// WriteStart writes a file for -mipstart. It has the format of a solution file: a status line, then index,
// name, value and reduced cost of each column.
func (cbc) WriteStart(w io.Writer, _ int, values iter.Seq2[string, float64]) error {
	buffered := bufio.NewWriter(w)
	fmt.Fprintln(buffered, "Stopped on iterations - objective value 0")
	i := 0
	for name, value := range values {
		fmt.Fprintln(buffered, i, name, formatNumber(value), 0)
		i++
	}
	return buffered.Flush()
}

// ParseVersion returns the version in the banner at the start of every output.
func (cbc) ParseVersion(output string) string {
	for line := range strings.Lines(output) {
		if version, found := strings.CutPrefix(line, "Version: "); found {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// ParseBound returns the bound that an incomplete search prints, with three decimals. A complete search
// prints none.
func (cbc) ParseBound(output string) float64 { return lastNumber(output, "Lower bound:") }

// ParseSolution parses a solution file: a status line, then one line per row and column with its index, name,
// value and dual value. "**" at the start of a line marks a value that violates its bounds.
func (cbc) ParseSolution(r io.Reader) (subprocess.Solution, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	if !lines.Scan() {
		return subprocess.Solution{}, cmp.Or(lines.Err(), errors.New("the file is empty"))
	}
	solution, err := parseStatus(lines.Text())
	if err != nil {
		return subprocess.Solution{}, err
	}
	// Without an integer solution, the values are of a relaxation or of the least infeasible point.
	if solution.Verdict != subprocess.Feasible && solution.Verdict != subprocess.Optimal {
		return solution, nil
	}
	solution.Values = make(map[string]float64)
	for line := 2; lines.Scan(); line++ {
		name, value, err := parseValue(lines.Text())
		if err != nil {
			return subprocess.Solution{}, fmt.Errorf("line %d: %w", line, err)
		}
		if _, duplicate := solution.Values[name]; duplicate {
			return subprocess.Solution{}, fmt.Errorf("line %d: %s has two values", line, name)
		}
		solution.Values[name] = value
	}
	if err := lines.Err(); err != nil {
		return subprocess.Solution{}, err
	}
	return solution, nil
}

// parseStatus parses the first line of a solution file, such as
//
//	Optimal - objective value -39.97915781
//	Stopped on time - objective value -279.91610035
//	Stopped on time (no integer solution - continuous used) - objective value -281.4
//	Infeasible - objective value -13.00971776
//	Integer infeasible - objective value -40.1
//
// The verdict depends on the first words of the status. An unknown status is a failure.
func parseStatus(line string) (subprocess.Solution, error) {
	status, objective, found := strings.Cut(line, " - objective value ")
	if !found {
		return subprocess.Solution{}, fmt.Errorf("unknown status in the first line: %.100q", line)
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(objective), 64)
	if err != nil || math.IsNaN(value) {
		return subprocess.Solution{}, fmt.Errorf("objective is %.100q; must be a number", objective)
	}
	s := subprocess.Solution{Status: status, Objective: value}
	noPlan := strings.Contains(status, "no integer solution")
	switch {
	case noPlan && strings.HasPrefix(status, "Stopped on time"):
		s.Verdict = subprocess.TimedOut
	case noPlan:
	case status == "Optimal":
		s.Verdict = subprocess.Optimal
	case strings.HasPrefix(status, "Stopped on"):
		s.Verdict = subprocess.Feasible
	case strings.HasPrefix(status, "Infeasible"), strings.HasPrefix(status, "Integer infeasible"):
		s.Verdict = subprocess.Infeasible
	}
	return s, nil
}

// parseValue parses the line of a row or a column.
func parseValue(line string) (name string, value float64, err error) {
	fields := strings.Fields(line)
	if len(fields) > 0 && fields[0] == "**" {
		fields = fields[1:]
	}
	if len(fields) != 4 {
		return "", 0, fmt.Errorf("%.100q must be an index, a name, a value and a dual value", line)
	}
	if _, err := strconv.Atoi(fields[0]); err != nil {
		return "", 0, fmt.Errorf("index is %.100q; must be an integer", fields[0])
	}
	if value, err = strconv.ParseFloat(fields[2], 64); err != nil {
		return "", 0, fmt.Errorf("value of %s is %.100q; must be a number", fields[1], fields[2])
	}
	return fields[1], value, nil
}
