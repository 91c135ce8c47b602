package exact

import "math"

// subproblem restricts the sizes of the finishing jobs, step by step: a part of the
// search space.
type subproblem struct {
	// allowed holds, per finishing job and step, a bit per size.
	allowed []sizeSet
	// prices and temperature are where the search for prices starts.
	prices      []float64
	temperature float64
	// trust, if not 0, is the share by which a price may change in one round.
	trust float64
	// bound is at least the value of every plan in the subproblem, by a lemma; prove alone
	// writes them. solved says that the best of its plans was found, or that none of them
	// is better than the incumbent.
	bound  float64
	by     lemma
	solved bool
	// order tells subproblems of equal bound apart.
	order int
}

// allowedFor returns the restriction of the f-th finishing job.
func (b *subproblem) allowedFor(f, steps int) []sizeSet { return b.allowed[f*steps : (f+1)*steps] }

// begin makes a subproblem that of all plans, and sets where its search for prices starts.
func (b *subproblem) begin(c *clock, in *instance) {
	b.allowed, b.temperature = make([]sizeSet, len(in.finishing)*in.steps), firstTemperature
	for f, i := range in.finishing {
		for t := range in.steps {
			b.allowed[f*in.steps+t] = smallestSizes(in.fitting(&in.jobs[i], t))
		}
		if c.up(in.steps) {
			break
		}
	}
	b.prices = averagePrices(c, in)
	if len(in.jobs) < in.effort.minSampled {
		return
	}
	sample, root := sampled(in), new(subproblem)
	root.begin(c, sample)
	if c.ended {
		return
	}
	if l := newLagrangian(c, sample); !c.ended {
		_, b.prices = l.minimise(c, root, math.Inf(-1))
		b.temperature, b.trust = sampledTemperature, sampledTrust
	}
}
