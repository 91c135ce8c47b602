package solver

import "slices"

// The paper's objective, equation (obj): the weighted training progress over the
// horizon,
//
//	sum_i sum_t w_i s_i^t / d_i,
//
// so that a finished job gains its weight in every step from then on. An ETA that has run
// out would let 1/d_i grow without end: d_i is at least a quarter of the work done.

// leastLeft is the least share of the work done that is taken to be left.
const leastLeft = 0.25

// progressDemand returns the demand d_i of job i, and whether the work done lifts it.
func (s *Snapshot) progressDemand(i int) (demand float64, lifted bool) {
	told, least := s.Demand(i), leastLeft*s.Jobs[i].WorkDone.Seconds()
	return max(told, least), least > told
}

// gainProgress fills in the demands and the gains of the jobs of p, which are jobs of s.
// Jobs of the same weight in a row share one slice.
func (p *Problem) gainProgress(s *Snapshot, _ *Options) {
	var gain []float64
	for n := range p.Jobs {
		job := &s.Jobs[p.Jobs[n].Index]
		p.Jobs[n].Demand, _ = s.progressDemand(p.Jobs[n].Index)
		weight := job.WeightOrDefault()
		if n == 0 || weight != gain[0] {
			gain = slices.Repeat([]float64{weight}, p.Steps)
		}
		p.Jobs[n].Gain = gain
	}
}
