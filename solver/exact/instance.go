package exact

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver"
)

// instance is a problem in the units of the search: work as shares of a job's
// demand, sizes by their position in the job's list.
//
// Equal plans are told apart by a tie cost that is taken off the objective: per
// job tieUnit * ([first-step nodes != current] * (N+1) + first-step nodes), N being
// the most nodes that can be held in the first step, which orders plans of equal
// objective by changed jobs first and nodes now second. All tie costs together are at
// most tieFraction of the objective's scale, far below what counts as proven optimal,
// so that one search does both.
type instance struct {
	effort   *effort
	capacity []int // per step
	steps    int
	// free is the number of nodes left per step when every job holds its smallest
	// size, mostFree the largest of them.
	free     []int
	mostFree int
	jobs     []job
	// separable and finishing split the jobs: one whose value no step caps is a sum of
	// independent steps.
	separable []int
	finishing []int
	// unit is the largest value that a job can have. The search has values as shares
	// of it, since scaling the objective changes no decision.
	unit float64
	// least is the value of the plan of smallest sizes, most a crude upper bound on
	// the objective, and scale the magnitude of what is summed up in it.
	least, most, scale float64
	// magnitude is that of all values of sizes together, those included that are so far
	// below 0 that no job takes them. It bounds the rounding of sums.
	magnitude float64
	// groups are those of the jobs, and quotaPrice what a node short of a floor costs.
	groups     []solver.AdmittedGroup
	quotaPrice float64
	// tieUnit and tieTotal are the tie cost of one node and the most that all tie
	// costs can come to.
	tieUnit, tieTotal float64
	// precision is the difference in objective below which two plans are equal.
	precision float64
}

// job is an admitted job in the units of the search.
type job struct {
	// gain is what having served the whole demand by the end of a step adds to the
	// value, and tail[t] the sum of it from step t on: what serving it in step t adds.
	gain, tail []float64
	sizes      []int32
	// first and later are the shares of the demand served per size in the first
	// and in every later step.
	first, later []float64
	// cost is, per size in the first step, the tie cost less the value of the size.
	cost []float64
	// group is the job's group; it is not looked at where there are none.
	group int
}

const (
	// tieFraction bounds all tie costs together, as a share of the objective's scale.
	tieFraction = 1e-11
	// noise is the rounding noise of a sum of plan values, as a share of
	// instance.scale.
	noise = 1e-15
	// finished is the share of its demand from which on a job is done; the
	// difference to 1 absorbs the rounding of sums of shares.
	finished = 1 - 1e-12
	// tiny is the smallest gain or value of a size, as a share of the unit, and the
	// smallest share of a job's demand, that is not taken for 0: quotients of smaller ones
	// leave the range of floating-point numbers.
	tiny = 1e-290
)

// notTiny returns x, or 0 where it is too small to calculate with.
func notTiny(x float64) float64 {
	if math.Abs(x) < tiny {
		return 0
	}
	return x
}

// errInfeasible is returned for a problem that admission cannot have made.
var errInfeasible = errors.New("the smallest sizes of all jobs together exceed the pool")

// newInstance converts a problem. Where time is up it is not complete.
func newInstance(c *clock, p *solver.Problem, e *effort) (*instance, error) {
	in := &instance{effort: e, capacity: p.Capacity, steps: p.Steps, free: slices.Clone(p.Capacity), jobs: make([]job, len(p.Jobs))}
	for i := range p.Jobs {
		from := &p.Jobs[i]
		in.unit = max(in.unit, slices.Max(from.Gain))
		for _, value := range from.SizeValue {
			in.unit = max(in.unit, math.Abs(value))
		}
		for t := range in.free {
			in.free[t] -= from.Sizes[0]
		}
		if c.up(2 * in.steps) {
			return in, nil
		}
	}
	if slices.Min(in.free) < 0 {
		return nil, errInfeasible
	}
	if len(p.Groups) > 0 {
		in.unit = max(in.unit, p.QuotaPrice)
	}
	if in.unit == 0 {
		in.unit = 1
	}
	if len(p.Groups) > 0 {
		if err := in.convertGroups(p); err != nil {
			return nil, err
		}
	}
	in.mostFree = slices.Max(in.free)
	for i := range p.Jobs {
		in.convert(p, i)
		if in.jobs[i].capped() {
			in.finishing = append(in.finishing, i)
		} else {
			in.separable = append(in.separable, i)
		}
		if c.up(20*len(in.jobs[i].sizes) + 2*in.steps) {
			return in, nil
		}
	}
	in.estimate(c)
	in.setTies(c, p, cmp.Or(in.scale, 1)) // Where nothing has a value, as little as can be changes.
	return in, nil
}

// convert works out job i.
func (in *instance) convert(p *solver.Problem, i int) {
	from, j := &p.Jobs[i], &in.jobs[i]
	j.group = from.Group
	// A size that does not fit beside all other jobs' smallest sizes is never used.
	usable := sort.SearchInts(from.Sizes, from.Sizes[0]+in.mostFree+1)
	j.sizes = make([]int32, usable)
	block := make([]float64, 3*usable)
	j.first, j.later, j.cost = block[:usable], block[usable:2*usable], block[2*usable:]
	for k := range j.sizes {
		j.sizes[k] = int32(from.Sizes[k])
		j.first[k] = notTiny(from.FirstStepWork[k] / from.Demand)
		j.later[k] = notTiny(from.StepWork[k] / from.Demand)
		if from.SizeValue != nil {
			j.cost[k] = notTiny(-from.SizeValue[k] / in.unit)
		}
	}
	if i > 0 && slices.Equal(from.Gain, p.Jobs[i-1].Gain) {
		j.gain, j.tail = in.jobs[i-1].gain, in.jobs[i-1].tail
	} else {
		block := make([]float64, 2*in.steps+1)
		j.gain, j.tail = block[:in.steps], block[in.steps:]
		for t := in.steps - 1; t >= 0; t-- {
			j.gain[t] = notTiny(from.Gain[t] / in.unit)
			j.tail[t] = j.tail[t+1] + j.gain[t]
		}
	}
	if in.steps == 1 {
		// What is served in the only step is capped right away.
		for k := range j.first {
			j.first[k] = min(1, j.first[k])
		}
	}
}

// capped reports whether the job's value is less than the sum of what its steps
// would add each: whether it can finish within the horizon, and not in the only
// step.
func (j *job) capped() bool {
	steps := len(j.gain)
	return steps > 1 && j.tail[0] > 0 &&
		slices.Max(j.first)+float64(steps-1)*slices.Max(j.later) >= finished
}

// fitting returns how many of the job's sizes, ascending, fit step t beside
// all other jobs' smallest sizes.
func (in *instance) fitting(j *job, t int) int {
	if in.free[t] == in.mostFree {
		return len(j.sizes)
	}
	return sort.Search(len(j.sizes), func(k int) bool { return int(j.sizes[k]-j.sizes[0]) > in.free[t] })
}

// size returns the number of sizes over all jobs and steps.
func (in *instance) size() int {
	sizes := 0
	for i := range in.jobs {
		sizes += len(in.jobs[i].sizes)
	}
	return sizes * in.steps
}

// progress returns the value of a job that serves the given shares in the first and
// in every later step, that of its size in the first step aside.
func (j *job) progress(first, later float64) float64 {
	sum, share := 0.0, first
	for _, gain := range j.gain {
		sum += gain * min(1, share)
		share += later
	}
	return sum
}

// setTies sets the tie cost of every size and the precision of the search for an
// objective of about the given scale; 0 is none at all.
func (in *instance) setTies(c *clock, p *solver.Problem, scale float64) {
	// A job contributes at most one change and its largest size, all jobs together
	// at most the pool.
	nodes := 0
	for i := range in.jobs {
		nodes += int(in.jobs[i].sizes[len(in.jobs[i].sizes)-1])
	}
	nodes = min(nodes, in.capacity[0])
	units := float64(len(in.jobs)*(nodes+1) + nodes)
	in.tieTotal = tieFraction * scale
	in.tieUnit = in.tieTotal / max(1, units)
	in.precision = max(in.tieUnit/4, noise*scale, tiny)
	for i := range in.jobs {
		j := &in.jobs[i]
		from := &p.Jobs[i]
		for k, size := range j.sizes {
			cost := float64(size)
			if int(size) != from.Current {
				cost += float64(nodes + 1)
			}
			j.cost[k] = in.tieUnit * cost
			if from.SizeValue != nil {
				j.cost[k] -= from.SizeValue[k] / in.unit
			}
		}
		c.up(len(j.sizes)) // All costs are set, whatever the time.
	}
}

// shares returns the shares of the job's demand served per size in step t.
func (j *job) shares(t int) []float64 {
	if t == 0 {
		return j.first
	}
	return j.later
}

// value returns what a plan, given as a position in sizes per step, has in
// the search: its part of the objective less tie cost.
func (j *job) value(chosen []uint8) float64 {
	share, value := 0.0, 0.0
	for t, k := range chosen {
		share = min(1, share+j.shares(t)[k])
		value += j.gain[t] * share
	}
	return value - j.cost[chosen[0]]
}

// stepValue returns what the k-th size in step t adds to the value of a job that
// is not capped.
func (j *job) stepValue(t, k int) float64 {
	if t == 0 {
		return j.tail[0]*j.first[k] - j.cost[k]
	}
	return j.tail[t] * j.later[k]
}

// unfinished reports whether a plan leaves the job short of its demand.
func (j *job) unfinished(chosen []uint8) bool {
	share := 0.0
	for t, k := range chosen {
		share += j.shares(t)[k]
	}
	return share < finished
}

// nodePrices returns what prices of the search are in units of the objective.
func (in *instance) nodePrices(prices []float64) []float64 {
	var converted []float64
	for _, price := range prices {
		converted = append(converted, price*in.unit)
	}
	return converted
}
