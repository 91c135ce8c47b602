package proof

import (
	"context"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/guess"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The search: branch and bound over subproblems.
//
// A subproblem restricts the sizes of finishing jobs in some steps. Its Lagrangian bound
// is minimised from its parent's prices, its prices give a legal plan, and the
// core search closes it or lowers its bound. Where the beam had to drop states the
// subproblem is split in two: by the sizes of one job in one step, the job whose nodes
// are least settled at the prices. Subproblems are taken best bound first. Everything is
// decided by counts of work, never by the clock, so that the same problem gives
// the same plan; only time can cut the search short.

// The core searches of a subproblem go from cheap to thorough. The first takes on the whole
// gap between bound and incumbent where that leaves few columns, else a small share of it, or a
// smaller one where it leaves too many; where it finds nothing, the next takes on
// twice as much; what it finds narrows the gap.
// Where the beam drops states it is widened, up to a width from which on splitting
// the subproblem does more.
const (
	firstFraction = 1.0 / 16
	leastFraction = 1.0 / 1024
	widening      = 4
	// marginal is about what one more node gains, as a share of what nodes gain on average. Where
	// jobs are few the search for prices starts there and takes fewer rounds; beyond shortHorizon
	// steps that does not count, for most of the work is that on prices per size.
	marginal     = 0.4
	shortHorizon = 8
	// easyRollouts is how many times the work of a rollout core searches may take before prices
	// per size are sought, in addition to Effort.EasyWork. With fewer, BenchmarkHardEnd loses a
	// proof for which 40 times are needed.
	easyRollouts = 50
	// fewColumns is the number of columns, besides the jobs' best, that are few.
	fewColumns = 100
)

// provenGap is the relative gap from which on the incumbent counts as optimal, whatever rounding
// adds to its bound.
const provenGap = 0.9 * solver.OptimalGap

// Search finds and proves the best plan of an instance.
type Search struct {
	in         *model.Instance
	lagrangian *lagrangian
	builder    *guess.Builder
	// rollout is nil where it takes too long.
	rollout *guess.Rollout

	Incumbent *model.Plan
	// Value is that of the incumbent, in the units of the search, values the sum of |value|
	// of its jobs.
	Value, values float64
	// root is the subproblem of all plans, open are those left to search, parts these and the
	// closed ones: a plan found later must not be above the bound of one of those either.
	root        *subproblem
	open, parts []*subproblem
	// closedBound is at least the value of every plan of the subproblems that are closed.
	closedBound float64
	// priced is the most that the pool costs at the prices of a proof, and Contradiction
	// says which proof was false, if one was.
	priced        float64
	Contradiction string
	witness       *witness
	Explored      int
	memory        *Memory
	// gap is the relative gap that is good enough, and certify asks for the best prices per size
	// even where a plan is proven without.
	gap     float64
	certify bool
	// sizes are the prices per size, and decomposable says that the root is still to be
	// searched at them.
	sizes *sizePrices
	// sizesAt are the best prices per size, nil where none were sought.
	sizesAt      []float64
	decomposable bool
	// Prices are those of the root.
	Prices []float64
	// GroupPrices are those of the limits of groups.
	GroupPrices []float64
}

// NewSearch prepares the search of an instance. A witness, if not nil, is a plan that must
// never be cut off. One search at a time works in a memory.
func NewSearch(in *model.Instance, options solver.SolveOptions, optimum solver.Plan, memory *Memory) *Search {
	next := &Search{in: in, memory: memory, Value: math.Inf(-1), closedBound: math.Inf(-1), gap: options.RelativeGap, certify: options.Certificate}
	if p := in.PlanOf(optimum); p != nil {
		value, _ := in.Value(model.NewClock(context.Background(), in.Effort.Quantum), p)
		next.witness = &witness{plan: p, value: value}
	}
	return next
}

// Run searches until the gap is proven, the work is used up or time is up. It
// returns the upper bound and what ended the search.
func (s *Search) Run(clock *model.Clock) (bound float64, limit solver.Limit) {
	s.Offer(clock, model.NewPlan(s.in))
	s.begin(&subproblem{bound: math.Inf(1)})
	s.open = append(s.open, s.root)
	s.prove(s.root, s.in.Most, 0, lemmaAlone)
	if len(s.in.Groups) > 0 {
		return s.searchGroups(clock)
	}
	if len(s.in.Finishing) == 0 {
		return s.separate(clock)
	}
	if len(s.in.Jobs) < s.in.Effort.MinSampled {
		s.plan(clock)
	}
	root := s.root
	root.begin(clock, s.in)
	if clock.Ended {
		return s.bound(), solver.LimitTime
	}
	s.lagrangian = newLagrangian(clock, s.in)
	if clock.Ended {
		return s.bound(), solver.LimitTime
	}
	if s.rollout != nil && s.in.Steps <= shortHorizon {
		for t := range root.Prices {
			root.Prices[t] *= marginal
		}
	}
	s.lagrangian.enter(clock, root)
	s.builder = guess.NewBuilder(s.in, s.lagrangian.kinds, s.lagrangian.pricer.price)
	if s.rollout != nil {
		s.Offer(clock, s.rollout.Plan(clock, root.Prices))
	} else {
		// Where finding the best prices takes its time, the first ones are good for a
		// plan to have until then.
		s.lagrangian.Evaluate(clock, root.Prices)
		s.Offer(clock, s.builder.Build(clock, root.Prices))
	}
	until := 0 // work at which subproblems are no longer opened, 0 for never
	for len(s.open) > 0 && s.Explored < s.in.Effort.MaxSubproblems {
		best := 0
		for n, part := range s.open {
			if part.bound > s.open[best].bound || part.bound == s.open[best].bound && part.order < s.open[best].order {
				best = n
			}
		}
		part := s.open[best]
		if s.closed(part) {
			break // no other subproblem has a better bound
		}
		s.open = slices.Delete(s.open, best, best+1)
		s.explore(clock, part)
		closed, rest := s.closed(part), len(s.open)
		if closed {
			s.closedBound = max(s.closedBound, part.bound)
		} else {
			s.open = append(s.open, part)
			if clock.Ended {
				return s.bound(), solver.LimitTime
			}
		}
		gap := solver.RelativeGap(s.Value, s.bound())
		if until == 0 && gap <= provenGap {
			until = clock.Work + tieWork
		}
		switch {
		case gap <= model.TiesOnly || clock.Past(until):
			return s.bound(), solver.LimitNone
		case gap <= s.gap:
			return s.bound(), solver.LimitGap
		}
		if !closed {
			if s.open = s.open[:rest]; !s.branch(clock, part) {
				s.open = append(s.open, part)
				if gap <= provenGap {
					return s.bound(), solver.LimitNone
				}
				return s.bound(), solver.LimitWork
			}
		}
	}
	if len(s.open) > 0 && s.Explored >= s.in.Effort.MaxSubproblems {
		return s.bound(), s.stopped(clock)
	}
	return s.bound(), solver.LimitNone
}

// begin makes a subproblem that of all plans.
func (s *Search) begin(root *subproblem) { s.root, s.parts = root, []*subproblem{root} }

// separate solves an instance of separable jobs alone, of which each step is a
// knapsack of its own.
func (s *Search) separate(clock *model.Clock) (bound float64, limit solver.Limit) {
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
			return s.bound(), solver.LimitTime
		}
		sum, relaxed, complete = sum+step.bound, relaxed+math.Abs(step.relaxed), complete && step.complete
		s.Prices = append(s.Prices, step.price)
		for i, n := range step.choices {
			p.Of(i)[t] = n
		}
	}
	s.Offer(clock, p)
	s.prove(s.root, sum, Priced(s.in, s.Prices)+relaxed, lemmaSteps)
	if complete {
		s.solve(s.root)
	}
	if s.closed(s.root) {
		return s.bound(), solver.LimitNone
	}
	if solver.RelativeGap(s.Value, s.bound()) <= s.gap {
		return s.bound(), solver.LimitGap
	}
	return s.bound(), s.stopped(clock)
}

// stopped returns what ended a search that has subproblems left.
func (s *Search) stopped(clock *model.Clock) solver.Limit {
	if clock.Ended {
		return solver.LimitTime
	}
	return solver.LimitWork
}

// plan decides which ways of searching the instance suits.
func (s *Search) plan(clock *model.Clock) {
	if s.rollout = guess.NewRollout(clock, s.in, &s.memory.knapsack, &s.memory.ahead); s.rollout.Work() > guess.MaxRolloutWork {
		s.rollout = nil
		return
	}
	s.decomposable = true
}

// bound returns an upper bound on the value of every plan.
func (s *Search) bound() float64 {
	bound := max(s.Value+s.in.Precision, s.closedBound)
	for _, part := range s.open {
		bound = max(bound, part.bound)
	}
	return bound
}

// closed reports whether no plan of the subproblem is better than the incumbent.
func (s *Search) closed(part *subproblem) bool {
	return part.solved || part.bound <= s.Value+s.in.Precision
}

// Offer makes a plan the incumbent if it is legal and better by more than rounding, whatever
// made it.
func (s *Search) Offer(clock *model.Clock, p *model.Plan) {
	if p == nil {
		return
	}
	if value, values := s.in.Value(clock, p); value > s.Value+s.in.Precision/2 && s.in.Legal(p) {
		s.Incumbent, s.Value, s.values = p, value, values
		for _, part := range s.parts {
			s.compare(part, p, value)
		}
	}
}

// explore lowers the bound of a subproblem and looks for better plans in it.
func (s *Search) explore(clock *model.Clock, part *subproblem) {
	s.Explored++
	goodEnough := func() bool { return s.closed(part) || solver.RelativeGap(s.Value, part.bound) <= s.gap }
	part.Close = s.rollout != nil
	for part.Rough = part.Trust > 0 && s.gap > solver.OptimalGap; ; part.Rough = false {
		bound, prices := s.lagrangian.minimise(clock, part, s.Value+max(s.in.Precision, s.gap*math.Abs(s.Value)))
		s.prove(part, bound, Priced(s.in, prices), lemmaPrices)
		if part.Prices = prices; part == s.root {
			s.Prices = prices
		}
		if goodEnough() {
			return
		}
		s.Offer(clock, s.builder.Build(clock, prices))
		if s.rollout != nil {
			s.Offer(clock, s.rollout.Plan(clock, prices))
		}
		if goodEnough() {
			return
		}
		if !part.Rough {
			s.searchCore(clock, part, bound)
			return
		}
	}
}

// searchCore searches the columns of the subproblem, of which bound is the Lagrangian
// bound at its prices, from cheap to thorough. The root is searched at prices per size if the
// core searches take more work than everyday decisions need.
func (s *Search) searchCore(clock *model.Clock, part *subproblem, bound float64) {
	until := 0
	if s.decomposable {
		until = clock.Work + s.in.Effort.EasyWork + easyRollouts*s.rollout.Work()
	}
	lossLimit, width, searched := s.firstLimit(clock, part.Prices, bound-s.Value), s.in.Effort.FirstWidth, false
	for sharpen := lossLimit == bound-s.Value; !s.closed(part) && !clock.Ended; sharpen = true {
		if clock.Past(until) {
			if !s.settled(part) {
				s.decompose(clock, part)
			}
			if s.settled(part) {
				return
			}
			until = 0
		}
		core := newCoreSearch(clock, s.lagrangian.kinds, part.Prices, lossLimit, until, s.memory)
		if core == nil && clock.Past(until) {
			continue
		}
		if core == nil {
			// Too much survives. Take on less, unless less was searched already.
			if searched || lossLimit < leastFraction*(bound-s.Value) {
				s.decompose(clock, part)
				return
			}
			lossLimit /= 4
			continue
		}
		searched = true
		if !core.prepare(clock, sharpen, bound-part.bound) {
			return
		}
		least := core.run(clock, width)
		lossLimit = core.lossLimit
		whole := lossLimit >= bound-s.Value
		found := !math.IsInf(core.best, 1)
		if found {
			s.Offer(clock, core.solution())
		}
		s.prove(part, bound-least, Priced(s.in, part.Prices)+math.Abs(bound), lemmaCore)
		switch dropped := least < min(lossLimit, core.best); {
		case !dropped && (found || whole):
			s.solve(part) // Its best plan is known, or that it has nothing better.
			return
		case !dropped:
			lossLimit *= 2
		case clock.Past(until): // Prices per size come next.
		case width < s.in.Effort.LastWidth:
			width *= widening
		default:
			s.decompose(clock, part)
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
	d := s.lagrangian.kinds
	for n := range d.All {
		u := &d.All[n]
		set := &d.Columns[u.Class]
		best, net := d.BestColumn(u, prices)
		for _, m := range u.Active {
			loss := net - set.Net(m, prices)
			if int(m) == best || loss >= gap {
				continue
			}
			if few -= int(u.Count); loss < firstFraction*gap {
				losses = append(losses, loss)
			}
		}
		if clock.Up(2 * len(u.Active) * len(prices)) {
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

// branch splits a subproblem in two. It returns false if it allows one plan only.
func (s *Search) branch(clock *model.Clock, part *subproblem) bool {
	f, t, split := s.unsettled(clock, part)
	if f < 0 {
		return false
	}
	at := f*s.in.Steps + t
	low, high := part.allowed[at].Split(split)
	// A plan of it is one of a child, whose bound is no higher.
	s.parts = slices.DeleteFunc(s.parts, func(p *subproblem) bool { return p == part })
	for side, allowed := range []model.SizeSet{low, high} {
		child := &subproblem{
			allowed: slices.Clone(part.allowed),
			Start:   guess.Start{Prices: slices.Clone(part.Prices), Temperature: 1e-3},
			bound:   math.Inf(1),
			order:   2*s.Explored + side,
		}
		child.allowed[at] = allowed
		s.prove(child, part.bound, 0, lemmaBranch)
		s.open, s.parts = append(s.open, child), append(s.parts, child)
	}
	return true
}

// unsettled returns the finishing job and step whose nodes vary most among the
// plans that are about as good as the best at the subproblem's prices, and the position
// in its sizes that splits them at their mean; -1 if nothing varies.
func (s *Search) unsettled(clock *model.Clock, part *subproblem) (job, step, split int) {
	l, steps := s.lagrangian, s.in.Steps
	l.enter(clock, part)
	temperature := 1e-3 * s.in.Scale / float64(len(s.in.Jobs))
	job = -1
	most := 0.0
	for f, i := range s.in.Finishing {
		mean, variances := l.descent.Spread(l.kinds.Kind(f), part.Prices, temperature)
		for t, variance := range variances {
			if variance <= most {
				continue
			}
			at := slices.IndexFunc(s.in.Jobs[i].Sizes, func(k int32) bool { return float64(k) > mean[t] })
			if low, high := part.allowedFor(f, steps)[t].Split(max(at, 0)); low != 0 && high != 0 {
				most, job, step, split = variance, f, t, at
			}
		}
	}
	if job >= 0 {
		return job, step, split
	}
	// Nothing is undecided by the columns; split whatever can still be split.
	for f := range s.in.Finishing {
		for t, allowed := range part.allowedFor(f, steps) {
			for k := range solver.MaxSizes + 1 {
				if low, high := allowed.Split(k); low != 0 && high != 0 {
					return f, t, k
				}
			}
		}
	}
	return -1, 0, 0
}
