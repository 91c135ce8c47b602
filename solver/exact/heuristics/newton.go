package heuristics

import "math"

// newton contains the gradient and the Hessian of a function of the prices, and Newton's step.
type newton struct {
	steps    int
	gradient []float64
	hessian  []float64 // lower triangle by rows, then its Cholesky factor
	move     []float64 // Newton's step
	origin   []float64 // start of a line search
	center   []float64 // start of a round
	mean     []float64 // scratch: expected nodes of a job relative to its best column
	away     []float64 // scratch: nodes of a column relative to the best one
}

func newNewton(steps int) newton {
	return newton{
		steps:    steps,
		gradient: make([]float64, steps),
		hessian:  make([]float64, steps*steps),
		move:     make([]float64, steps),
		origin:   make([]float64, steps),
		center:   make([]float64, steps),
		mean:     make([]float64, steps),
		away:     make([]float64, steps),
	}
}

// reset clears the gradient and the Hessian.
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

// solveNewton sets move to Newton's step. It factorizes the lower triangle of the Hessian in place,
// by rows (Cholesky). It returns Newton's decrement, the decrease that the gradient predicts for
// the step. The Hessian is positive definite but may be nearly singular: a pivot lost to rounding
// is replaced by a fraction of its diagonal element.
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
