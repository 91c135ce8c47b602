package exact

import (
	"context"
	"math"
)

// Where the search for prices starts.
//
// Prices hardly depend on the single job when there are many: every eighth job, on
// its share of the pool, has almost the prices of all. So large instances start
// from the prices of a sample, which starts from one of its own.

const (
	// sampling is the stride of a sample, minSampled the jobs from which on one is
	// taken.
	sampling   = 8
	minSampled = 400
	// sampledTemperature is where the search starts from a sample's prices.
	sampledTemperature = 1e-2
)

// newRoot returns the box without restrictions.
func newRoot(ctx context.Context, in *instance) *box {
	b := &box{
		allowed:     make([]uint64, len(in.finishing)*in.steps),
		temperature: firstTemperature,
		bound:       in.worth,
	}
	for f, i := range in.finishing {
		for t := range in.steps {
			b.allowed[f*in.steps+t] = 1<<len(in.jobs[i].sizes) - 1
		}
	}
	if len(in.jobs) < minSampled {
		b.prices = averagePrices(in)
		return b
	}
	sample := in.sample()
	_, b.prices = newDual(sample).minimise(ctx, newRoot(ctx, sample), 0)
	b.temperature = sampledTemperature
	return b
}

// averagePrices returns what a node is worth on average, falling to the end of the
// horizon as served demand counts for fewer steps.
func averagePrices(in *instance) []float64 {
	prices := make([]float64, in.steps)
	for t := range prices {
		prices[t] = max(in.worth, math.SmallestNonzeroFloat64) / float64(max(1, in.nodes)*in.steps) *
			2 * float64(in.steps-t) / float64(in.steps+1)
	}
	return prices
}

// sample returns every eighth job on its share of the pool.
func (in *instance) sample() *instance {
	sample := &instance{
		steps: in.steps, worth: in.worth / sampling, weightUnit: in.weightUnit,
		tieUnit: in.tieUnit, tieTotal: in.tieTotal, precision: in.precision,
	}
	finishing := 0
	for i := 0; i < len(in.jobs); i += sampling {
		for finishing < len(in.finishing) && in.finishing[finishing] < i {
			finishing++
		}
		if finishing < len(in.finishing) && in.finishing[finishing] == i {
			sample.finishing = append(sample.finishing, len(sample.jobs))
		} else {
			sample.separable = append(sample.separable, len(sample.jobs))
		}
		sample.jobs = append(sample.jobs, in.jobs[i])
		sample.nodes += int(in.jobs[i].sizes[0])
	}
	sample.free = in.free / sampling
	sample.nodes += sample.free
	return sample
}
