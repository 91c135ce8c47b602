package proof

import (
	"context"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/guess"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// The search, in stages.
//
// A search tries stages in order: the Lagrangian bound is minimised, its prices give a legal
// plan, and the core search closes the gap or lowers the bound. If it takes too much work, the
// instance is searched at prices per size, and what these find narrows the gap for another core
// search. Everything is decided by counts of work, never by the clock, so that the same problem
// gives the same plan; only time can cut the search short.

// stage is a way of searching: it lowers the upper bound or finds better plans, given what the
// stages before it have learned. It ends if the clock's work reaches until, 0 for never.
type stage struct {
	search func(s *Search, clock *model.Clock, until int)
	// work is the limit of its work, 0 for none.
	work int
}

// learned is what stages leave to the stages after them.
type learned struct {
	// Prices are the best node prices, bound is the Lagrangian bound at them, and GroupPrices
	// are those of the limits of groups.
	Prices, GroupPrices []float64
	bound               float64
	// lagrangian knows the columns found, and builder makes plans of them.
	lagrangian *lagrangian
	builder    *guess.Builder
	// exhausted is the value of the incumbent with which the core search came to its end.
	exhausted float64
	// sizes are the prices per size, and sizesAt the best of them; nil if none were sought.
	sizes   *sizePrices
	sizesAt []float64
}

// The core searches go from cheap to thorough. The first takes on the whole gap between bound
// and incumbent if that leaves few columns, otherwise a small share of it, or a smaller one if
// it leaves too many. If it finds nothing, the next takes on twice as much; what it finds
// narrows the gap. If the beam drops states it is widened, up to a width at which the search
// ends.
const (
	firstFraction = 1.0 / 16
	leastFraction = 1.0 / 1024
	widening      = 4
	// easyRollouts is how many times the work of a rollout core searches may take before prices
	// per size are sought, in addition to Effort.EasyWork. With 20,
	// BenchmarkHardEnd loses a proof.
	easyRollouts = 50
	// fewColumns is the number of columns, besides the jobs' best, that are few.
	fewColumns = 100
)

// provenGap is the relative gap from which on the incumbent counts as optimal, whatever rounding
// adds to its bound.
const provenGap = 0.9 * problem.OptimalGap

// Search finds and proves the best plan of an instance.
type Search struct {
	in *model.Instance
	learned
	// rollout is nil if it takes too long, and then there are no prices per size either.
	rollout *guess.Rollout

	Incumbent *model.Plan
	// Value is that of the incumbent, in the units of the search, values the sum of |value|
	// of its jobs.
	Value, values float64
	// upper is at least the value of every plan, by a lemma; prove alone writes them. solved
	// says that the best plan was found.
	upper  float64
	by     lemma
	solved bool
	// priced is the most that the pool costs at the prices of a proof, and Contradiction
	// says which proof was false, if one was.
	priced        float64
	Contradiction string
	// witness is the value of a plan that tests know to be optimal, -Inf if there is none: the
	// lemma that cuts it off is the one that is false.
	witness float64
	memory  *Memory
	// gap is the relative gap that is good enough, and certify asks for the best prices per size
	// even where a plan is proven without.
	gap     float64
	certify bool
}

// NewSearch prepares the search of an instance. A witness, if not nil, is a plan that must
// never be cut off. One search at a time works in a memory.
func NewSearch(in *model.Instance, options problem.SolveOptions, optimum problem.Plan, memory *Memory) *Search {
	next := &Search{
		in: in, memory: memory, Value: math.Inf(-1), upper: math.Inf(1), witness: math.Inf(-1), gap: options.RelativeGap, certify: options.Certificate,
		learned: learned{exhausted: math.Inf(-1)},
	}
	if p := in.PlanOf(optimum); p != nil {
		next.witness, _ = in.Value(model.NewClock(context.Background(), in.Effort.Quantum), p)
	}
	return next
}

// Run searches until the gap is proven, the work is used up or time is up. It
// returns the upper bound and what ended the search.
func (s *Search) Run(clock *model.Clock) (bound float64, limit problem.Limit) {
	s.Offer(clock, model.NewPlan(s.in))
	s.prove(s.in.Most, 0, lemmaAlone)
	for _, stage := range s.stages(clock) {
		until := 0
		if stage.work > 0 {
			until = clock.Work + stage.work
		}
		if stage.search(s, clock, until); clock.Ended || s.enough() {
			break
		}
	}
	bound = max(s.Value+s.in.Precision, s.upper)
	switch gap := problem.RelativeGap(s.Value, bound); {
	case s.closed():
		return bound, problem.LimitNone
	case clock.Ended:
		return bound, problem.LimitTime
	case gap <= provenGap:
		return bound, problem.LimitNone
	case gap <= s.gap:
		return bound, problem.LimitGap
	}
	return bound, problem.LimitWork
}

// stages returns the stages that the instance suits.
func (s *Search) stages(clock *model.Clock) []stage {
	switch {
	case len(s.in.Groups) > 0:
		return []stage{{search: (*Search).searchGroups}}
	case len(s.in.Finishing) == 0:
		return []stage{{search: (*Search).searchSingly}}
	}
	if len(s.in.Jobs) < s.in.Effort.MinSampled {
		if s.rollout = guess.NewRollout(clock, s.in, &s.memory.knapsack, &s.memory.ahead); s.rollout.Work() > guess.MaxRolloutWork {
			s.rollout = nil
		}
	}
	prices, core := stage{search: (*Search).searchPrices}, stage{search: (*Search).searchCore}
	if s.rollout == nil {
		return []stage{prices, core}
	}
	easy := core
	easy.work = s.in.Effort.EasyWork + easyRollouts*s.rollout.Work()
	return []stage{prices, easy, {search: (*Search).searchSizePrices}, core}
}

// enough reports whether the gap is as small as asked for, or nothing but ties can be left to find.
func (s *Search) enough() bool {
	return s.closed() || problem.RelativeGap(s.Value, s.upper) <= max(s.gap, provenGap)
}

// searchSingly solves an instance of separable jobs alone, of which each step is a
// knapsack of its own.
func (s *Search) searchSingly(clock *model.Clock, _ int) {
	p, sum, relaxed, complete := model.NewPlan(s.in), 0.0, 0.0, true
	n := s.in.Size() / s.in.Steps // With room for them no stretch goes into moving options.
	k := &s.memory.knapsack
	k.nodes, k.values = slices.Grow(k.nodes[:0], n), slices.Grow(k.values[:0], n)
	k.losses, k.rates = slices.Grow(k.losses[:0], n), slices.Grow(k.rates[:0], n)
	for t := range s.in.Steps {
		s.in.SeparableItems(clock, k, t)
		step, ok := k.solve(clock, s.in.Capacity[t], s.in.Precision/float64(s.in.Steps))
		if !ok { // Time is up, if not before the last item was added.
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
	s.prove(sum, Priced(s.in, s.Prices)+relaxed, lemmaSteps)
	if complete {
		s.solve()
	}
}

// closed reports whether no plan is better than the incumbent.
func (s *Search) closed() bool { return s.solved || s.upper <= s.Value+s.in.Precision }

// Offer makes a plan the incumbent if it is legal and better by more than rounding, whatever
// made it.
func (s *Search) Offer(clock *model.Clock, p *model.Plan) {
	if p == nil {
		return
	}
	if value, values := s.in.Value(clock, p); value > s.Value+s.in.Precision/2 && s.in.Legal(p) {
		s.Incumbent, s.Value, s.values = p, value, values
		s.compare(value)
	}
}

// searchPrices minimises the Lagrangian bound and makes plans of its prices.
func (s *Search) searchPrices(clock *model.Clock, _ int) {
	start := startOf(clock, s.in)
	if clock.Ended {
		return
	}
	if s.lagrangian = newLagrangian(clock, s.in); clock.Ended {
		return
	}
	s.builder = guess.NewBuilder(s.in, s.lagrangian.classes, s.lagrangian.pricer.price)
	if s.rollout != nil {
		s.Offer(clock, s.rollout.Plan(clock, start.Prices))
	} else {
		// If finding the best prices takes its time, the first ones are good for a plan to
		// have until then.
		s.lagrangian.Evaluate(clock, start.Prices)
		s.Offer(clock, s.builder.Build(clock, start.Prices))
	}
	goodEnough := func() bool { return s.closed() || problem.RelativeGap(s.Value, s.upper) <= s.gap }
	start.Close = s.rollout != nil
	for start.Rough = start.Trust > 0 && s.gap > problem.OptimalGap; ; start.Rough = false {
		s.bound, s.Prices = s.lagrangian.minimise(clock, start, s.Value+max(s.in.Precision, s.gap*math.Abs(s.Value)))
		s.prove(s.bound, Priced(s.in, s.Prices), lemmaPrices)
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

// searchCore searches the columns at the node prices, from cheap to thorough.
func (s *Search) searchCore(clock *model.Clock, until int) {
	if s.exhausted == s.Value {
		return // Nothing has narrowed the gap since.
	}
	bound, value := s.bound, s.Value
	lossLimit, width, searched := s.firstLimit(clock, s.Prices, bound-s.Value), s.in.Effort.FirstWidth, false
	for sharpen := lossLimit == bound-s.Value; !s.closed() && !clock.Ended && !clock.Past(until); sharpen = true {
		core := newCoreSearch(clock, s.lagrangian.classes, s.Prices, lossLimit, until, s.memory)
		if core == nil && clock.Past(until) {
			return
		}
		if core == nil {
			// Too much survives. Take on less, unless less was searched already.
			if searched || lossLimit < leastFraction*(bound-s.Value) {
				s.exhausted = value
				return
			}
			lossLimit /= 4
			continue
		}
		searched = true
		if !core.prepare(clock, sharpen, bound-s.upper) {
			return
		}
		least := core.run(clock, width)
		lossLimit = core.lossLimit
		whole := lossLimit >= bound-s.Value
		found := !math.IsInf(core.best, 1)
		if found {
			s.Offer(clock, core.solution())
		}
		s.prove(bound-least, Priced(s.in, s.Prices)+math.Abs(bound), lemmaCore)
		switch dropped := least < min(lossLimit, core.best); {
		case !dropped && (found || whole):
			s.solve() // Its best plan is known, or that it has nothing better.
			return
		case !dropped:
			lossLimit *= 2
		case width < s.in.Effort.LastWidth:
			width *= widening
		case clock.Past(until):
			return
		default:
			s.exhausted = value
			return
		}
		lossLimit = min(lossLimit, bound-s.Value)
	}
}

// firstLimit returns the loss that the first core search takes on: the gap where few columns
// lose less, else a small share of it, or the loss of firstRegrets columns, if that is less. With
// many jobs even a small share of the gap to a first plan is far more than the best one loses.
func (s *Search) firstLimit(clock *model.Clock, prices []float64, gap float64) float64 {
	var losses []float64
	few := fewColumns
	d := s.lagrangian.classes
	for n := range d.All {
		class := &d.All[n]
		best, net := class.Best(prices)
		for m := range class.Len() {
			loss := net - class.Net(m, prices)
			if m == best || loss >= gap {
				continue
			}
			if few -= int(class.Count); loss < firstFraction*gap {
				losses = append(losses, loss)
			}
		}
		if clock.Up(2 * class.Len() * len(prices)) {
			break
		}
	}
	if few >= 0 {
		return gap
	}
	if len(losses) <= firstRegrets {
		return firstFraction * gap
	}
	slices.Sort(losses)
	return max(losses[firstRegrets], leastFraction*gap)
}
