package proof

import (
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/guess"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// subproblem restricts the sizes of the finishing jobs, step by step: a part of the
// search space.
type subproblem struct {
	// allowed holds, per finishing job and step, a bit per size.
	allowed []model.SizeSet
	// Start is where the search for prices starts, then the best prices.
	guess.Start
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
func (part *subproblem) allowedFor(f, steps int) []model.SizeSet {
	return part.allowed[f*steps : (f+1)*steps]
}

// begin makes a subproblem that of all plans, and sets where its search for prices starts.
func (part *subproblem) begin(clock *model.Clock, in *model.Instance) {
	part.allowed, part.Temperature = in.Memory.Sets.Zeros(len(in.Finishing)*in.Steps), guess.FirstTemperature
	for f, i := range in.Finishing {
		for t := range in.Steps {
			part.allowed[f*in.Steps+t] = model.SmallestSizes(in.Fitting(&in.Jobs[i], t))
		}
		if clock.Up(in.Steps) {
			break
		}
	}
	part.Prices = guess.AveragePrices(clock, in)
	if len(in.Jobs) < in.Effort.MinSampled {
		return
	}
	sample, root := guess.Sampled(in), new(subproblem)
	root.begin(clock, sample)
	if clock.Ended {
		return
	}
	if l := newLagrangian(clock, sample); !clock.Ended {
		root.Rough = true
		_, prices := l.minimise(clock, root, math.Inf(-1))
		part.Start = guess.SampledStart(prices, len(in.Jobs))
	}
}
