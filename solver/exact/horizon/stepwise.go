package horizon

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The stepwise search at prices per size.
//
// It is a beam search over the steps. A state at the start of step t consists of the share served
// of each job and the value of the steps before. At prices per size x a plan through the state has
// at most the value so far, plus the value-to-go of each job net of x, plus the maxima of the steps
// from t on,
//
//	value + sum_i V_(i,t)(s_i) + sum_(u>=t) K_u(x).
//
// States whose bound is below the incumbent are dropped. A state is dominated if another state of
// the step has at least the same value after paying for the demand that its jobs were served less,
// valued as if served at once in step t. With the remaining sizes of the first state, no job of the
// other state loses more than this. Jobs of the same shape differ only in their share. The beam
// keeps the states with the largest bounds and records the largest bound of the others. (Beam
// search: Sabuncuoglu and Bayiz, "Job shop scheduling with beam search" (1999).)

// foundFactor limits the states found before the beam is pruned, as a multiple of its width. It
// trades memory for fewer sorts. With 2 BenchmarkAgainstHiGHS (go test ./solver/exact -run '^$' -bench
// AgainstHiGHS -benchtime 1x) takes 1.1 times the work.
const foundFactor = 8

// stepwise is a beam search by steps.
type stepwise struct {
	in *model.Instance
	// jobs lists the finishing jobs first, sorted by shape and class, and then the separable jobs,
	// which use the remaining nodes.
	jobs      []stepwiseJob
	finishing int // number of finishing jobs
	// stepBound[t][n] is the maximum value of the sizes of the jobs from n on in step t, by
	// available nodes. rest[t] is the maximum for all jobs in the steps from t on.
	stepBound [][][]float64
	rest      []float64
	// cutoff is the value that a plan has to exceed. The beam keeps at most width states per step
	// with bounds above minBound. dropped is the largest bound of the dropped states.
	cutoff, minBound, dropped float64
	width                     int

	found []stepwiseState
	// worth[n][k] is the value of job n with its k-th size plus its value-to-go, net of x after the
	// step. jobsBound[n] is the maximum for the jobs from n on, net of x from the step on.
	worth     [][]float64
	jobsBound []float64
	chosen    []uint8
}

type stepwiseJob struct {
	*model.Job
	index, class, shape int
	// price[t][k] is the price of the k-th size, or its value for a separable job.
	price [][]float64
	// toGo is the value-to-go of a finishing job.
	toGo *valueToGo
}

// stepwiseState is a state at the start of a step. bound is an upper bound on the value of plans
// through the state.
type stepwiseState struct {
	// jobs are the finishing jobs, by shape and decreasing share.
	jobs         []served
	value, bound float64
	before       *stepwiseState
}

// served is the share served of a job, its last size, and its position in the state before.
type served struct {
	share float64
	size  uint8
	from  uint16
}

// newStepwise prepares the search at the current prices, which must not change until it has run. It
// returns nil if the tables would be too large.
func newStepwise(clock *model.Clock, s *sizePrices) *stepwise {
	in := s.In
	if slices.Max(in.Capacity) > maxCells(in)/((len(in.Jobs)+1)*in.Steps) {
		return nil
	}
	q := &stepwise{
		in: in, finishing: len(in.Finishing), rest: make([]float64, in.Steps+1), stepBound: make([][][]float64, in.Steps),
		worth:     grid[float64](len(in.Finishing), s.Stride),
		jobsBound: make([]float64, len(in.Finishing)+1), chosen: make([]uint8, len(in.Finishing)),
	}
	cost := s.CostAt(s.x)
	for f, i := range in.Finishing {
		j := stepwiseJob{Job: &in.Jobs[i], index: i, class: s.ClassOf[f], shape: s.ShapeOf[s.ClassOf[f]]}
		for t, count := range s.Sizes[j.shape] {
			row := make([]float64, count)
			for k := range row {
				row[k] = cost(j.class, t, k)
			}
			j.price = append(j.price, row)
		}
		j.toGo, _ = s.toGoOf(clock, j.class)
		q.jobs = append(q.jobs, j)
	}
	slices.SortStableFunc(q.jobs, func(a, b stepwiseJob) int {
		return cmp.Or(cmp.Compare(a.shape, b.shape), cmp.Compare(a.class, b.class))
	})
	for _, i := range in.Separable {
		j := stepwiseJob{Job: &in.Jobs[i], index: i}
		for t := range in.Steps {
			row := make([]float64, in.Fitting(j.Job, t))
			for k := range row {
				row[k] = j.StepValue(t, k)
			}
			j.price = append(j.price, row)
		}
		q.jobs = append(q.jobs, j)
	}
	for t := in.Steps - 1; t >= 0; t-- {
		q.stepBound[t] = grid[float64](len(q.jobs)+1, in.Capacity[t]+1)
		for n := len(q.jobs) - 1; n >= 0; n-- {
			next := q.stepBound[t][n+1]
			for nodes := range next {
				best := math.Inf(-1)
				for k, price := range q.jobs[n].price[t] {
					if left := nodes - int(q.jobs[n].Sizes[k]); left >= 0 {
						best = max(best, price+next[left])
					}
				}
				q.stepBound[t][n][nodes] = best
			}
			clock.Add(len(q.jobs[n].Sizes) * len(next))
		}
		q.rest[t] = q.rest[t+1] + q.stepBound[t][0][in.Capacity[t]]
	}
	return q
}

// run searches for a plan whose value exceeds the given one, with at most width states per step. It
// returns the best plan found, or nil, and an upper bound on the value of every plan that is at
// least the given value. It returns false if the deadline has passed or the count of work reaches
// until; 0 means never.
func (q *stepwise) run(clock *model.Clock, width int, value float64, until int) (best *model.Plan, bound float64, ok bool) {
	// The pruning tolerates rounding errors of half the precision over all steps.
	q.cutoff, q.dropped, q.width = value+q.in.Precision/2, value, width
	states := []stepwiseState{{jobs: make([]served, q.finishing)}}
	for t := range q.in.Steps {
		q.found, q.minBound = nil, q.cutoff
		for at := range states {
			q.extend(clock, t, &states[at], until)
		}
		states = q.prune(clock, t+1, until)
		if clock.Expired || clock.Past(until) {
			return nil, 0, false
		}
	}
	if len(states) > 0 {
		end := slices.MaxFunc(states, func(a, b stepwiseState) int { return cmp.Compare(a.value, b.value) })
		best, q.dropped = q.plan(&end), max(q.dropped, end.value)
	}
	return best, q.dropped + q.in.Precision, true
}

// extend finds the successors of a state in step t.
func (q *stepwise) extend(clock *model.Clock, t int, from *stepwiseState, until int) {
	for n := q.finishing - 1; n >= 0; n-- {
		j, bestWorth := &q.jobs[n], math.Inf(-1)
		for k := range q.sizes(t, n, from) {
			share := q.after(t, n, k, from)
			worth := j.Gain[t]*share + j.toGo.upperBound(t+1, share)
			if t == 0 {
				worth -= j.Cost[k]
			}
			q.worth[n][k], bestWorth = worth, max(bestWorth, worth-j.price[t][k])
		}
		q.jobsBound[n] = q.jobsBound[n+1] + bestWorth
		clock.Add(20 * len(j.Sizes))
	}
	q.choose(clock, t, 0, from, q.in.Capacity[t], from.value, until)
}

// sizes returns the number of sizes that the n-th job may have in step t. A finished job has its
// smallest size.
func (q *stepwise) sizes(t, n int, from *stepwiseState) int {
	if from.jobs[n].share == 1 {
		return 1
	}
	return len(q.jobs[n].price[t])
}

// after returns the share served of the n-th job after its k-th size in step t.
func (q *stepwise) after(t, n, k int, from *stepwiseState) float64 {
	return capShare(from.jobs[n].share + q.jobs[n].Shares(t)[k])
}

// choose enumerates the sizes of the jobs from n on; the sizes of the jobs before are chosen. worth
// is the value so far, and left the number of remaining nodes.
func (q *stepwise) choose(clock *model.Clock, t, n int, from *stepwiseState, left int, worth float64, until int) {
	bound := worth + q.jobsBound[n] + q.stepBound[t][n][left] + q.rest[t+1]
	if !(bound > q.minBound) || clock.Add(20) || clock.Past(until) {
		return
	}
	if n == q.finishing {
		if len(q.found) == foundFactor*q.width {
			q.found = q.prune(clock, t+1, until)
		}
		q.emit(clock, t, from, from.value+q.stepBound[t][n][left], bound)
		return
	}
	j, sizes := &q.jobs[n], q.sizes(t, n, from)
	if n > 0 {
		// Identical jobs have non-increasing sizes, to exclude symmetric states.
		if other := &q.jobs[n-1]; from.jobs[n].share == from.jobs[n-1].share && (j.class == other.class || t > 0 && j.shape == other.shape) {
			sizes = min(sizes, int(q.chosen[n-1])+1)
		}
	}
	for k := sizes - 1; k >= 0; k-- {
		if rest := left - int(j.Sizes[k]); rest >= 0 {
			q.chosen[n] = uint8(k)
			q.choose(clock, t, n+1, from, rest, worth+q.worth[n][k], until)
		}
	}
}

// emit adds the state after the chosen sizes in step t. value is the value of the steps before and
// of the separable jobs.
func (q *stepwise) emit(clock *model.Clock, t int, from *stepwiseState, value, bound float64) {
	to := stepwiseState{jobs: make([]served, q.finishing), value: value, bound: bound, before: from}
	for n, k := range q.chosen {
		j := &q.jobs[n]
		share := q.after(t, n, int(k), from)
		if to.value += j.Gain[t] * share; t == 0 {
			to.value -= j.Cost[k]
		}
		at := n
		for ; at > 0 && q.jobs[at-1].shape == j.shape && to.jobs[at-1].share < share; at-- {
			to.jobs[at] = to.jobs[at-1]
		}
		to.jobs[at] = served{share: share, size: k, from: uint16(n)}
	}
	q.found = append(q.found, to)
	clock.Add(60 * q.finishing)
}

// prune returns the undominated states found so far at the start of step t: the width states with
// the largest bounds.
func (q *stepwise) prune(clock *model.Clock, t, until int) []stepwiseState {
	if !model.SortDescending(clock, q.found, make([]stepwiseState, len(q.found)), func(s stepwiseState) float64 { return s.bound }) {
		return nil
	}
	var kept []stepwiseState
	for n := range q.found {
		state := &q.found[n]
		if slices.ContainsFunc(kept, func(other stepwiseState) bool { return q.dominates(t, &other, state) }) {
			continue
		}
		if len(kept) == q.width {
			q.minBound = kept[q.width-1].bound
			q.dropped = max(q.dropped, q.minBound)
			break
		}
		kept = append(kept, *state)
		if clock.Add(2*q.finishing*len(kept)) || clock.Past(until) {
			break
		}
	}
	return kept
}

// dominates reports whether the best plan through other is at least as good as every plan through
// state, up to a fraction of the precision.
func (q *stepwise) dominates(t int, other, state *stepwiseState) bool {
	spare := other.value - state.value + q.in.Precision/float64(2*q.in.Steps)
	for n := range state.jobs {
		if spare < 0 {
			return false
		}
		if less := state.jobs[n].share - other.jobs[n].share; less > 0 {
			spare -= q.jobs[n].Tail[t] * (less + unserved)
		}
	}
	return spare >= 0
}

// plan returns the plan that leads to a state after the last step.
func (q *stepwise) plan(end *stepwiseState) *model.Plan {
	p := model.NewPlan(q.in)
	left, sizes := slices.Clone(q.in.Capacity), make([]uint8, q.in.Steps)
	for n := range q.finishing {
		at, state := n, end
		for t := q.in.Steps - 1; t >= 0; t-- {
			sizes[t] = state.jobs[at].size
			left[t] -= int(q.jobs[n].Sizes[sizes[t]]) // all jobs of a shape have the same sizes
			at, state = int(state.jobs[at].from), state.before
		}
		copy(p.Of(q.jobs[at].index), sizes)
	}
	for n := q.finishing; n < len(q.jobs); n++ {
		j := &q.jobs[n]
		for t, price := range j.price {
			next, best := q.stepBound[t][n+1], math.Inf(-1)
			for k := range price {
				if rest := left[t] - int(j.Sizes[k]); rest >= 0 && price[k]+next[rest] > best {
					best, p.Of(j.index)[t] = price[k]+next[rest], uint8(k)
				}
			}
			left[t] -= int(j.Sizes[p.Of(j.index)[t]])
		}
	}
	return p
}
