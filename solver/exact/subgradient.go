package exact

import (
	"math"
	"slices"
)

// Good prices per size where there are many: deflected subgradients.
//
// Among jobs that all differ there are thousands of prices, too many for Newton's
// method. What the steps choose of a size less what the plans hold of it is a
// subgradient of L; the prices follow it, deflected from the direction before where the
// two disagree, by a stride that aims at the incumbent. (Camerini, Fratta and Maffioli,
// "On improving relaxation methods by modified gradient techniques" (1975); Polyak,
// "Minimization of unsmooth functionals" (1969).)

const (
	// subgradientRounds bounds the evaluations of L.
	subgradientRounds = 200
	// maxSubgradientWork bounds the operations of one.
	maxSubgradientWork = 10_000_000
	// deflection is how much of a direction that disagrees is kept.
	deflection = 1.5
	// patience is the number of rounds without a better bound until the strides become
	// shorter, shortestStride where the search ends.
	patience       = 8
	shortestStride = 1.0 / 64
	// subgradientRollouts is the number of better bounds from one rollout to the next.
	subgradientRollouts = 8
)

// subgradient evaluates L and a subgradient; false if time is up.
func (s *sizePrices) subgradient(c *clock, x, gradient []float64) (bound float64, ok bool) {
	clear(gradient)
	s.set(x)
	for class, count := range s.count {
		phi, chosen, ok := s.job(c, class)
		if !ok {
			return 0, false
		}
		bound += float64(count) * phi
		first := s.first[s.groupOf[class]]
		for t, k := range chosen {
			if k > 0 {
				gradient[first[t]+int(k)-1] -= float64(count)
			}
		}
	}
	for t := range s.in.steps {
		step, ok := s.step(c, t)
		if !ok {
			return 0, false
		}
		bound += step.bound
		for f, class := range s.classOf {
			if k := step.choices[len(s.in.separable)+f]; k > 0 {
				gradient[s.first[s.groupOf[class]][t]+int(k)-1]++
			}
		}
	}
	return bound, true
}

// descend lowers L from the given prices until it is within precision of the incumbent,
// the strides are at their shortest, or time is up, and returns the least bound with its
// prices; +Inf if time was up before there was one. At times it offers the prices for a
// plan; offer returns the value of the incumbent.
func (s *sizePrices) descend(c *clock, x []float64, offer func(x []float64) float64) (float64, []float64) {
	value := offer(nil)
	least, best := math.Inf(1), slices.Clone(x)
	x = slices.Clone(x)
	gradient, direction := make([]float64, s.prices), make([]float64, s.prices)
	bestGradient := make([]float64, s.prices)
	stride, waited, gained := 1.0, 0, 0
	for range subgradientRounds {
		bound, ok := s.subgradient(c, x, gradient)
		if !ok {
			break
		}
		if bound < least {
			if least-bound > 1e-3*(least-value) {
				waited = 0
			}
			least = bound
			copy(best, x)
			copy(bestGradient, gradient)
			if gained++; gained%subgradientRollouts == 0 {
				value = max(value, offer(best))
			}
		}
		if least-value <= s.in.precision {
			break
		}
		if waited++; waited > patience {
			if stride /= 2; stride < shortestStride {
				break
			}
			waited = 0
			copy(x, best)
			copy(gradient, bestGradient)
			clear(direction)
			bound = least
		}
		along, length := 0.0, 0.0
		for v, g := range gradient {
			along += g * direction[v]
			length += direction[v] * direction[v]
		}
		keep := 0.0
		if along < 0 {
			keep = -deflection * along / length
		}
		length = 0
		for v, g := range gradient {
			direction[v] = g + keep*direction[v]
			length += direction[v] * direction[v]
		}
		if length == 0 {
			break // steps and jobs agree
		}
		for v, d := range direction {
			x[v] -= stride * (bound - value) / length * d
		}
	}
	offer(best)
	return least, best
}
