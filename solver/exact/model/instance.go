package model

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Instance is a problem in the units of the search. Work is a share of the demand of the job, and a
// size is an index of the sizes of the job.
//
// A tie cost, subtracted from the objective, decides between plans of equal objective. Per job it
// is TieCost * ([first-step nodes != current] * (N+1) + first-step nodes), where N is the largest
// number of nodes that can be in use in the first step. Plans with fewer changed jobs are
// preferred, then plans with fewer nodes in the first step. The sum of all tie costs is at most
// tieFraction of the scale of the objective. This is far below the gap of a proof, so that one
// search optimizes both.
type Instance struct {
	Effort   *Effort
	Memory   *Memory
	Capacity []int // per step
	Steps    int
	// Free is the number of free nodes per step if every job has its smallest size. MaxFree is the
	// maximum over the steps.
	Free    []int
	MaxFree int
	Jobs    []Job
	// Separable and Finishing partition the jobs. A job is separable if no step caps its value,
	// which is then a sum of independent steps.
	Separable []int
	Finishing []int
	// Unit is the largest power of two that is at most the largest value of a job. Values of the
	// search are multiples of it. Scaling the objective therefore changes no decision, and scaling
	// by a power of two causes no rounding.
	Unit float64
	// BaseValue is the value of the plan of smallest sizes, UpperBound a crude upper bound on the
	// objective, and Scale the magnitude of the terms of the objective.
	BaseValue, UpperBound, Scale float64
	// magnitude is the magnitude of the values of all sizes, including very negative values that no
	// job uses. It bounds the rounding error of sums.
	magnitude float64
	// Groups are the groups of the jobs. QuotaPrice is the cost of each node below a floor.
	Groups     []problem.AdmittedGroup
	QuotaPrice float64
	// groupFree is the number of nodes that the limits permit a job of each group in addition to
	// its smallest size, if every job has its smallest size.
	groupFree []int
	// TieCost is the tie cost of one node, and TieTotal an upper bound on the sum of all tie costs.
	TieCost, TieTotal float64
	// Precision is the difference in objective below which two plans count as equal.
	Precision float64
}

// Job is an admitted job in the units of the search.
type Job struct {
	*Shape
	// First and Later are the shares of the demand that each size serves in the first step and in
	// every later step.
	First, Later []float64
	// Cost is the tie cost minus the value of each size in the first step.
	Cost []float64
	// Group is the group of the job. It is ignored in a problem without groups.
	Group int
}

// Shape is the part of a job that many jobs have in common.
type Shape struct {
	// Gain[t] is the value of having served the whole demand by the end of step t. Tail[t] is the
	// sum of Gain from step t on, the value of serving the whole demand in step t.
	Gain, Tail []float64
	Sizes      []int32
}

const (
	// tieFraction limits the sum of all tie costs, as a fraction of the scale of the objective. It
	// has to be far below solver.OptimalGap and above the rounding error. TestExtremeNumbers (go
	// test ./solver/exact -run ExtremeNumbers) covers it.
	tieFraction = 1e-11
	// TiesOnly is the relative gap that tie costs alone may cause.
	TiesOnly = solver.OptimalGap / 10
	// Noise is the rounding error of a sum of values of plans, as a fraction of Instance.Scale.
	Noise = 1e-15
	// Finished is the share of its demand at which a job counts as finished. The difference from 1
	// tolerates the rounding error of sums of shares.
	Finished = 1 - 1e-12
	// Tiny is the smallest magnitude that does not count as 0, for a gain or value of a size in
	// units and for a share of the demand. Quotients of smaller numbers leave the range of float64.
	Tiny = 1e-290
)

// flushTiny returns x, or 0 if its magnitude is below Tiny.
func flushTiny(x float64) float64 {
	if math.Abs(x) < Tiny {
		return 0
	}
	return x
}

// PowerOfTwo returns the largest power of two that is at most x, or 0 for 0.
func PowerOfTwo(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	return math.Ldexp(math.Ceil(fraction), exponent-1)
}

// errInfeasible is returned for a problem that was not admitted.
var errInfeasible = errors.New("the smallest sizes of all jobs together exceed the pool")

// NewInstance converts a problem. Two instances must not use the same memory at the same time. The
// instance is incomplete if the deadline has passed.
func NewInstance(clock *Clock, p *problem.Problem, e *Effort, memory *Memory) (*Instance, error) {
	memory.Reset()
	in := &Instance{
		Effort: e, Memory: memory, Capacity: p.Capacity, Steps: p.Steps, Free: slices.Clone(p.Capacity), Jobs: memory.Jobs.Zeros(len(p.Jobs)),
		Finishing: memory.Ints.Take(len(p.Jobs))[:0], Separable: memory.Ints.Take(len(p.Jobs))[:0],
	}
	for i := range p.Jobs {
		for t := range in.Free {
			in.Free[t] -= int(p.Jobs[i].Options[0].Nodes)
		}
		if clock.Add(2 * in.Steps) {
			return in, nil
		}
	}
	if slices.Min(in.Free) < 0 {
		return nil, errInfeasible
	}
	in.MaxFree = slices.Max(in.Free)
	if len(p.Groups) > 0 {
		if err := in.convertGroups(p); err != nil {
			return nil, err
		}
	}
	for i := range p.Jobs {
		from := &p.Jobs[i]
		in.Unit = max(in.Unit, slices.Max(from.Gain))
		if from.OptionValue != nil {
			for _, value := range from.OptionValue[:in.usable(from)] {
				in.Unit = max(in.Unit, math.Abs(value))
			}
		}
		if clock.Add(2 * in.Steps) {
			return in, nil
		}
	}
	if in.Unit = PowerOfTwo(max(in.Unit, in.QuotaPrice)); in.Unit == 0 {
		in.Unit = 1
	}
	in.QuotaPrice /= in.Unit
	var alike [solver.MaxSizes + 2]int // last job with each number of sizes
	for i := range p.Jobs {
		n := in.usable(&p.Jobs[i])
		in.convert(p, i, alike[n], n)
		alike[n] = i
		if in.Jobs[i].capped() {
			in.Finishing = append(in.Finishing, i)
		} else {
			in.Separable = append(in.Separable, i)
		}
		if clock.Add(20*len(in.Jobs[i].Sizes) + 2*in.Steps) {
			return in, nil
		}
	}
	in.estimate(clock)
	in.SetTies(clock, p, cmp.Or(in.Scale, 1)) // If nothing has a value, tie costs alone decide.
	return in, nil
}

// convert converts job i with its first n sizes. The job shares the shape of the last job with the
// same number of sizes if both are equal.
func (in *Instance) convert(p *problem.Problem, i, last, n int) {
	from, j, floats := &p.Jobs[i], &in.Jobs[i], &in.Memory.Floats
	j.Group, j.Later, j.Cost = from.Group, floats.Take(n), floats.Zeros(n)
	if j.First = j.Later; in.Steps == 1 || !slices.Equal(from.FirstStepWork, from.StepWork) {
		j.First = floats.Take(n)
	}
	for k := range n {
		j.Later[k] = flushTiny(from.StepWork[k] / from.Demand)
		j.First[k] = flushTiny(from.FirstStepWork[k] / from.Demand)
		if from.OptionValue != nil {
			j.Cost[k] = flushTiny(-from.OptionValue[k] / in.Unit)
		}
	}
	before := &p.Jobs[last]
	j.Shape = in.Jobs[last].Shape
	if j.Shape == nil || n != len(j.Sizes) || !slices.Equal(from.Options, before.Options) || !slices.Equal(from.Gain, before.Gain) {
		gains := make([]float64, 2*in.Steps+1)
		j.Shape = &Shape{Gain: gains[:in.Steps], Tail: gains[in.Steps:], Sizes: make([]int32, n)}
		for t := in.Steps - 1; t >= 0; t-- {
			j.Gain[t] = flushTiny(from.Gain[t] / in.Unit)
			j.Tail[t] = j.Tail[t+1] + j.Gain[t]
		}
		for k := range j.Sizes {
			j.Sizes[k] = from.Options[k].Nodes
		}
	}
	if in.Steps == 1 {
		// The only step caps the share served.
		for k := range j.First {
			j.First[k] = min(1, j.First[k])
		}
	}
}

// usable returns the number of sizes of a job that fit if all other jobs have their smallest size.
// No plan contains the other sizes, and their values must not count as magnitudes of the objective.
func (in *Instance) usable(from *problem.AdmittedJob) int {
	free := in.MaxFree
	if len(in.Groups) > 0 {
		free = in.groupFree[from.Group]
	}
	maxNodes := int(from.Options[0].Nodes) + free
	return sort.Search(len(from.Options), func(k int) bool { return int(from.Options[k].Nodes) > maxNodes })
}

// capped reports whether the value of the job can be less than the sum of its values per step,
// because it can finish within the horizon and there are several steps.
func (j *Job) capped() bool {
	steps := len(j.Gain)
	return steps > 1 && j.Tail[0] > 0 &&
		slices.Max(j.First)+float64(steps-1)*slices.Max(j.Later) >= Finished
}

// Fitting returns the number of sizes of the job that fit step t if all other jobs have their
// smallest size.
func (in *Instance) Fitting(j *Job, t int) int {
	if in.Free[t] == in.MaxFree {
		return len(j.Sizes)
	}
	return sort.Search(len(j.Sizes), func(k int) bool { return int(j.Sizes[k]-j.Sizes[0]) > in.Free[t] })
}

// AllFitting sets fitting to the result of Fitting for each step, and returns it.
func (in *Instance) AllFitting(j *Job, fitting []int) []int {
	fitting = slices.Grow(fitting[:0], in.Steps)[:in.Steps]
	for t := range fitting {
		fitting[t] = in.Fitting(j, t)
	}
	return fitting
}

// Size returns the total number of sizes over all jobs and steps.
func (in *Instance) Size() int {
	sizes := 0
	for i := range in.Jobs {
		sizes += len(in.Jobs[i].Sizes)
	}
	return sizes * in.Steps
}

// Progress returns the value of a job that serves the given shares in the first and in every later
// step, without the value of its size in the first step.
func (j *Job) Progress(first, later float64) float64 {
	sum, share := 0.0, first
	for _, gain := range j.Gain {
		sum += gain * min(1, share)
		share += later
	}
	return sum
}

// SetTies sets the tie cost of every size and the precision of the search for the given scale of
// the objective. A scale of 0 means no tie cost.
func (in *Instance) SetTies(clock *Clock, p *problem.Problem, scale float64) {
	// A job has at most one change and at most its largest size; all jobs together have at most the
	// pool.
	nodes := 0
	for i := range in.Jobs {
		nodes += int(in.Jobs[i].Sizes[len(in.Jobs[i].Sizes)-1])
	}
	nodes = min(nodes, in.Capacity[0])
	units := float64(len(in.Jobs)*(nodes+1) + nodes)
	in.TieTotal = tieFraction * scale
	in.TieCost = in.TieTotal / max(1, units)
	in.Precision = max(in.TieCost/4, Noise*scale, Tiny)
	for i := range in.Jobs {
		j := &in.Jobs[i]
		from := &p.Jobs[i]
		for k, size := range j.Sizes {
			cost := float64(size)
			if size != from.Current.Nodes {
				cost += float64(nodes + 1)
			}
			j.Cost[k] = in.TieCost * cost
			if from.OptionValue != nil {
				j.Cost[k] -= from.OptionValue[k] / in.Unit
			}
		}
		clock.Add(len(j.Sizes)) // does not stop at the deadline
	}
}

// Shares returns the share of the demand that each size serves in step t.
func (j *Job) Shares(t int) []float64 {
	if t == 0 {
		return j.First
	}
	return j.Later
}

// Value returns the objective of the job minus its tie cost, for one size index per step.
func (j *Job) Value(chosen []uint8) float64 {
	share, value := 0.0, 0.0
	for t, k := range chosen {
		share = min(1, share+j.Shares(t)[k])
		value += j.Gain[t] * share
	}
	return value - j.Cost[chosen[0]]
}

// StepValue returns the value of the k-th size in step t for a separable job.
func (j *Job) StepValue(t, k int) float64 {
	if t == 0 {
		return j.Tail[0]*j.First[k] - j.Cost[k]
	}
	return j.Tail[t] * j.Later[k]
}

// Unfinished reports whether a plan does not finish the job.
func (j *Job) Unfinished(chosen []uint8) bool {
	share := 0.0
	for t, k := range chosen {
		share += j.Shares(t)[k]
	}
	return share < Finished
}

// NodePrices converts prices of the search to units of the objective.
func (in *Instance) NodePrices(prices []float64) []float64 {
	var converted []float64
	for _, price := range prices {
		converted = append(converted, price*in.Unit)
	}
	return converted
}
