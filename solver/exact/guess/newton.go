package guess

import "math"

// newton holds a gradient and a Hessian of a function of the prices, and Newton's step.
type newton struct {
	steps    int
	gradient []float64
	hessian  []float64 // lower triangle, row by row, and its factor
	move     []float64 // Newton's step
	origin   []float64 // where a line search starts
	centre   []float64 // where a round starts
	mean     []float64 // scratch: a job's expected nodes beyond them
	away     []float64 // scratch: a column's nodes beyond the best one's
}

func newNewton(steps int) newton {
	return newton{
		steps:    steps,
		gradient: make([]float64, steps),
		hessian:  make([]float64, steps*steps),
		move:     make([]float64, steps),
		origin:   make([]float64, steps),
		centre:   make([]float64, steps),
		mean:     make([]float64, steps),
		away:     make([]float64, steps),
	}
}

// reset clears gradient and Hessian.
func (n *newton) reset() {
	clear(n.gradient)
	clear(n.hessian)
}

// addProduct adds a multiple of a vector to a row of the Hessian.
func (n *newton) addProduct(row int, factor float64, vector []float64) {
	sums := n.hessian[row*n.steps:][:row+1]
	for t, x := range vector[:len(sums)] {
		sums[t] += factor * x
	}
}

// solveNewton sets move to Newton's step, factorising the lower triangle of the Hessian, row
// by row, in place. It returns the decrease that the gradient promises for the step, Newton's
// decrement. The Hessian is positive definite but may be nearly singular: a pivot lost to
// rounding is replaced by a share of its diagonal.
func solveNewton(hessian, gradient, move []float64) float64 {
	rows := len(gradient)
	for r := range rows {
		now := hessian[r*rows : r*rows+r+1]
		diagonal := now[r]
		for k := range r {
			above := hessian[k*rows : k*rows+k+1]
			sum := now[k]
			for n, v := range above[:k] {
				sum -= now[n] * v
			}
			now[k] = sum / above[k]
		}
		sum := diagonal
		for _, v := range now[:r] {
			sum -= v * v
		}
		now[r] = math.Sqrt(max(sum, 1e-12*diagonal, math.SmallestNonzeroFloat64))
	}
	for r := range rows {
		sum := -gradient[r]
		for k, v := range hessian[r*rows : r*rows+r] {
			sum -= v * move[k]
		}
		move[r] = sum / hessian[r*rows+r]
	}
	for r := rows - 1; r >= 0; r-- {
		move[r] /= hessian[r*rows+r]
		for k, v := range hessian[r*rows : r*rows+r] {
			move[k] -= v * move[r]
		}
	}
	decrement := 0.0
	for r, g := range gradient {
		decrement -= g * move[r]
	}
	return decrement
}

// shorter returns the share of a step to try next where the whole went too far. The
// derivative along the step is minus the decrement at its start and known at its end: the
// share is where it would be 0 if it changed evenly, 0.2 to 0.5.
func (n *newton) shorter(decrement float64) float64 {
	slope := 0.0
	for t, move := range n.move {
		slope += n.gradient[t] * move
	}
	share := decrement / (decrement + slope)
	if !(share > 0.2) {
		return 0.2
	}
	return min(share, 0.5)
}
