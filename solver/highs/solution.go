package highs

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// longestLine is how long a line of a solution file may be, in bytes.
const longestLine = 4096

// ParseSolution parses a solution file of style 0:
//
//	Model status
//	Optimal
//
//	# Primal solution values
//	Feasible
//	Objective -39.979157810024
//	# Columns 300
//	x_1_1_1 0
//	...
//	# Rows 105
//
// Without a solution, "None" stands in place of "Feasible" and nothing
// follows. What comes after the columns is not read, but the line of the rows must
// be there, so that a file that was cut off shows. The memory it takes is
// proportional to the file.
func (dialect) ParseSolution(r io.Reader) (subprocess.Solution, error) {
	f := &file{lines: bufio.NewScanner(r)}
	f.lines.Buffer(nil, longestLine)
	solution := f.solution()
	if f.err != nil {
		return subprocess.Solution{}, f.err
	}
	return solution, nil
}

// file reads lines until one is not as it should be; that is its error.
type file struct {
	lines  *bufio.Scanner
	number int
	err    error
}

func (f *file) solution() subprocess.Solution {
	f.expect("Model status")
	s := subprocess.Solution{Status: f.line(), Objective: math.NaN()}
	f.expect("")
	f.expect("# Primal solution values")
	switch quality := f.line(); quality {
	case "Feasible":
		s.Verdict = verdict(s.Status)
	case "None":
		if s.Verdict = verdictWithoutSolution(s.Status); s.Verdict == subprocess.Optimal {
			s.Objective = 0
		}
		return s
	case "Infeasible":
		// Infeasible values are those of a point that breaks rows: no plan.
		s.Verdict = verdictWithoutSolution(s.Status)
		s.Status += ", solution infeasible"
		return s
	default:
		f.fail(`want "Feasible", "Infeasible" or "None", not %.100q`, quality)
	}
	s.Objective = f.value("Objective")
	if math.IsNaN(s.Objective) {
		f.fail("the objective is not a number")
	}
	columns := f.count("# Columns")
	s.Values = make(map[string]float64)
	for range columns {
		if f.err != nil {
			return s
		}
		f.column(s.Values)
	}
	f.count("# Rows")
	return s
}

// verdict returns what a status means for a solution.
func verdict(status string) subprocess.Verdict {
	switch status {
	case "Optimal":
		return subprocess.Optimal
	case "Infeasible", "Primal infeasible or unbounded":
		return subprocess.Infeasible // It contradicts itself.
	default:
		return subprocess.Feasible
	}
}

// verdictWithoutSolution returns what a status means without a solution.
func verdictWithoutSolution(status string) subprocess.Verdict {
	switch status {
	case "Empty":
		return subprocess.Optimal // The model has no columns.
	case "Infeasible", "Primal infeasible or unbounded":
		return subprocess.Infeasible
	case "Time limit reached":
		return subprocess.TimeUp
	default:
		return subprocess.Failed
	}
}

// line returns the next line, without blanks around it.
func (f *file) line() string {
	if f.err != nil {
		return ""
	}
	f.number++
	if !f.lines.Scan() {
		f.err = fmt.Errorf("the file ends before line %d", f.number)
		if err := f.lines.Err(); err != nil {
			f.err = fmt.Errorf("line %d: %w", f.number, err)
		}
		return ""
	}
	return strings.TrimSpace(f.lines.Text())
}

// fail makes the last line read the one that is not as it should be.
func (f *file) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("line %d: %s", f.number, fmt.Sprintf(format, args...))
	}
}

func (f *file) expect(want string) {
	if got := f.line(); got != want {
		f.fail("want %.100q, not %.100q", want, got)
	}
}

// value reads a line of a keyword and a number.
func (f *file) value(keyword string) float64 {
	line := f.line()
	text, found := strings.CutPrefix(line, keyword+" ")
	value, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		f.fail("want %s and a number, not %.100q", keyword, line)
	}
	return value
}

// count reads a line of a keyword and a number of lines to follow.
func (f *file) count(keyword string) int {
	line := f.line()
	text, found := strings.CutPrefix(line, keyword+" ")
	count, err := strconv.Atoi(text)
	if !found || err != nil || count < 0 {
		f.fail("want %s and a number of lines, not %.100q", keyword, line)
		return 0
	}
	return count
}

// column reads the line of a column, its name and its value.
func (f *file) column(values map[string]float64) {
	line := f.line()
	name, text, found := strings.Cut(line, " ")
	value, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		f.fail("want the name of a column and its value, not %.100q", line)
		return
	}
	if _, twice := values[name]; twice {
		f.fail("%s has two values", name)
	}
	values[name] = value
}
