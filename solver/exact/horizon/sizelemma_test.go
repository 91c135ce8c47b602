package horizon

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/heuristics"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// The lemmas at prices per size, each by itself, as in lemma_test.go.

// anySizePrices returns random prices per size of at most most, which may be negative.
func (g *ground) anySizePrices(t *rapid.T, start heuristics.Start, most float64) (*sizePrices, []float64) {
	sizes := newSizePrices(g.clock, g.Instance)
	x := sizes.At(start.Prices)
	for v := range x {
		switch rapid.IntRange(0, 3).Draw(t, "kind of price") {
		case 0:
			x[v] *= rapid.Float64Range(0.4, 1.2).Draw(t, "factor")
		case 1:
			x[v] = -rapid.Float64Range(0, most).Draw(t, "paid")
		}
	}
	sizes.set(x, rapid.SampledFrom([]int{1, 7, coarseCells, fineCells}).Draw(t, "cells"))
	return sizes, x
}

func TestLemmaSizePrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGround(t)
		s, start := g.search(t)
		sizes, x := g.anySizePrices(t, start, 0.3)
		bound, _, ok := sizes.Evaluate(g.clock, x, func(int, model.PriceColumn) bool { return false })
		if !ok {
			t.Fatal("no bound")
		}
		s.prove(bound, PoolCost(g.Instance, start.Prices), lemmaSizePrices)
		g.checkBound(t, s, "L at any prices per size")
	})
}

// TestLemmaStepwise searches step by step at any prices per size, with few states too.
func TestLemmaStepwise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGround(t)
		s, start := g.search(t)
		// The bound at these prices may be far above all values.
		sizes, _ := g.anySizePrices(t, start, rapid.SampledFrom([]float64{0.3, 3e5}).Draw(t, "paid at most"))
		q := newStepwise(g.clock, sizes)
		if q == nil {
			t.Skip("a job cannot finish, or the pool is too large")
		}
		value := s.Value - rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "less")
		best, most, ok := q.run(g.clock, rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "width"), value, 0)
		if !ok {
			t.Fatal("time is up")
		}
		s.prove(most, PoolCost(g.Instance, start.Prices), lemmaStepwise)
		g.checkBound(t, s, "step by step")
		if best != nil {
			if found, _ := g.Value(g.clock, best); !g.Legal(best) || found < value-1e-12*g.magnitude {
				t.Fatalf("the plan %v has a value of %.17g; must be more than %.17g", best, found, value)
			}
		}
	})
}

// TestStepwiseFirstSteps searches jobs that differ only in their first step. Before that step, their shares do not
// distinguish them.
func TestStepwiseFirstSteps(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 12))
		p := &problem.Problem{Capacity: slices.Repeat([]int{4 + r.IntN(3)}, 2), Steps: 2}
		work := []float64{0, 0.2 + 0.4*r.Float64(), 0.6 + 0.6*r.Float64()}
		gain := []float64{r.Float64(), r.Float64()}
		for i := range 3 {
			first := []float64{0, r.Float64() * work[1], r.Float64() * work[2]}
			p.Jobs = append(p.Jobs, problem.AdmittedJob{
				Index: i, Demand: 1, Options: solver.Nodes(0, 1, 3), FirstStepWork: first, StepWork: work, Gain: gain,
			})
		}
		g := groundOf(t, p, model.DefaultEffort())
		s, start := NewSearch(g.Instance, problem.SolveOptions{}, nil, new(Memory)), startOf(g.clock, g.Instance)
		s.Offer(g.clock, model.NewPlan(g.Instance))
		sizes := newSizePrices(g.clock, g.Instance)
		sizes.set(sizes.At(start.Prices), fineCells)
		_, most, _ := newStepwise(g.clock, sizes).run(g.clock, g.Effort.LastStates, s.Value, 0)
		s.prove(most, PoolCost(g.Instance, start.Prices), lemmaStepwise)
		g.checkBound(t, s, "step by step")
	}
}
