package model

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Instance is a problem in the units of the search: work as shares of a job's
// demand, sizes by their position in the job's list.
//
// Equal plans are told apart by a tie cost that is taken off the objective: per
// job TieCost * ([first-step nodes != current] * (N+1) + first-step nodes), N being
// the most nodes that can be held in the first step, which orders plans of equal
// objective by changed jobs first and nodes now second. All tie costs together are at
// most tieFraction of the objective's scale, far below what counts as proven optimal,
// so that one search does both.
type Instance struct {
	Effort   *Effort
	Memory   *Memory
	Capacity []int // per step
	Steps    int
	// Free is the number of nodes left per step when every job holds its smallest
	// size, MostFree the largest of them.
	Free     []int
	MostFree int
	Jobs     []Job
	// Separable and Finishing split the jobs: one whose value no step caps is a sum of
	// independent steps.
	Separable []int
	Finishing []int
	// Unit is the power of two at the largest value that a job can have or below it. The
	// search has values as multiples of it: scaling the objective changes no decision, and
	// by a power of two no digit either.
	Unit float64
	// Least is the value of the plan of smallest sizes, Most a crude upper bound on
	// the objective, and Scale the magnitude of what is summed up in it.
	Least, Most, Scale float64
	// magnitude is that of all values of sizes together, those included that are so far
	// below 0 that no job takes them. It bounds the rounding of sums.
	magnitude float64
	// Groups are those of the jobs, and QuotaPrice what a node short of a floor costs.
	Groups     []problem.AdmittedGroup
	QuotaPrice float64
	// groupFree is the number of nodes that the limits leave a job of each group beyond its
	// smallest size, when every job holds its own.
	groupFree []int
	// TieCost and TieTotal are the tie cost of one node and the most that all tie
	// costs can come to.
	TieCost, TieTotal float64
	// Precision is the difference in objective below which two plans are equal.
	Precision float64
}

// Job is an admitted job in the units of the search.
type Job struct {
	*Shape
	// First and Later are the shares of the demand served per size in the first
	// and in every later step.
	First, Later []float64
	// Cost is, per size in the first step, the tie cost less the value of the size.
	Cost []float64
	// Group is the job's group; it is ignored in a problem without groups.
	Group int
}

// Shape is what many jobs have in common.
type Shape struct {
	// Gain is what having served the whole demand by the end of a step adds to the
	// value, and Tail[t] the sum of it from step t on: what serving it in step t adds.
	Gain, Tail []float64
	Sizes      []int32
}

const (
	// tieFraction bounds all tie costs together, as a share of the objective's scale.
	tieFraction = 1e-11
	// TiesOnly is the relative gap below which tie costs may be all that is left.
	TiesOnly = problem.OptimalGap / 10
	// Noise is the rounding noise of a sum of plan values, as a share of
	// Instance.Scale.
	Noise = 1e-15
	// Finished is the share of its demand from which on a job is done; the
	// difference to 1 absorbs the rounding of sums of shares.
	Finished = 1 - 1e-12
	// Tiny is the smallest gain or value of a size, as a share of the unit, and the
	// smallest share of a job's demand, that is not taken for 0: quotients of smaller ones
	// leave the range of floating-point numbers.
	Tiny = 1e-290
)

// notTiny returns x, or 0 where it is too small to calculate with.
func notTiny(x float64) float64 {
	if math.Abs(x) < Tiny {
		return 0
	}
	return x
}

// PowerOfTwo returns the largest power of two that is not above x, 0 for 0.
func PowerOfTwo(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	return math.Ldexp(math.Ceil(fraction), exponent-1)
}

// errInfeasible is returned for a problem that admission cannot have made.
var errInfeasible = errors.New("the smallest sizes of all jobs together exceed the pool")

// NewInstance converts a problem, in a memory that no other instance is in. Where time is up it
// is not complete.
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
		if clock.Up(2 * in.Steps) {
			return in, nil
		}
	}
	if slices.Min(in.Free) < 0 {
		return nil, errInfeasible
	}
	in.MostFree = slices.Max(in.Free)
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
		if clock.Up(2 * in.Steps) {
			return in, nil
		}
	}
	if in.Unit = PowerOfTwo(max(in.Unit, in.QuotaPrice)); in.Unit == 0 {
		in.Unit = 1
	}
	in.QuotaPrice /= in.Unit
	var alike [snapshot.MaxSizes + 2]int // the last job of each number of sizes
	for i := range p.Jobs {
		n := in.usable(&p.Jobs[i])
		in.convert(p, i, alike[n], n)
		alike[n] = i
		if in.Jobs[i].capped() {
			in.Finishing = append(in.Finishing, i)
		} else {
			in.Separable = append(in.Separable, i)
		}
		if clock.Up(20*len(in.Jobs[i].Sizes) + 2*in.Steps) {
			return in, nil
		}
	}
	in.estimate(clock)
	in.SetTies(clock, p, cmp.Or(in.Scale, 1)) // Where nothing has a value, as little as can be changes.
	return in, nil
}

// convert works out job i, on the first n of its sizes. It may have the shape of the last job of as
// many.
func (in *Instance) convert(p *problem.Problem, i, last, n int) {
	from, j, floats := &p.Jobs[i], &in.Jobs[i], &in.Memory.Floats
	j.Group, j.Later, j.Cost = from.Group, floats.Take(n), floats.Zeros(n)
	if j.First = j.Later; in.Steps == 1 || !slices.Equal(from.FirstStepWork, from.StepWork) {
		j.First = floats.Take(n)
	}
	for k := range n {
		j.Later[k] = notTiny(from.StepWork[k] / from.Demand)
		j.First[k] = notTiny(from.FirstStepWork[k] / from.Demand)
		if from.OptionValue != nil {
			j.Cost[k] = notTiny(-from.OptionValue[k] / in.Unit)
		}
	}
	before := &p.Jobs[last]
	j.Shape = in.Jobs[last].Shape
	if j.Shape == nil || n != len(j.Sizes) || !slices.Equal(from.Options, before.Options) || !slices.Equal(from.Gain, before.Gain) {
		gains := make([]float64, 2*in.Steps+1)
		j.Shape = &Shape{Gain: gains[:in.Steps], Tail: gains[in.Steps:], Sizes: make([]int32, n)}
		for t := in.Steps - 1; t >= 0; t-- {
			j.Gain[t] = notTiny(from.Gain[t] / in.Unit)
			j.Tail[t] = j.Tail[t+1] + j.Gain[t]
		}
		for k := range j.Sizes {
			j.Sizes[k] = from.Options[k].Nodes
		}
	}
	if in.Steps == 1 {
		// What is served in the only step is capped right away.
		for k := range j.First {
			j.First[k] = min(1, j.First[k])
		}
	}
}

// usable returns how many of a job's sizes, ascending, fit beside all other jobs' smallest
// sizes. The others are in no plan, and what they are worth must not pass for a magnitude of
// the objective.
func (in *Instance) usable(from *problem.AdmittedJob) int {
	free := in.MostFree
	if len(in.Groups) > 0 {
		free = in.groupFree[from.Group]
	}
	most := int(from.Options[0].Nodes) + free
	return sort.Search(len(from.Options), func(k int) bool { return int(from.Options[k].Nodes) > most })
}

// capped reports whether the job's value is less than the sum of what its steps
// would add each: whether it can finish within the horizon, and not in the only
// step.
func (j *Job) capped() bool {
	steps := len(j.Gain)
	return steps > 1 && j.Tail[0] > 0 &&
		slices.Max(j.First)+float64(steps-1)*slices.Max(j.Later) >= Finished
}

// Fitting returns how many of the job's sizes, ascending, fit step t beside
// all other jobs' smallest sizes.
func (in *Instance) Fitting(j *Job, t int) int {
	if in.Free[t] == in.MostFree {
		return len(j.Sizes)
	}
	return sort.Search(len(j.Sizes), func(k int) bool { return int(j.Sizes[k]-j.Sizes[0]) > in.Free[t] })
}

// AllFitting sets fitting to how many of the job's sizes, ascending, fit each step beside all
// other jobs' smallest sizes, and returns it.
func (in *Instance) AllFitting(j *Job, fitting []int) []int {
	fitting = slices.Grow(fitting[:0], in.Steps)[:in.Steps]
	for t := range fitting {
		fitting[t] = in.Fitting(j, t)
	}
	return fitting
}

// Size returns the number of sizes over all jobs and steps.
func (in *Instance) Size() int {
	sizes := 0
	for i := range in.Jobs {
		sizes += len(in.Jobs[i].Sizes)
	}
	return sizes * in.Steps
}

// Progress returns the value of a job that serves the given shares in the first and
// in every later step, that of its size in the first step aside.
func (j *Job) Progress(first, later float64) float64 {
	sum, share := 0.0, first
	for _, gain := range j.Gain {
		sum += gain * min(1, share)
		share += later
	}
	return sum
}

// SetTies sets the tie cost of every size and the precision of the search for an
// objective of about the given scale; 0 means no tie cost.
func (in *Instance) SetTies(clock *Clock, p *problem.Problem, scale float64) {
	// A job contributes at most one change and its largest size, all jobs together
	// at most the pool.
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
		clock.Up(len(j.Sizes)) // All costs are set, whatever the time.
	}
}

// Shares returns the shares of the job's demand served per size in step t.
func (j *Job) Shares(t int) []float64 {
	if t == 0 {
		return j.First
	}
	return j.Later
}

// Value returns what a plan, given as a position in sizes per step, has in
// the search: its part of the objective less tie cost.
func (j *Job) Value(chosen []uint8) float64 {
	share, value := 0.0, 0.0
	for t, k := range chosen {
		share = min(1, share+j.Shares(t)[k])
		value += j.Gain[t] * share
	}
	return value - j.Cost[chosen[0]]
}

// StepValue returns what the k-th size in step t adds to the value of a job that
// is not capped.
func (j *Job) StepValue(t, k int) float64 {
	if t == 0 {
		return j.Tail[0]*j.First[k] - j.Cost[k]
	}
	return j.Tail[t] * j.Later[k]
}

// Unfinished reports whether a plan leaves the job short of its demand.
func (j *Job) Unfinished(chosen []uint8) bool {
	share := 0.0
	for t, k := range chosen {
		share += j.Shares(t)[k]
	}
	return share < Finished
}

// NodePrices returns what prices of the search are in units of the objective.
func (in *Instance) NodePrices(prices []float64) []float64 {
	var converted []float64
	for _, price := range prices {
		converted = append(converted, price*in.Unit)
	}
	return converted
}
