package heuristics

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The initial prices.
//
// In instances with many jobs, prices depend little on a single job. A sample of every eighth job
// on its part of the pool has almost the same prices. Large instances therefore start with the
// prices of a sample, which starts with a sample of its own.
//
// The constants trade the number of rounds for their length. BenchmarkDecision (go test . -run '^$'
// -bench Decision) shows the effect of a change for 700 jobs and more.

const (
	// sampleStride selects every eighth job. With 2 BenchmarkDecision takes 1.5 times the work.
	sampleStride = 8
	// sampledTemperature is the first temperature after a sample. With a quarter, or 4 times the
	// value, BenchmarkDecision takes 1.05 times the work.
	sampledTemperature = 2e-4
	// sampledTrust is the maximum relative change of a price in one round after a sample, times the
	// square root of the number of jobs: the error of a sample decreases with this root. With 1
	// BenchmarkDecision takes 1.3 times the work, and with 16 it takes 1.5 times.
	sampledTrust = 4
)

// SampledStart returns the start of a search from the prices of a sample; jobs is the number of all
// jobs.
func SampledStart(prices []float64, jobs int) Start {
	return Start{Prices: prices, Temperature: sampledTemperature, Trust: sampledTrust / math.Sqrt(float64(jobs))}
}

// AveragePrices returns prices with the average value per node, distributed over the steps in
// proportion to the value that can be gained in each.
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

// Sampled returns an instance with every eighth job on its part of the pool.
func Sampled(in *model.Instance) *model.Instance {
	sample := &model.Instance{
		Effort: in.Effort, Memory: in.Memory,
		Steps: in.Steps, MaxFree: in.MaxFree / sampleStride, Unit: in.Unit,
		BaseValue: in.BaseValue / sampleStride, UpperBound: in.UpperBound / sampleStride, Scale: in.Scale / sampleStride,
		TieCost: in.TieCost, TieTotal: in.TieTotal, Precision: in.Precision,
		Capacity: make([]int, in.Steps), Free: make([]int, in.Steps),
	}
	sample.Jobs = in.Memory.Jobs.Take((len(in.Jobs) + sampleStride - 1) / sampleStride)[:0]
	finishing := 0
	for i := 0; i < len(in.Jobs); i += sampleStride {
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
		sample.Free[t] = free / sampleStride
		sample.Capacity[t] += sample.Free[t]
	}
	return sample
}
