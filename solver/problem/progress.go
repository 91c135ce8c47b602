package problem

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// The paper's objective, equation (obj): the weighted training progress over the
// horizon,
//
//	sum_i sum_t w_i s_i^t / d_i,
//
// so that a finished job gains its weight in every step from then on. An ETA that has run
// out would let 1/d_i grow without end: d_i is at least a quarter of the work done.

// minRemainingShare is the least share of the work done that is taken to be left.
const minRemainingShare = 0.25

// progressDemand returns the demand d_i of job i in seconds on one reference node.
func progressDemand(s *snapshot.Snapshot, i int) float64 {
	return max(s.Demand(i), minRemainingShare*s.Jobs[i].WorkDone.Seconds())
}

// fillProgress sets the gains of the jobs of p, which are jobs of s. Jobs of the same weight in
// a row share one slice.
func (p *Problem) fillProgress(s *snapshot.Snapshot, _ *Options) {
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
