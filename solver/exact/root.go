package exact

import (
	"math"
	"slices"
)

// Where the search for prices starts.
//
// Prices hardly depend on the single job when there are many: every eighth job, on
// its share of the pool, has almost the prices of all. So large instances start
// from the prices of a sample, which starts from one of its own.

const (
	// sampling is the stride of a sample.
	sampling = 8
	// sampledTemperature is where the search starts from a sample's prices.
	sampledTemperature = 1e-3
	// sampledTrust is the share by which a price may then change in one round.
	sampledTrust = 0.1
)

// averagePrices returns what a node gains on average, step by step in proportion to
// what there is to gain.
func averagePrices(c *clock, in *instance) []float64 {
	prices := make([]float64, in.steps)
	for i := range in.jobs {
		j := &in.jobs[i]
		prices[0] += max(0, j.cost[0]-slices.Min(j.cost))
		for t, tail := range j.tail[:in.steps] {
			prices[t] += tail
		}
		if c.up(len(j.cost) + in.steps) {
			break
		}
	}
	total, nodes := 0.0, 0
	for t, capacity := range in.capacity {
		total += prices[t]
		nodes += capacity
	}
	if total == 0 {
		total = 1
	}
	average := max(in.scale, math.SmallestNonzeroFloat64) / float64(max(1, nodes)) * float64(in.steps)
	for t := range prices {
		prices[t] *= average / total
	}
	return prices
}

// sampled returns every eighth job on its share of the pool.
func sampled(in *instance) *instance {
	sample := &instance{
		effort: in.effort,
		steps:  in.steps, mostFree: in.mostFree / sampling, unit: in.unit,
		least: in.least / sampling, most: in.most / sampling, scale: in.scale / sampling,
		tieUnit: in.tieUnit, tieTotal: in.tieTotal, precision: in.precision,
		capacity: make([]int, in.steps), free: make([]int, in.steps),
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
		for t := range sample.capacity {
			sample.capacity[t] += int(in.jobs[i].sizes[0])
		}
	}
	for t, free := range in.free {
		sample.free[t] = free / sampling
		sample.capacity[t] += sample.free[t]
	}
	return sample
}
