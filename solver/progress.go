package solver

import "slices"

// The paper's objective, equation (obj): the weighted training progress over the
// horizon,
//
//	sum_i sum_t w_i s_i^t / d_i,
//
// so that a finished job gains its weight in every step from then on.

// gainProgress fills in the gains of the jobs of p, which are jobs of s. Jobs of
// the same weight in a row share one slice.
func (p *Problem) gainProgress(s *Snapshot, _ *Options) {
	var gain []float64
	for n := range p.Jobs {
		weight := s.Jobs[p.Jobs[n].Index].WeightOrDefault()
		if n == 0 || weight != gain[0] {
			gain = slices.Repeat([]float64{weight}, p.Steps)
		}
		p.Jobs[n].Gain = gain
	}
}
