package guess

import "math"

// newton holds a gradient and a Hessian of a function of the prices and solves for
// Newton's step by a Cholesky factorisation.
type newton struct {
	steps    int
	gradient []float64
	hessian  []float64 // lower triangle, row by row
	factor   []float64
	move     []float64 // Newton's step
	origin   []float64 // where a line search starts
	centre   []float64 // where a round starts
	mean     []float64 // scratch: a job's expected nodes per step
}

func newNewton(steps int) newton {
	return newton{
		steps:    steps,
		gradient: make([]float64, steps),
		hessian:  make([]float64, steps*steps),
		factor:   make([]float64, steps*steps),
		move:     make([]float64, steps),
		origin:   make([]float64, steps),
		centre:   make([]float64, steps),
		mean:     make([]float64, steps),
	}
}

// reset clears gradient and Hessian.
func (n *newton) reset() {
	clear(n.gradient)
	clear(n.hessian)
}

// direction solves for the step and returns the decrease that the gradient
// promises for it, Newton's decrement. The Hessian is positive definite but may be
// nearly singular: a pivot lost to rounding is replaced by a share of its diagonal.
func (n *newton) direction() float64 {
	s := n.steps
	for r := range s {
		for c := 0; c <= r; c++ {
			sum := n.hessian[r*s+c]
			for k := range c {
				sum -= n.factor[r*s+k] * n.factor[c*s+k]
			}
			if r != c {
				n.factor[r*s+c] = sum / n.factor[c*s+c]
				continue
			}
			n.factor[r*s+r] = math.Sqrt(max(sum, 1e-12*n.hessian[r*s+r], math.SmallestNonzeroFloat64))
		}
	}
	for r := range s {
		sum := -n.gradient[r]
		for k := range r {
			sum -= n.factor[r*s+k] * n.move[k]
		}
		n.move[r] = sum / n.factor[r*s+r]
	}
	for r := s - 1; r >= 0; r-- {
		sum := n.move[r]
		for k := r + 1; k < s; k++ {
			sum -= n.factor[k*s+r] * n.move[k]
		}
		n.move[r] = sum / n.factor[r*s+r]
	}
	decrement := 0.0
	for t := range s {
		decrement -= n.gradient[t] * n.move[t]
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
