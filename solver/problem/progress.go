package problem

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// The objective of the paper, equation (obj), is the weighted training progress over the horizon:
//
//	sum_i sum_t w_i s_i^t / d_i.
//
// A finished job gains its weight in every step after its completion. d_i is at least a quarter of
// the work done, because 1/d_i would otherwise grow without limit as an ETA runs out.

// minRemainingShare is the minimum remaining work as a share of the work done.
const minRemainingShare = 0.25

// atLeastShareOfWork returns the demand d_i of job i in seconds on one reference node, at least
// minRemainingShare of the work done.
func atLeastShareOfWork(s *solver.Snapshot, i int) float64 {
	return max(s.Demand(i), minRemainingShare*s.Jobs[i].WorkDone.Seconds())
}

// fillProgress sets the gains of the jobs of p, the problem of s. Consecutive jobs of the same weight
// share one slice.
func (p *Problem) fillProgress(s *solver.Snapshot) {
	var gain []float64
	for n := range p.Jobs {
		job := &s.Jobs[p.Jobs[n].Index]
		weight := job.WeightOrDefault()
		if n == 0 || weight != gain[0] {
			gain = slices.Repeat([]float64{weight}, p.Steps)
		}
		p.Jobs[n].Gain = gain
	}
}
