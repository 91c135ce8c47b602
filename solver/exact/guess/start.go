package guess

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
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
	sampledTemperature = 2e-4
	// sampledTrust is the share by which a price may then change in one round, for one job:
	// for more it falls as chance does, with the root of their number.
	sampledTrust = 4
)

// SampledStart returns where the search for prices starts from those of a sample, given the number
// of all jobs.
func SampledStart(prices []float64, jobs int) Start {
	return Start{Prices: prices, Temperature: sampledTemperature, Trust: sampledTrust / math.Sqrt(float64(jobs))}
}

// AveragePrices returns what a node gains on average, step by step in proportion to
// what can be gained.
func AveragePrices(clock *model.Clock, in *model.Instance) []float64 {
	prices := make([]float64, in.Steps)
	for i := range in.Jobs {
		j := &in.Jobs[i]
		prices[0] += max(0, j.Cost[0]-slices.Min(j.Cost))
		for t, tail := range j.Tail[:in.Steps] {
			prices[t] += tail
		}
		if clock.Add(len(j.Cost) + in.Steps) {
			break
		}
	}
	total, nodes := 0.0, 0
	for t, capacity := range in.Capacity {
		total += prices[t]
		nodes += capacity
	}
	if total == 0 {
		total = 1
	}
	average := max(in.Scale, math.SmallestNonzeroFloat64) / float64(max(1, nodes)) * float64(in.Steps)
	for t := range prices {
		prices[t] *= average / total
	}
	return prices
}

// Sampled returns every eighth job on its share of the pool.
func Sampled(in *model.Instance) *model.Instance {
	sample := &model.Instance{
		Effort: in.Effort, Memory: in.Memory,
		Steps: in.Steps, MaxFree: in.MaxFree / sampling, Unit: in.Unit,
		BaseValue: in.BaseValue / sampling, UpperBound: in.UpperBound / sampling, Scale: in.Scale / sampling,
		TieCost: in.TieCost, TieTotal: in.TieTotal, Precision: in.Precision,
		Capacity: make([]int, in.Steps), Free: make([]int, in.Steps),
	}
	sample.Jobs = in.Memory.Jobs.Take((len(in.Jobs) + sampling - 1) / sampling)[:0]
	finishing := 0
	for i := 0; i < len(in.Jobs); i += sampling {
		for finishing < len(in.Finishing) && in.Finishing[finishing] < i {
			finishing++
		}
		if finishing < len(in.Finishing) && in.Finishing[finishing] == i {
			sample.Finishing = append(sample.Finishing, len(sample.Jobs))
		} else {
			sample.Separable = append(sample.Separable, len(sample.Jobs))
		}
		sample.Jobs = append(sample.Jobs, in.Jobs[i])
		for t := range sample.Capacity {
			sample.Capacity[t] += int(in.Jobs[i].Sizes[0])
		}
	}
	for t, free := range in.Free {
		sample.Free[t] = free / sampling
		sample.Capacity[t] += sample.Free[t]
	}
	return sample
}
