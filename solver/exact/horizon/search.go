package horizon

import (
	"context"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/heuristics"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// The stages of the search.
//
// A search runs its stages in order. The first stage minimizes the Lagrangian bound and derives a
// legal plan from the prices. The core search closes the gap or lowers the bound. If it takes too
// much work, the next stage uses prices per size, and its plans and bounds reduce the gap for
// another core search. All limits count work, never time, so that the same problem always has the
// same plan. Only the deadline can stop a search early.

// stage is one method of the search. It lowers the upper bound or finds better plans, based on the
// results of the stages before. It stops if the count of work reaches until; 0 means never.
type stage struct {
	search func(s *Search, clock *model.Clock, until int)
	// work is the work limit of the stage; 0 means none.
	work int
}

// learned contains the results of the stages so far.
type learned struct {
	// Prices are the best node prices, and bound is the Lagrangian bound at these prices.
	// GroupPrices are the multipliers of the limits of groups.
	Prices, GroupPrices []float64
	bound               float64
	// lagrangian contains the columns, and builder derives plans from them.
	lagrangian *lagrangian
	builder    *heuristics.Builder
	// sizes is the decomposition with prices per size, and bestSizePrices the best of these prices;
	// both are nil if the stage was skipped.
	sizes          *sizePrices
	bestSizePrices []float64
}

// Core searches start with little work. The limit of the loss of the first one is the whole gap
// between bound and incumbent if few columns lose less. Otherwise it is a fraction of the gap, and
// a smaller one if too many columns remain. If a search finds no solution, the limit is doubled. If
// the beam drops states, it is widened from Effort.FirstWidth to Effort.LastWidth.
const (
	// firstFraction and minFraction are the first and the smallest limit, as fractions of the
	// gap. They trade the number of core searches for their size. With a quarter of firstFraction the
	// snapshots of a trace in BenchmarkSizePrices (go test ./solver/exact -run '^$' -bench SizePrices
	// -benchtime 1x) take 1.3 times the work, and with 4 times minFraction BenchmarkDecision (go test .
	// -run '^$' -bench Decision) takes 1.1 times for many jobs.
	firstFraction = 1.0 / 16
	minFraction   = 1.0 / 1024
	// easyRollouts is the work limit of the core search before prices per size, as a multiple of
	// the work of a rollout, in addition to Effort.FirstCoreWork. With 20, BenchmarkHardEnd (go test
	// ./solver/exact -run '^$' -bench HardEnd) loses a proof.
	easyRollouts = 50
	// fewColumns is the number of columns, in addition to the best ones, up to which the first core
	// search covers the whole gap. With 0 BenchmarkHardEnd takes 1.2 times the work, and BenchmarkInstances
	// 1.1 times.
	fewColumns = 100
)

// provenGap is the relative gap at which the incumbent counts as optimal. It is smaller than
// solver.OptimalGap because the rounding error is still added to the bound.
const provenGap = 0.9 * solver.OptimalGap

// Search finds the best plan of an instance and proves its optimality.
type Search struct {
	in *model.Instance
	learned
	// rollout is nil if there are many jobs. The search then skips prices per size too.
	rollout *heuristics.Rollout

	Incumbent *model.Plan
	// Value is the value of the incumbent in the units of the search. values is the sum of |value|
	// over its jobs.
	Value, values float64
	// upper is an upper bound on the value of every plan, proven by the lemma by. Only prove sets
	// them. solved reports whether the incumbent is optimal.
	upper  float64
	by     lemma
	solved bool
	// poolCost is the largest cost of the pool at the prices of a lemma. Contradiction names the
	// lemma that a legal plan contradicts, if any.
	poolCost      float64
	Contradiction string
	// witness is the value of a plan that is known to be optimal, in tests; -Inf otherwise. A bound
	// below it is a contradiction.
	witness float64
	memory  *Memory
	// gap is the relative gap at which the search may stop. certify requests the best prices per
	// size even if the plan is proven without them.
	gap     float64
	certify bool
}

// NewSearch prepares the search of an instance. The optimum is a known optimal plan, for tests, or
// nil. Two searches must not use the same memory at the same time.
func NewSearch(in *model.Instance, options problem.SolveOptions, optimum problem.Plan, memory *Memory) *Search {
	next := &Search{
		in: in, memory: memory, Value: math.Inf(-1), upper: math.Inf(1),
		witness: math.Inf(-1), gap: options.RelativeGap, certify: options.Certificate,
	}
	if p := in.PlanOf(optimum); p != nil {
		next.witness, _ = in.Value(model.NewClock(context.Background(), in.Effort.CheckInterval), p)
	}
	return next
}

// Run searches until the gap is proven, the work limits are reached, or the deadline has passed. It
// returns the upper bound and the limit that stopped the search.
func (s *Search) Run(clock *model.Clock) (bound float64, limit solver.Limit) {
	s.Offer(clock, model.NewPlan(s.in))
	s.prove(s.in.UpperBound, 0, lemmaAlone)
	for _, stage := range s.stages(clock) {
		until := 0
		if stage.work > 0 {
			until = clock.Work + stage.work
		}
		stage.search(s, clock, until)
		if clock.Expired || s.done() {
			break
		}
	}
	bound = max(s.Value+s.in.Precision, s.upper)
	switch gap := solver.RelativeGap(s.Value, bound); {
	case s.closed():
		return bound, solver.LimitNone
	case clock.Expired:
		return bound, solver.LimitTime
	case gap <= provenGap:
		return bound, solver.LimitNone
	case gap <= s.gap:
		return bound, solver.LimitGap
	}
	return bound, solver.LimitWork
}

// stages returns the stages for the instance.
func (s *Search) stages(clock *model.Clock) []stage {
	switch {
	case len(s.in.Groups) > 0:
		return []stage{{search: (*Search).searchGroups}}
	case len(s.in.Finishing) == 0:
		return []stage{{search: (*Search).searchIndependentSteps}}
	}
	if len(s.in.Jobs) < s.in.Effort.MinSampledJobs {
		s.rollout = heuristics.NewRollout(clock, s.in, &s.memory.knapsack, &s.memory.rollout)
	}
	prices, core := stage{search: (*Search).searchPrices}, stage{search: (*Search).searchCore}
	if s.rollout == nil {
		return []stage{prices, core}
	}
	easy := core
	easy.work = s.in.Effort.FirstCoreWork + easyRollouts*s.rollout.Work()
	return []stage{prices, easy, {search: (*Search).searchSizePrices}, core}
}

// done reports whether the gap is as small as requested, or only plans of equal objective may be
// left to find.
func (s *Search) done() bool {
	return s.closed() || solver.RelativeGap(s.Value, s.upper) <= max(s.gap, provenGap)
}

// searchIndependentSteps solves an instance in which all jobs are separable: each step is an
// independent knapsack.
func (s *Search) searchIndependentSteps(clock *model.Clock, _ int) {
	p, sum, relaxed, complete := model.NewPlan(s.in), 0.0, 0.0, true
	n := s.in.Size() / s.in.Steps // Allocate at once, to avoid copies between two checks of the deadline.
	k := &s.memory.knapsack
	k.nodes, k.values = slices.Grow(k.nodes[:0], n), slices.Grow(k.values[:0], n)
	k.losses, k.edges = slices.Grow(k.losses[:0], n), slices.Grow(k.edges[:0], n)
	for t := range s.in.Steps {
		s.in.SeparableItems(clock, k, t)
		step, ok := k.solve(clock, s.in.Capacity[t], s.in.Precision/float64(s.in.Steps), maxStepCells)
		if !ok { // The deadline may have passed before the last item was added.
			s.Offer(clock, p)
			return
		}
		sum, relaxed, complete = sum+step.bound, relaxed+math.Abs(step.relaxed), complete && step.complete
		s.Prices = append(s.Prices, step.price)
		for i, n := range step.choices {
			p.Of(i)[t] = n
		}
	}
	s.Offer(clock, p)
	s.prove(sum, PoolCost(s.in, s.Prices)+relaxed, lemmaSteps)
	if complete {
		s.markSolved()
	}
}

// closed reports whether no plan is better than the incumbent.
func (s *Search) closed() bool { return s.solved || s.upper <= s.Value+s.in.Precision }

// Offer makes a plan the incumbent if it is legal and its value is larger by more than rounding.
func (s *Search) Offer(clock *model.Clock, p *model.Plan) {
	if p == nil {
		return
	}
	if value, values := s.in.Value(clock, p); value > s.Value+s.in.Precision/2 && s.in.Legal(p) {
		s.Incumbent, s.Value, s.values = p, value, values
		s.checkValue(value)
	}
}

// searchPrices minimizes the Lagrangian bound and derives plans from its prices.
func (s *Search) searchPrices(clock *model.Clock, _ int) {
	start := startOf(clock, s.in)
	if clock.Expired {
		return
	}
	if s.lagrangian = newLagrangian(clock, s.in); clock.Expired {
		return
	}
	s.builder = heuristics.NewBuilder(s.in, s.lagrangian.classes, s.lagrangian.pricer.price)
	if s.rollout != nil {
		s.Offer(clock, s.rollout.Plan(clock, start.Prices))
	} else {
		// Large instances take long to find the best prices. The first prices give an incumbent
		// until then.
		s.lagrangian.Evaluate(clock, start.Prices)
		s.Offer(clock, s.builder.Build(clock, start.Prices))
	}
	goodEnough := func() bool { return s.closed() || solver.RelativeGap(s.Value, s.upper) <= s.gap }
	start.Close = s.rollout != nil
	for start.Rough = start.Trust > 0 && s.gap > solver.OptimalGap; ; start.Rough = false {
		s.bound, s.Prices = s.lagrangian.minimize(clock, start, s.Value+max(s.in.Precision, s.gap*math.Abs(s.Value)))
		s.prove(s.bound, PoolCost(s.in, s.Prices), lemmaPrices)
		if start.Prices = s.Prices; goodEnough() {
			return
		}
		s.Offer(clock, s.builder.Build(clock, s.Prices))
		if s.rollout != nil {
			s.Offer(clock, s.rollout.Plan(clock, s.Prices))
		}
		if goodEnough() || !start.Rough {
			return
		}
	}
}

// searchCore runs core searches at the node prices, from little work to much.
func (s *Search) searchCore(clock *model.Clock, until int) {
	bound := s.bound
	lossLimit, width, searched := s.firstLimit(clock, s.Prices, bound-s.Value), s.in.Effort.FirstWidth, false
	for tighten := lossLimit == bound-s.Value; !s.closed() && !clock.Expired && !clock.Past(until); tighten = true {
		core := newCoreSearch(clock, s.lagrangian.classes, s.Prices, lossLimit, until, s.memory)
		if core == nil && clock.Past(until) {
			return
		}
		if core == nil {
			// Too many columns remain. Lower the limit, unless a lower limit was searched before.
			if searched || lossLimit < minFraction*(bound-s.Value) {
				return
			}
			lossLimit /= 4
			continue
		}
		searched = true
		if !core.prepare(clock, tighten, bound-s.upper) {
			return
		}
		lossBound := core.run(clock, width)
		lossLimit = core.lossLimit
		fullGap := lossLimit >= bound-s.Value
		found := !math.IsInf(core.best, 1)
		if found {
			s.Offer(clock, core.solution())
		}
		s.prove(bound-lossBound, PoolCost(s.in, s.Prices)+math.Abs(bound), lemmaCore)
		switch dropped := lossBound < min(lossLimit, core.best); {
		case !dropped && (found || fullGap):
			s.markSolved() // The best plan is known, or no plan is better than the incumbent.
			return
		case !dropped:
			lossLimit *= 2
		case width < s.in.Effort.LastWidth:
			width = s.in.Effort.LastWidth
		default:
			return
		}
		lossLimit = min(lossLimit, bound-s.Value)
	}
}

// firstLimit returns the limit of the loss for the first core search. It is the gap if few columns
// lose less. Otherwise it is a fraction of the gap, or the loss of the firstRegrets-th column if
// that is smaller. In instances with many jobs, even a small fraction of the first gap is far more
// than the loss of the best plan.
func (s *Search) firstLimit(clock *model.Clock, prices []float64, gap float64) float64 {
	var losses []float64
	remaining := fewColumns
	d := s.lagrangian.classes
	for n := range d.All {
		class := &d.All[n]
		best, net := class.Best(prices)
		for m := range class.Len() {
			loss := net - class.Net(m, prices)
			if m == best || loss >= gap {
				continue
			}
			if remaining -= int(class.Count); loss < firstFraction*gap {
				losses = append(losses, loss)
			}
		}
		if clock.Add(2 * class.Len() * len(prices)) {
			break
		}
	}
	if remaining >= 0 {
		return gap
	}
	if len(losses) <= firstRegrets {
		return firstFraction * gap
	}
	slices.Sort(losses)
	return max(losses[firstRegrets], minFraction*gap)
}
