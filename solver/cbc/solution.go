package cbc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// longestLine is how long a line of a solution file may be, in bytes.
const longestLine = 4096

// ParseSolution parses a solution file: a line of status, then one line per row
// and column with its index, name, value and dual value. A line that begins with
// "**" is one whose value breaks its bounds. The memory it takes is proportional
// to the file.
func (dialect) ParseSolution(r io.Reader) (subprocess.Solution, error) {
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
