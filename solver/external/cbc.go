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

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// DefaultCBC is the program of CBC where none is named: that of this name on the PATH.
const DefaultCBC = "cbc"

// CBC returns the backend that runs a program cbc of COIN-OR, a path or a name on the PATH;
// DefaultCBC if it is empty.
func CBC(program string) *subprocess.Backend {
	return subprocess.NewBackend(problem.BackendCBC, cmp.Or(program, DefaultCBC), cbc{})
}

// cbc is how to speak to CBC.
type cbc struct{}

// Title returns the solver's name for a person.
func (cbc) Title() string { return "CBC" }

// Arguments returns the command line. CBC carries its arguments out in order: what
// is set before -solve holds for it.
func (cbc) Arguments(task subprocess.Task) ([]string, error) {
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
		// By default it takes no plan that is not better than the start by 1e-5.
		"-increment", "0",
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
func (cbc) VersionArguments() []string { return []string{"-quit"} }

// WriteStart writes a file for -mipstart, which looks like a solution file: a line
// of status, then index, name, value and reduced cost of each column.
func (cbc) WriteStart(w io.Writer, _ int, values iter.Seq2[string, float64]) error {
	buffered := bufio.NewWriter(w)
	fmt.Fprintln(buffered, "Stopped on iterations - objective value 0")
	i := 0
	for name, value := range values {
		fmt.Fprintln(buffered, i, name, number(value), 0)
		i++
	}
	return buffered.Flush()
}

// ParseVersion returns the version in the banner that every output begins with.
func (cbc) ParseVersion(output string) string {
	for line := range strings.Lines(output) {
		if version, found := strings.CutPrefix(line, "Version: "); found {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// ParseBound returns the bound that a search cut short prints, to three decimals.
// One that ran to its end prints none.
func (cbc) ParseBound(output string) float64 { return lastNumber(output, "Lower bound:") }

// ParseSolution parses a solution file: a line of status, then one line per row
// and column with its index, name, value and dual value. A line that begins with
// "**" is one whose value breaks its bounds.
func (cbc) ParseSolution(r io.Reader) (subprocess.Solution, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	if !lines.Scan() {
		return subprocess.Solution{}, cmp.Or(lines.Err(), errors.New("the file is empty"))
	}
	solution, err := parseStatus(lines.Text())
	if err != nil {
		return subprocess.Solution{}, err
	}
	// Without an integer solution, the values are those of a relaxation or of the
	// least infeasible point: no plan.
	if solution.Verdict != subprocess.Feasible && solution.Verdict != subprocess.Optimal {
		return solution, nil
	}
	solution.Values = make(map[string]float64)
	for number := 2; lines.Scan(); number++ {
		name, value, err := parseValue(lines.Text())
		if err != nil {
			return subprocess.Solution{}, fmt.Errorf("line %d: %w", number, err)
		}
		if _, twice := solution.Values[name]; twice {
			return subprocess.Solution{}, fmt.Errorf("line %d: %s has two values", number, name)
		}
		solution.Values[name] = value
	}
	if err := lines.Err(); err != nil {
		return subprocess.Solution{}, err
	}
	return solution, nil
}

// parseStatus parses the first line, such as
//
//	Optimal - objective value -39.97915781
//	Stopped on time - objective value -279.91610035
//	Stopped on time (no integer solution - continuous used) - objective value -281.4
//	Infeasible - objective value -13.00971776
//	Integer infeasible - objective value -40.1
//
// It knows each status by its first words, and what it does not know is a failure.
func parseStatus(line string) (subprocess.Solution, error) {
	status, objective, found := strings.Cut(line, " - objective value ")
	if !found {
		return subprocess.Solution{}, fmt.Errorf("unknown status in the first line: %.100q", line)
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(objective), 64)
	if err != nil || math.IsNaN(value) {
		return subprocess.Solution{}, fmt.Errorf("the objective is %.100q", objective)
	}
	s := subprocess.Solution{Status: status, Objective: value}
	noPlan := strings.Contains(status, "no integer solution")
	switch {
	case noPlan && strings.HasPrefix(status, "Stopped on time"):
		s.Verdict = subprocess.TimeUp
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
		return "", 0, fmt.Errorf("want index, name, value and dual value, not %.100q", line)
	}
	if _, err := strconv.Atoi(fields[0]); err != nil {
		return "", 0, fmt.Errorf("the index is %.100q", fields[0])
	}
	if value, err = strconv.ParseFloat(fields[2], 64); err != nil {
		return "", 0, fmt.Errorf("the value of %s is %.100q", fields[1], fields[2])
	}
	return fields[1], value, nil
}
