package rows

import (
	"math"
	"slices"
)

// The dual simplex method for variables with bounds.
//
// The objective is lexicographic: of several solutions with the largest value, the one with the preferred
// tie is found. The method is a heuristic like Newton's: rounding errors of a table can cost time, but a
// bound is computed from prices alone.

const (
	// tableZero is the magnitude up to which an entry of a table counts as rounding error of 0, and
	// levelZero that of a number of jobs.
	tableZero = 1e-9
	levelZero = 1e-6
	// gainZero is that of a gain, as a fraction of the largest gain.
	gainZero = 1e-12
)

// criteria are the parts of the lexicographic objective: the value, and the two parts of a tie.
const criteria = 3

// vertex is a basic solution of a linear program: each equation determines its basic variable, and every
// other variable is at one of its bounds.
type vertex struct {
	// table contains the coefficients of each equation, solved for its basic variable.
	table [][]float64
	basis []int
	level []float64 // value of each basic variable
	// gains are the reduced costs of the variables, by criterion.
	gains [criteria][]float64
	// zero is the magnitude of a gain that counts as rounding error of 0, by criterion.
	zero      [criteria]float64
	low, high []float64 // bounds of the variables
	atHigh    []bool    // variables that are at their high bound, unless they are basic
	// bound is an upper bound on the value of all solutions in integers within low and high.
	bound sum
}

func (v *vertex) clone() *vertex {
	c := *v
	c.table = make([][]float64, len(v.table))
	cells := make([]float64, 0, len(v.table)*len(v.low))
	for n, row := range v.table {
		cells = append(cells, row...)
		c.table[n] = cells[len(cells)-len(row):]
	}
	for n := range c.gains {
		c.gains[n] = slices.Clone(v.gains[n])
	}
	c.basis, c.level = slices.Clone(v.basis), slices.Clone(v.level)
	c.low, c.high, c.atHigh = slices.Clone(v.low), slices.Clone(v.high), slices.Clone(v.atHigh)
	return &c
}

// solution returns the value of each variable.
func (v *vertex) solution() []float64 {
	x := slices.Clone(v.low)
	for j, high := range v.atHigh {
		if high {
			x[j] = v.high[j]
		}
	}
	for n, j := range v.basis {
		x[j] = v.level[n]
	}
	return x
}

// leaving returns the equation whose basic variable is farthest outside its bounds, and by how much: below
// 0 if the variable is too small, and 0 if all basic variables are within their bounds.
func (v *vertex) leaving() (row int, excess float64) {
	for n, x := range v.level {
		j := v.basis[n]
		off := min(0, x-v.low[j]) + max(0, x-v.high[j])
		if math.Abs(off) > max(levelZero, math.Abs(excess)) {
			row, excess = n, off
		}
	}
	return row, excess
}

// entering returns the variable that loses least if it moves the basic variable of an equation by -excess.
// It returns -1 if no variable can: the bounds then contradict the equation.
func (v *vertex) entering(row int, excess float64) int {
	best := -1
	for j, a := range v.table[row] {
		if math.Abs(a) > tableZero && j != v.basis[row] && v.low[j] < v.high[j] && (a > 0) == ((excess > 0) != v.atHigh[j]) &&
			(best < 0 || v.losesLess(row, j, best)) {
			best = j
		}
	}
	return best
}

// losesLess reports whether variable i loses less than j per change of the basic variable of an equation. Of
// equal ones it prefers the variable with the larger coefficient, whose pivot has the smaller rounding error.
func (v *vertex) losesLess(row, i, j int) bool {
	a, b := math.Abs(v.table[row][i]), math.Abs(v.table[row][j])
	for n := range v.gains {
		if x, y := v.loses(n, i)*b, v.loses(n, j)*a; math.Abs(x-y) > v.zero[n]*max(a, b) {
			return x < y
		}
	}
	return a > b
}

// loses returns what a variable loses of a criterion if it moves from its bound by 1. If it loses value, the
// loss of a later criterion may be negative.
func (v *vertex) loses(criterion, j int) float64 {
	if v.atHigh[j] {
		return v.gains[criterion][j]
	}
	return -v.gains[criterion][j]
}

// loss returns what the first pivot loses that moves the basic variable of an equation by -excess.
func (v *vertex) loss(row int, excess float64) float64 {
	enter := v.entering(row, excess)
	if enter < 0 {
		return math.Inf(1)
	}
	return math.Abs(excess * v.gains[0][enter] / v.table[row][enter])
}

// pivot makes a variable basic in an equation. The variable that was basic exceeds a bound by excess, and
// goes to this bound.
func (v *vertex) pivot(row, enter int, excess float64) {
	pivot := v.table[row]
	step := excess / pivot[enter]
	for n := range v.level {
		v.level[n] -= v.table[n][enter] * step
	}
	v.level[row] = v.low[enter] + step
	if v.atHigh[enter] {
		v.level[row] = v.high[enter] + step
	}
	v.atHigh[v.basis[row]], v.basis[row] = excess > 0, enter
	var at []int
	scale := 1 / pivot[enter]
	for j, a := range pivot {
		if a != 0 && v.low[j] < v.high[j] { // Others do not move again.
			pivot[j] = a * scale
			at = append(at, j)
		}
	}
	eliminate := func(row []float64) {
		if by := row[enter]; by != 0 {
			for _, j := range at {
				row[j] -= by * pivot[j]
			}
			row[enter] = 0
		}
	}
	pivot[enter] = 1
	for n, other := range v.table {
		if n != row {
			eliminate(other)
		}
	}
	for _, gains := range v.gains {
		eliminate(gains)
	}
}

// add adds an equation: the sum of the coefficients times the variables, plus a new variable of at least 0,
// is total.
func (v *vertex) add(coefficients []float64, total float64) {
	x := v.solution()
	row := append(make([]float64, 0, cap(v.table[0])), coefficients...)
	row = append(row, make([]float64, len(x)-len(coefficients)+1)...)
	for j, a := range coefficients {
		total -= a * x[j]
	}
	for n, j := range v.basis {
		if by := row[j]; by != 0 {
			for m, a := range v.table[n] {
				row[m] -= by * a
			}
			row[j] = 0
		}
	}
	for n := range v.table {
		v.table[n] = append(v.table[n], 0)
	}
	for n := range v.gains {
		v.gains[n] = append(v.gains[n], 0)
	}
	row[len(x)] = 1
	v.table, v.basis, v.level = append(v.table, row), append(v.basis, len(x)), append(v.level, total)
	v.low, v.high, v.atHigh = append(v.low, 0), append(v.high, math.Inf(1)), append(v.atHigh, false)
}
