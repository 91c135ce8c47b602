package proof

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The search at prices per size, step by step.
//
// All that counts for the steps from t on is what each job has been served by then, and what the
// steps before are worth: a state. At prices per size x a plan that goes on from there is
// worth at most that value, what can still follow of each job net of x, and what the steps
// from t on bring at most,
//
//	value + sum_i V_(i,t)(s_i) + sum_(u>=t) K_u(x),
//
// so that the states below the incumbent go. Of two states of a step one has no better plan
// than the other if the other has at least its value, after paying for what its jobs were
// served less at what that counts from t on if served at once: with the sizes of the one
// from there on, no job of the other loses more than that. Jobs of a shape are told apart by
// what they were served only. The states that are worth most are kept; of the others the
// bound is. (A beam search; Sabuncuoglu and Bayiz, "Job shop scheduling with beam search"
// (1999).)

// mostFound is how many times as many states as are kept are found before the others go.
const mostFound = 8

// stepwise is a search of the plans of the root, step by step.
type stepwise struct {
	in *model.Instance
	// jobs are the finishing ones, those of a class and of a shape side by side, and behind
	// these the separable ones, which take what nodes are left.
	jobs []stepwiseJob
	few  int // finishing jobs
	// room[t][n] is the most that the sizes of the jobs from the n-th on bring in step t, by
	// the nodes that there are; rest[t] that of all jobs in the steps from t on.
	room [][][]float64
	rest []float64
	// cutoff is the value that a plan must exceed. At most width states of a step are kept, that are
	// worth more than least; dropped is the most that another one is worth.
	cutoff, least, dropped float64
	width                  int

	found []stepwiseState
	// worth[n][k] is what the n-th job is worth with the k-th size, and after, net of x after
	// the step; behind[n] the most that the jobs from there on are, net of x from the step on.
	worth  [][]float64
	behind []float64
	chosen []uint8
}

type stepwiseJob struct {
	*model.Job
	index, class, shape int
	// price[t][k] is that of the k-th size, or what it brings a separable job.
	price [][]float64
	// toGo is what can follow for a finishing job.
	toGo *valueToGo
}

// stepwiseState is a state at the start of a step.
type stepwiseState struct {
	// jobs are the finishing ones, by shape and falling share.
	jobs        []served
	value, most float64
	before      *stepwiseState
}

// served is what a job was served, the size that it had last, and its position in the state
// before.
type served struct {
	share float64
	size  uint8
	from  uint16
}

// newStepwise prepares the search at the prices set, which have to stay so until it has run.
// It returns nil if there are too many nodes for it.
func newStepwise(clock *model.Clock, s *sizePrices) *stepwise {
	in := s.In
	if slices.Max(in.Capacity) > mostCells(in)/((len(in.Jobs)+1)*in.Steps) {
		return nil
	}
	q := &stepwise{
		in: in, few: len(in.Finishing), rest: make([]float64, in.Steps+1), room: make([][][]float64, in.Steps),
		worth: grid[float64](len(in.Finishing), s.Stride), behind: make([]float64, len(in.Finishing)+1), chosen: make([]uint8, len(in.Finishing)),
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
		j.toGo, _ = s.ahead(clock, j.class)
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
		q.room[t] = grid[float64](len(q.jobs)+1, in.Capacity[t]+1)
		for n := len(q.jobs) - 1; n >= 0; n-- {
			next := q.room[t][n+1]
			for nodes := range next {
				most := math.Inf(-1)
				for k, price := range q.jobs[n].price[t] {
					if left := nodes - int(q.jobs[n].Sizes[k]); left >= 0 {
						most = max(most, price+next[left])
					}
				}
				q.room[t][n][nodes] = most
			}
			clock.Up(len(q.jobs[n].Sizes) * len(next))
		}
		q.rest[t] = q.rest[t+1] + q.room[t][0][in.Capacity[t]]
	}
	return q
}

// run searches for plans of more than a value, keeping at most width states of a step. It
// returns the best one found, nil if there is none, and the most that any plan is worth, or the
// value; false if time is up or the clock's work reaches until, 0 for never.
func (q *stepwise) run(clock *model.Clock, width int, value float64, until int) (best *model.Plan, most float64, ok bool) {
	// States that are as good but for rounding are dropped, half the precision in all steps.
	q.cutoff, q.dropped, q.width = value+q.in.Precision/2, value, width
	states := []stepwiseState{{jobs: make([]served, q.few)}}
	for t := range q.in.Steps {
		q.found, q.least = nil, q.cutoff
		for at := range states {
			q.extend(clock, t, &states[at], until)
		}
		states = q.keep(clock, t+1, until)
		if clock.Ended || clock.Past(until) {
			return nil, 0, false
		}
	}
	if len(states) > 0 {
		end := slices.MaxFunc(states, func(a, b stepwiseState) int { return cmp.Compare(a.value, b.value) })
		best, q.dropped = q.plan(&end), max(q.dropped, end.value)
	}
	return best, q.dropped + q.in.Precision, true
}

// extend finds the states that follow one in step t.
func (q *stepwise) extend(clock *model.Clock, t int, from *stepwiseState, until int) {
	for n := q.few - 1; n >= 0; n-- {
		j, most := &q.jobs[n], math.Inf(-1)
		for k := range q.sizes(t, n, from) {
			share := q.after(t, n, k, from)
			worth := j.Gain[t]*share + j.toGo.most(t+1, share)
			if t == 0 {
				worth -= j.Cost[k]
			}
			q.worth[n][k], most = worth, max(most, worth-j.price[t][k])
		}
		q.behind[n] = q.behind[n+1] + most
		clock.Up(20 * len(j.Sizes))
	}
	q.choose(clock, t, 0, from, q.in.Capacity[t], from.value, until)
}

// sizes returns how many sizes the n-th job may have in step t: one that has finished holds
// its smallest.
func (q *stepwise) sizes(t, n int, from *stepwiseState) int {
	if from.jobs[n].share == 1 {
		return 1
	}
	return len(q.jobs[n].price[t])
}

// after returns what the n-th job was served after its k-th size in step t.
func (q *stepwise) after(t, n, k int, from *stepwiseState) float64 {
	return whole(from.jobs[n].share + q.jobs[n].Shares(t)[k])
}

// choose finds the states in which the jobs before the n-th have the sizes chosen; worth is what
// they and the steps before bring, and left the nodes that remain.
func (q *stepwise) choose(clock *model.Clock, t, n int, from *stepwiseState, left int, worth float64, until int) {
	most := worth + q.behind[n] + q.room[t][n][left] + q.rest[t+1]
	if !(most > q.least) || clock.Up(20) || clock.Past(until) {
		return
	}
	if n == q.few {
		if len(q.found) == mostFound*q.width {
			q.found = q.keep(clock, t+1, until)
		}
		q.emit(clock, t, from, from.value+q.room[t][n][left], most)
		return
	}
	j, sizes := &q.jobs[n], q.sizes(t, n, from)
	if n > 0 {
		// Equal jobs have their sizes in falling order.
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

// emit adds the state after the sizes chosen in step t; value is that of the steps before and of
// the separable jobs.
func (q *stepwise) emit(clock *model.Clock, t int, from *stepwiseState, value, most float64) {
	to := stepwiseState{jobs: make([]served, q.few), value: value, most: most, before: from}
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
	clock.Up(60 * q.few)
}

// keep returns the states found so far at the start of step t, the width of them that are worth
// most, but for those that another one is as good as.
func (q *stepwise) keep(clock *model.Clock, t, until int) []stepwiseState {
	if !model.SortFalling(clock, q.found, make([]stepwiseState, len(q.found)), func(s stepwiseState) float64 { return s.most }) {
		return nil
	}
	var kept []stepwiseState
	for n := range q.found {
		state := &q.found[n]
		if slices.ContainsFunc(kept, func(other stepwiseState) bool { return q.replaces(t, &other, state) }) {
			continue
		}
		if len(kept) == q.width {
			q.least = kept[q.width-1].most
			q.dropped = max(q.dropped, q.least)
			break
		}
		kept = append(kept, *state)
		if clock.Up(2*q.few*len(kept)) || clock.Past(until) {
			break
		}
	}
	return kept
}

// replaces reports whether no plan that goes on from a state of step t is better than the best
// one that goes on from the other, but for a share of the precision.
func (q *stepwise) replaces(t int, other, state *stepwiseState) bool {
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

// plan returns the plan that leads to a state at the end.
func (q *stepwise) plan(end *stepwiseState) *model.Plan {
	p := model.NewPlan(q.in)
	left, sizes := slices.Clone(q.in.Capacity), make([]uint8, q.in.Steps)
	for n := range q.few {
		at, state := n, end
		for t := q.in.Steps - 1; t >= 0; t-- {
			sizes[t] = state.jobs[at].size
			left[t] -= int(q.jobs[n].Sizes[sizes[t]]) // as all of the shape have it
			at, state = int(state.jobs[at].from), state.before
		}
		copy(p.Of(q.jobs[at].index), sizes)
	}
	for n := q.few; n < len(q.jobs); n++ {
		j := &q.jobs[n]
		for t, price := range j.price {
			next, most := q.room[t][n+1], math.Inf(-1)
			for k := range price {
				if rest := left[t] - int(j.Sizes[k]); rest >= 0 && price[k]+next[rest] > most {
					most, p.Of(j.index)[t] = price[k]+next[rest], uint8(k)
				}
			}
			left[t] -= int(j.Sizes[p.Of(j.index)[t]])
		}
	}
	return p
}
