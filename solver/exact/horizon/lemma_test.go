package horizon

import (
	"context"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/heuristics"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// These tests check each lemma by itself, at random prices and limits that the search does not use. The oracle is the
// best of all plans of a small problem.

// ground is a small instance and all its legal plans with their values.
type ground struct {
	*model.Instance
	clock  *model.Clock
	plans  []*model.Plan
	values []float64
	// magnitude is that of the values.
	magnitude float64
}

// drawGround returns a random instance that has finishing jobs.
func drawGround(t *rapid.T) *ground {
	several := func(p *problem.Problem) bool { return p.Steps > 1 && len(p.Jobs) > 0 }
	p := solvertest.ProblemsWithin(solvertest.Limits{Jobs: 3, Steps: 3, Sizes: 3, Nodes: 14}).Filter(several).Draw(t, "problem")
	// Few random jobs can finish within the horizon, so one of them gets less to do.
	job := &p.Jobs[rapid.IntRange(0, len(p.Jobs)-1).Draw(t, "job that can finish")]
	if work := slices.Max(job.FirstStepWork) + float64(p.Steps-1)*slices.Max(job.StepWork); work > 0 {
		job.Demand = min(job.Demand, work*rapid.Float64Range(0.1, 1).Draw(t, "demand"))
	}
	e := model.DefaultEffort()
	if rapid.Bool().Draw(t, "few labels") {
		e.MaxLabels = 2
	}
	if rapid.IntRange(0, 4).Draw(t, "sizes too large for tables") == 0 {
		for i := range p.Jobs {
			p.Jobs[i].Options = slices.Clone(p.Jobs[i].Options)
			for k := range p.Jobs[i].Options {
				p.Jobs[i].Options[k].Nodes *= 100_003
			}
			p.Jobs[i].Current.Nodes *= 100_003
		}
		for step := range p.Capacity {
			p.Capacity[step] = min(math.MaxInt32, p.Capacity[step]*100_003)
		}
	}
	g := groundOf(t, p, e)
	if len(g.Finishing) == 0 {
		t.Skip("no job can finish")
	}
	return g
}

// groundOf lists the plans of a problem.
func groundOf(t rapid.TB, p *problem.Problem, e *model.Effort) *ground {
	g := &ground{clock: model.NewClock(context.Background(), e.CheckInterval)}
	in, err := model.NewInstance(g.clock, p, e, new(model.Memory))
	if err != nil {
		t.Fatal(err)
	}
	g.Instance = in
	g.enumerate(model.NewPlan(in), 0, 0, slices.Clone(in.Free))
	return g
}

// enumerate lists the plans that begin with the sizes before job i and step t.
func (g *ground) enumerate(p *model.Plan, i, t int, free []int) {
	if i == len(g.Jobs) {
		if !g.Legal(p) {
			return
		}
		value, magnitude := g.Value(g.clock, p)
		g.plans, g.values, g.magnitude = append(g.plans, p.Clone()), append(g.values, value), max(g.magnitude, magnitude)
		return
	}
	if t == g.Steps {
		g.enumerate(p, i+1, 0, free)
		return
	}
	j := &g.Jobs[i]
	for k, nodes := range j.Sizes {
		if more := int(nodes - j.Sizes[0]); more <= free[t] {
			p.Of(i)[t] = uint8(k)
			free[t] -= more
			g.enumerate(p, i, t+1, free)
			free[t] += more
		}
	}
	p.Of(i)[t] = 0
}

// search returns a search with an incumbent that is any plan, at any prices.
func (g *ground) search(t *rapid.T) (s *Search, start heuristics.Start) {
	s = NewSearch(g.Instance, problem.SolveOptions{}, nil, new(Memory))
	s.Offer(g.clock, g.plans[rapid.IntRange(0, len(g.plans)-1).Draw(t, "incumbent")])
	start = startOf(g.clock, g.Instance)
	for step := range start.Prices {
		start.Prices[step] *= rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9, 1, 1.1, 2, 10}).Draw(t, "price")
	}
	s.lagrangian = newLagrangian(g.clock, g.Instance)
	s.builder = heuristics.NewBuilder(g.Instance, s.lagrangian.classes, s.lagrangian.pricer.price)
	return s, start
}

// checkBound fails the test if the upper bound is below the best value, or if the search has found a contradiction.
func (g *ground) checkBound(t rapid.TB, s *Search, what string) {
	t.Helper()
	rounding := 1e-12*g.magnitude + s.Slack()
	if best := slices.Max(g.values); s.upper < best-rounding {
		t.Fatalf("%s: lemma %q proves %.17g; there is a plan of %.17g", what, s.by, s.upper, best)
	}
	if s.Contradiction != "" {
		t.Fatalf("%s: %s", what, s.Contradiction)
	}
}

func TestLemmaAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGround(t)
		s, _ := g.search(t)
		s.prove(g.UpperBound, 0, lemmaAlone)
		g.checkBound(t, s, "estimate")
	})
}

func TestLemmaPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGround(t)
		s, start := g.search(t)
		bound, _ := s.lagrangian.bound(g.clock, start.Prices)
		s.prove(bound, PoolCost(g.Instance, start.Prices), lemmaPrices)
		g.checkBound(t, s, "L at any prices")
		bound, prices := s.lagrangian.minimize(g.clock, start, math.Inf(-1))
		s.prove(bound, PoolCost(g.Instance, prices), lemmaPrices)
		g.checkBound(t, s, "L at the best prices")
	})
}

func TestLemmaCore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGround(t)
		s, start := g.search(t)
		bound, _ := s.lagrangian.bound(g.clock, start.Prices)
		lossLimit := rapid.Float64Range(0.001, 1.5).Draw(t, "limit") * max(bound-slices.Max(g.values), g.Precision)
		core := newCoreSearch(g.clock, s.lagrangian.classes, start.Prices, lossLimit, 0, s.memory)
		if core == nil || !core.prepare(g.clock, rapid.Bool().Draw(t, "tighten"), 0) {
			return
		}
		least := core.run(g.clock, rapid.IntRange(1, 40).Draw(t, "width"))
		s.prove(bound-least, PoolCost(g.Instance, start.Prices), lemmaCore)
		g.checkBound(t, s, "core")
		// Merged labels make L larger than the best columns do.
		if !math.IsInf(core.best, 1) && g.Effort.MaxLabels == model.DefaultEffort().MaxLabels {
			if value, _ := g.Value(g.clock, core.solution()); math.Abs(value-(bound-core.best)) > 1e-12*max(g.magnitude, math.Abs(bound)) &&
				value < bound-core.best {
				t.Fatalf("the core's plan is worth %.17g; it lost %.17g of %.17g", value, core.best, bound)
			}
		}
	})
}

// TestLemmaGroups searches trees of groups with all work, and with so little that some of the
// tables stay incomplete.
func TestLemmaGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.GroupedProblems(solvertest.Limits{Jobs: 5, Steps: 1, Sizes: 4, Nodes: 30}).Draw(t, "problem")
		want, ok := solvertest.Exhaustive(p)
		if !ok {
			t.Fatal("an admitted problem without a plan")
		}
		clock := model.NewClock(context.Background(), model.DefaultEffort().CheckInterval)
		in, err := model.NewInstance(clock, p, model.DefaultEffort(), new(model.Memory))
		if err != nil {
			t.Fatal(err)
		}
		tree := newGroupTree(in)
		if !tree.relax(clock, false) {
			t.Fatal("not relaxed")
		}
		s := NewSearch(in, problem.SolveOptions{}, nil, new(Memory))
		s.Offer(clock, model.NewPlan(in))
		rounding := Rounding(in, tree.bound, s.values, tree.poolCost) + in.Precision + in.TieTotal + 1e-12*math.Abs(want.Objective/in.Unit)
		check := func(what string, bound float64) {
			if bound < want.Objective/in.Unit-rounding {
				t.Fatalf("%s prove %.17g; there is a plan of %.17g", what, bound, want.Objective/in.Unit)
			}
		}
		check("group prices", tree.bound)
		tree.cells = rapid.SampledFrom([]int{0, maxGroupCells - 10, maxGroupCells - 100, maxGroupCells - 1000}).Draw(t, "cells")
		tree.minimize(clock, len(tree.nodes)-1)
		check("group tables", tree.bound-tree.provenLoss(len(tree.nodes)-1))
	})
}

// drawMagnitudes scales the values of each job by random powers of ten, or leaves all as they are. It returns the sum
// of the magnitudes of all values.
func drawMagnitudes(t *rapid.T, p *problem.Problem) float64 {
	magnitude := 0.0
	hostile := rapid.Bool().Draw(t, "hostile")
	for i := range p.Jobs {
		scale := 1.0
		if hostile {
			scale = math.Pow10(rapid.IntRange(-9, 9).Draw(t, "decade"))
			p.Jobs[i].Gain[0] *= math.Pow10(rapid.SampledFrom([]int{0, 0, -288, -291, -300}).Draw(t, "decade of the gain"))
		}
		for k := range p.Jobs[i].OptionValue {
			p.Jobs[i].OptionValue[k] *= scale
			magnitude += math.Abs(p.Jobs[i].OptionValue[k])
		}
		magnitude += p.Jobs[i].Gain[0]
	}
	for _, g := range p.Groups {
		magnitude += p.QuotaPrice * float64(g.Floor)
	}
	return magnitude
}

// exactValue returns the value of a plan of one step in exact numbers.
func exactValue(p *problem.Problem, g *ground, plan *model.Plan) *big.Float {
	sum := new(big.Float).SetPrec(3000)
	for i := range p.Jobs {
		j := &p.Jobs[i]
		options := []solver.Option{j.Options[plan.Of(i)[0]]}
		value := j.Value(options)
		if j.OptionValue != nil {
			size := j.OptionValue[plan.Of(i)[0]]
			value -= size
			sum.Add(sum, big.NewFloat(size))
		}
		sum.Add(sum, big.NewFloat(value))
	}
	if p.Groups == nil {
		return sum
	}
	for q, nodes := range g.GroupNodes(plan) {
		price := big.NewFloat(p.QuotaPrice)
		sum.Sub(sum, price.Mul(price.SetPrec(3000), big.NewFloat(float64(max(0, p.Groups[q].Floor-nodes)))))
	}
	return sum
}

// TestRecount counts the losses of any plan of one step, of values that cancel out and values
// many orders of magnitude apart, and compares with all plans in exact numbers.
func TestRecount(t *testing.T) {
	limits := solvertest.Limits{Jobs: 5, Steps: 1, Sizes: 4, Nodes: 30}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.OneOf(solvertest.ProblemsWithin(limits), solvertest.GroupedProblems(limits)).Draw(t, "problem")
		magnitude := drawMagnitudes(t, p)
		g := groundOf(t, p, model.DefaultEffort())
		g.SetTies(g.clock, p, 0)
		best := exactValue(p, g, g.plans[0])
		for _, plan := range g.plans {
			if value := exactValue(p, g, plan); value.Cmp(best) > 0 {
				best = value
			}
		}
		found, better, ok := Recount(g.clock, g.Instance, g.plans[rapid.IntRange(0, len(g.plans)-1).Draw(t, "plan")], 0)
		if !ok {
			t.Fatal("not counted")
		}
		short, _ := best.Sub(best, exactValue(p, g, found)).Float64()
		if better *= g.Unit; !(short <= better) || better > 1e-14*magnitude+1e-280 {
			t.Fatalf("at most %g better than the plan found, of a magnitude of %g; there is one better by %g", better, magnitude, short)
		}
	})
}

// TestLemmaSteps solves steps by themselves, to any precision.
func TestLemmaSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.IntRange(1, 5).Draw(t, "items")
		capacity := rapid.IntRange(0, 40).Draw(t, "capacity")
		var k knapsack
		k.Reset()
		// best[n] is the best value of the items so far on n nodes.
		best := make([]float64, capacity+1)
		magnitude := 0.0
		for range items {
			next := slices.Repeat([]float64{math.Inf(-1)}, capacity+1)
			nodes := 0
			for range rapid.IntRange(1, solver.MaxSizes+1).Draw(t, "options") {
				value := rapid.OneOf(rapid.Float64Range(-1, 5), rapid.SampledFrom([]float64{-1e9, 0, 1, 1e9})).Draw(t, "value")
				k.Option(int32(nodes), value)
				magnitude += math.Abs(value)
				for n := nodes; n <= capacity; n++ {
					next[n] = max(next[n], best[n-nodes]+value)
				}
				nodes += rapid.IntRange(1, 4).Draw(t, "more nodes")
			}
			k.Item()
			best = next
		}
		precision := rapid.SampledFrom([]float64{0, 1e-12, 0.1, 10}).Draw(t, "precision")
		s, ok := k.solve(model.NewClock(context.Background(), model.DefaultEffort().CheckInterval), capacity, precision, maxStepCells)
		rounding := 1e-14 * magnitude
		if !ok || s.bound < best[capacity]-rounding || s.value > best[capacity]+rounding {
			t.Fatalf("value %.17g, bound %.17g; the best is %.17g", s.value, s.bound, best[capacity])
		}
		if s.complete && s.value < best[capacity]-precision-rounding {
			t.Fatalf("complete with %.17g; the best is %.17g", s.value, best[capacity])
		}
	})
}

// TestContradiction proves what is false: a bound below a legal plan, and a plan
// found above a bound proven before.
func TestContradiction(t *testing.T) {
	p := problem.NewProblem(&solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{
		solver.NewJob("a", 20*time.Minute), solver.NewJob("b", 10*time.Hour),
	}}, solver.AdmissionFIFO)
	clock := model.NewClock(t.Context(), model.DefaultEffort().CheckInterval)
	in, err := model.NewInstance(clock, p, model.DefaultEffort(), new(model.Memory))
	if err != nil {
		t.Fatal(err)
	}
	below := func() *Search {
		s := NewSearch(in, problem.SolveOptions{}, nil, new(Memory))
		s.Offer(clock, model.NewPlan(in))
		return s
	}
	s := below()
	if s.prove(s.Value-s.Slack()/2, 0, lemmaCore); s.Contradiction != "" {
		t.Errorf("rounding is a contradiction: %s", s.Contradiction)
	}
	if s.prove(s.Value-10*s.Slack(), 0, lemmaCore); !strings.Contains(s.Contradiction, string(lemmaCore)) {
		t.Errorf("contradiction %q; must name lemma %q", s.Contradiction, lemmaCore)
	}
	better := heuristics.NewRollout(clock, in, new(knapsack), new([]float64)).Plan(clock, make([]float64, in.Steps))
	s = below()
	s.prove(s.Value, 0, lemmaPrices)
	if s.Offer(clock, better); !strings.Contains(s.Contradiction, string(lemmaPrices)) {
		t.Errorf("contradiction %q; must name lemma %q", s.Contradiction, lemmaPrices)
	}
	s = below()
	s.witness, _ = in.Value(clock, better)
	if s.prove(s.Value, 0, lemmaCore); !strings.Contains(s.Contradiction, string(lemmaCore)) {
		t.Errorf("contradiction %q of a witness; must name lemma %q", s.Contradiction, lemmaCore)
	}
}

// TestGuesses offers what a guess must not get away with: a plan beyond the pool, and prices
// that bound nothing.
func TestGuesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGround(t)
		s, start := g.search(t)
		value := s.Value
		p := model.NewPlan(g.Instance)
		step, nodes := rapid.IntRange(0, g.Steps-1).Draw(t, "step"), 0
		for i := range g.Jobs {
			p.Of(i)[step] = uint8(len(g.Jobs[i].Sizes) - 1)
			nodes += int(g.Jobs[i].Sizes[p.Of(i)[step]])
		}
		if s.Offer(g.clock, p); nodes > g.Capacity[step] && s.Value != value {
			t.Fatalf("a plan of %d nodes became the incumbent of a pool of %d", nodes, g.Capacity[step])
		}
		start.Prices[step] = rapid.SampledFrom([]float64{-1, -1e-300, math.NaN()}).Draw(t, "price")
		if bound, _ := s.lagrangian.Evaluate(g.clock, start.Prices); !math.IsInf(bound, 1) {
			t.Fatalf("prices %v bound plans by %g", start.Prices, bound)
		}
	})
}
