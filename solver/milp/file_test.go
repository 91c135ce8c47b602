package milp

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// file is a parsed MPS file. The tests check models by their files, so that they share no code with the
// package.
type file struct {
	columns   []string // in order
	integer   map[string]bool
	lower     map[string]float64
	upper     map[string]float64
	objective map[string]float64 // to minimize
	rows      map[string]*fileRow
}

type fileRow struct {
	sense string
	terms map[string]float64
	right float64
}

// newFile builds the model of a problem, writes it and parses the file.
func newFile(t fataler, p *problem.Problem, f solver.Formulation) (*Model, *file) {
	t.Helper()
	m, err := Build(p, f)
	if err != nil {
		t.Fatalf("Build(): %v", err)
	}
	var text bytes.Buffer
	if err := m.WriteMPS(&text); err != nil {
		t.Fatalf("WriteMPS(): %v", err)
	}
	read, err := readFile(text.String())
	if err != nil {
		t.Fatalf("reading back: %v\n%s", err, text.String())
	}
	return m, read
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// readFile parses free MPS strictly: sections, columns, rows and bounds must be in order.
func readFile(text string) (*file, error) {
	r := reader{file: file{
		integer: map[string]bool{}, lower: map[string]float64{}, upper: map[string]float64{},
		objective: map[string]float64{}, rows: map[string]*fileRow{},
	}}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "*") {
			continue
		}
		words := strings.Fields(line)
		valid := r.section != "ENDATA" && len(words) > 0
		switch {
		case valid && line[0] != ' ':
			r.section = words[0]
		case valid:
			valid = r.line(words)
		}
		if !valid {
			return nil, fmt.Errorf("line %d of section %q: %q", n+1, r.section, line)
		}
	}
	if r.section != "ENDATA" || r.inIntegers {
		return nil, fmt.Errorf("file ends in section %q", r.section)
	}
	for _, bounds := range []map[string]float64{r.lower, r.upper} {
		if len(bounds) != len(r.columns) {
			return nil, fmt.Errorf("%d columns have %d bounds", len(r.columns), len(bounds))
		}
	}
	return &r.file, nil
}

// reader is the state of readFile.
type reader struct {
	file
	section       string
	inIntegers    bool
	objectiveName string
}

// line reads a line of the current section and reports whether it is valid.
func (r *reader) line(words []string) bool {
	switch r.section {
	case "ROWS":
		return r.row(words)
	case "COLUMNS":
		return r.column(words)
	case "RHS":
		return len(words) == 3 && r.rows[words[1]] != nil && number(words[2], &r.rows[words[1]].right)
	case "BOUNDS":
		return r.bound(words)
	}
	return false
}

// row reads the name and the sense of a row. The first row without a sense is the objective.
func (r *reader) row(words []string) bool {
	switch {
	case len(words) == 2 && words[0] == "N" && r.objectiveName == "":
		r.objectiveName = words[1]
	case len(words) == 2 && strings.Contains("LGE", words[0]) && r.rows[words[1]] == nil:
		r.rows[words[1]] = &fileRow{sense: words[0], terms: map[string]float64{}}
	default:
		return false
	}
	return true
}

// column reads one coefficient of a column, or a marker of integer columns. The coefficients of a column are together.
func (r *reader) column(words []string) bool {
	if len(words) != 3 {
		return false
	}
	if words[1] == "'MARKER'" && r.inIntegers == (words[2] == "'INTEND'") {
		r.inIntegers = !r.inIntegers
		return true
	}
	column, terms := words[0], r.objective
	if last := len(r.columns) - 1; last < 0 || r.columns[last] != column {
		if _, again := r.integer[column]; again {
			return false
		}
		r.columns = append(r.columns, column)
		r.integer[column] = r.inIntegers
	}
	if words[1] != r.objectiveName {
		if r.rows[words[1]] == nil {
			return false
		}
		terms = r.rows[words[1]].terms
	}
	if _, again := terms[column]; again {
		return false
	}
	var coefficient float64
	valid := number(words[2], &coefficient)
	terms[column] = coefficient
	return valid
}

// bound reads a bound of a column.
func (r *reader) bound(words []string) bool {
	var v float64
	switch {
	case len(words) == 3 && words[0] == "BV":
		r.lower[words[2]], r.upper[words[2]] = 0, 1
	case len(words) == 4 && words[0] == "LO" && number(words[3], &v):
		r.lower[words[2]] = v
	case len(words) == 4 && words[0] == "UP" && number(words[3], &v):
		r.upper[words[2]] = v
	default:
		return false
	}
	return true
}

// number parses a finite number.
func number(word string, v *float64) bool {
	parsed, err := strconv.ParseFloat(word, 64)
	*v = parsed
	return err == nil && !math.IsInf(parsed, 0) && !math.IsNaN(parsed)
}

// tolerance is the rounding error of a row, relative to the magnitude of its terms.
const tolerance = 1e-9

// check returns nil if the values satisfy every bound, row and integrality.
func (f *file) check(values map[string]float64) error {
	for _, c := range f.columns {
		v := values[c]
		if v < f.lower[c] || v > f.upper[c] {
			return fmt.Errorf("%s is %v; its bounds are %v and %v", c, v, f.lower[c], f.upper[c])
		}
		if f.integer[c] && v != math.Trunc(v) {
			return fmt.Errorf("%s is %v; it is an integer column", c, v)
		}
	}
	for name, row := range f.rows {
		left, size := 0.0, 1.0
		for c, coefficient := range row.terms {
			left += coefficient * values[c]
			size = max(size, math.Abs(coefficient*values[c]))
		}
		slack := tolerance * max(size, math.Abs(row.right))
		if row.sense != "G" && left > row.right+slack || row.sense != "L" && left < row.right-slack {
			return fmt.Errorf("row %s: %v %s %v is violated", name, left, row.sense, row.right)
		}
	}
	return nil
}

// minimized returns the objective of the file for the given values.
func (f *file) minimized(values map[string]float64) float64 {
	total := 0.0
	for _, c := range f.columns { // in order, so that rounding is deterministic
		total += f.objective[c] * values[c]
	}
	return total
}

// maximizeContinuous sets the continuous columns, in order, to the largest values that their bounds and
// rows allow.
func (f *file) maximizeContinuous(values map[string]float64) {
	for _, c := range f.columns {
		if f.integer[c] {
			continue
		}
		most := f.upper[c]
		for _, row := range f.rows {
			if row.terms[c] <= 0 { // In the row of the next step, the column is on the other side.
				continue
			}
			rest := row.right
			for _, other := range f.columns {
				if other != c {
					rest -= row.terms[other] * values[other]
				}
			}
			most = min(most, rest/row.terms[c])
		}
		values[c] = max(most, f.lower[c])
	}
}

// forEachInteger calls visit for all values of the integer columns within their bounds.
func (f *file) forEachInteger(visit func(values map[string]float64)) {
	var integers []string
	for _, c := range f.columns {
		if f.integer[c] {
			integers = append(integers, c)
		}
	}
	values := map[string]float64{}
	var assign func(n int)
	assign = func(n int) {
		if n == len(integers) {
			visit(values)
			return
		}
		for v := f.lower[integers[n]]; v <= f.upper[integers[n]]; v++ {
			values[integers[n]] = v
			assign(n + 1)
		}
	}
	assign(0)
}

func TestReadFileErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no end":         "NAME x\nROWS\n N o\n",
		"unknown row":    "ROWS\n N o\nCOLUMNS\n c r 1\nENDATA\n",
		"split column":   "ROWS\n N o\n L r\nCOLUMNS\n c o 1\n d o 1\n c r 1\nENDATA\n",
		"missing bounds": "ROWS\n N o\nCOLUMNS\n c o 1\nENDATA\n",
		"infinite":       "ROWS\n N o\nCOLUMNS\n c o +Inf\nENDATA\n",
	} {
		if _, err := readFile(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
