package horizon

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestOneJob compares what is found about one job at any prices with all its plans: more steps,
// and more irregular ones, than a test of several jobs can go through.
func TestOneJob(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 7))
		steps := 4 + r.IntN(3)
		job := problem.AdmittedJob{
			Demand: 1, Options: [][]solver.Option{solver.Nodes(0, 1, 3), solver.Nodes(1, 2, 5), solver.Nodes(0, 1, 2, 6)}[r.IntN(3)],
		}
		for _, k := range job.Options {
			job.StepWork = append(job.StepWork, float64(min(k.Nodes, 1))*(0.02+0.6*r.Float64()))
		}
		const half = 0.5 - 2e-13 // twice of it counts as finished
		nearly := r.IntN(3) == 0
		if nearly {
			job.StepWork[1+r.IntN(len(job.Options)-1)] = half
		}
		job.FirstStepWork = job.StepWork
		for range steps {
			job.Gain = append(job.Gain, 0.1+r.Float64())
		}
		e := model.DefaultEffort()
		clock := model.NewClock(context.Background(), e.CheckInterval)
		in, err := model.NewInstance(clock,
			&problem.Problem{Capacity: slices.Repeat([]int{20}, steps), Steps: steps, Jobs: []problem.AdmittedJob{job}}, e, new(model.Memory))
		if err != nil {
			t.Fatal(err)
		}
		if len(in.Finishing) == 0 {
			continue // The job cannot finish.
		}
		j, prices := &in.Jobs[0], make([]float64, steps)
		most := j.Tail[0] / float64(steps*int(job.Options[1].Nodes))
		fitting := make([]int, steps)
		for step := range prices {
			prices[step] = most * r.Float64()
			fitting[step] = len(job.Options)
			if r.IntN(4) == 0 {
				fitting[step] = 1 + r.IntN(len(job.Options))
			}
		}
		sizes := newSizePrices(clock, in)
		x := sizes.At(prices)
		for v := range x {
			x[v] = most * (2*r.Float64() - 0.3) * float64(1+r.IntN(4))
		}
		cost := sizes.CostAt(x)
		atSizes, atNodes := math.Inf(-1), math.Inf(-1)
		type valued struct {
			chosen              []uint8
			value, net, atSizes float64
			fits                bool // every step
		}
		var plans []valued
		chosen := make([]uint8, steps)
		var walk func(step int)
		walk = func(step int) {
			if step < steps {
				for k := range job.Options {
					chosen[step] = uint8(k)
					walk(step + 1)
				}
				return
			}
			p := valued{chosen: slices.Clone(chosen), value: j.Value(chosen), fits: true}
			p.net, p.atSizes = p.value, p.value
			for step, k := range chosen {
				p.net -= prices[step] * float64(j.Sizes[k])
				p.atSizes -= cost(0, step, int(k))
				p.fits = p.fits && int(k) < fitting[step]
			}
			atSizes = max(atSizes, p.atSizes)
			if p.fits {
				atNodes = max(atNodes, p.net)
			}
			plans = append(plans, p)
		}
		walk(0)
		same := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-12*(math.Abs(want)+j.Tail[0]) {
				t.Fatalf("seed %d, %s: %.17g; the best plan has %.17g", seed, what, got, want)
			}
		}
		merged := 1 + r.IntN(4) // labels of a step, the others being merged
		atLeast := func(what string, got, want float64) {
			t.Helper()
			if got < want-1e-12*(math.Abs(want)+j.Tail[0]) {
				t.Fatalf("seed %d, %s, %d labels: %.17g; the best plan has %.17g", seed, what, merged, got, want)
			}
		}
		cells := []int{1, 7, coarseCells, fineCells}[r.IntN(4)]
		sizes.set(x, cells)
		phi, _, _ := sizes.bestPlan(clock, 0)
		same("prices per size", phi, atSizes)
		sizes.pricer.maxLabels = merged
		phi, _, _ = sizes.bestPlan(clock, 0)
		atLeast("prices per size", phi, atSizes)
		sizes.pricer.maxLabels = e.MaxLabels
		from := r.Float64()
		if r.IntN(2) == 0 {
			from = float64(r.IntN(cells)) / float64(cells) // at the end of an interval
		}
		if nearly {
			from = []float64{0, half, half - 6.5e-13}[r.IntN(3)] // With half the last is just short of that.
		}
		at, ahead := 1+r.IntN(steps-1), math.Inf(-1)
		follows := func(share float64, p valued) (value, paid float64) {
			for step := at; step < steps; step++ {
				share = capShare(share + j.Later[p.chosen[step]])
				value, paid = value+j.Gain[step]*share, paid+cost(0, step, int(p.chosen[step]))
			}
			return value, paid
		}
		for _, p := range plans {
			value, paid := follows(from, p)
			ahead = max(ahead, value-paid)
		}
		if most := sizes.toGo[sizes.ShapeOf[0]].upperBound(at, from); most < ahead-1e-14*j.Tail[0] {
			t.Fatalf("seed %d: from a share of %g in step %d on %.17g follows at most; there are plans of %.17g", seed, from, at, most, ahead)
		}
		less := []float64{1e-13, 0.1 * r.Float64()}[r.IntN(2)]
		state := stepwiseState{jobs: []served{{share: capShare(from + less)}}}
		other := stepwiseState{jobs: []served{{share: from}}, value: j.Tail[at] * less * (0.95 + 0.1*r.Float64())}
		if newStepwise(clock, sizes).dominates(at, &other, &state) {
			for _, p := range plans {
				value, _ := follows(state.jobs[0].share, p)
				if instead, _ := follows(from, p); other.value+instead < value-in.Precision-1e-15*j.Tail[0] {
					t.Fatalf("seed %d: a share of %g and %g more in step %d is as good as one of %g; with %v it is worse by %g",
						seed, from, other.value, at, state.jobs[0].share, p.chosen, value-other.value-instead)
				}
			}
		}
		of := pricer{maxLabels: e.MaxLabels}
		phi, _ = of.price(clock, j, prices, fitting, math.Inf(-1))
		same("node prices", phi, atNodes)
		of.maxLabels = merged
		phi, _ = of.price(clock, j, prices, fitting, math.Inf(-1))
		atLeast("node prices", phi, atNodes)

		limit := r.Float64() * most
		few := enumerator{firstVisits: r.IntN(100)}
		atPrices, ok := few.list(clock, j, prices, fitting, atNodes, limit, 10_000)
		for _, p := range plans {
			// A plan with at least the same value and no more nodes in any step replaces it.
			instead := func(q column) bool {
				for step, k := range q.chosen {
					if k > p.chosen[step] {
						return false
					}
				}
				return j.Value(q.chosen) >= p.value-1e-11
			}
			if ok && p.fits && p.net > atNodes-0.999*limit && !slices.ContainsFunc(atPrices, instead) {
				t.Fatalf("seed %d: the plan %v loses %g; those that lose less than %g are %v", seed, p.chosen, atNodes-p.net, limit, atPrices)
			}
		}
	}
}
