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
		if o := newOneJob(t, seed); o != nil { // Otherwise the job cannot finish.
			o.checkSizePrices()
			o.checkStates()
			o.checkNodePrices()
		}
	}
}

// half is a share of the work twice of which counts as finished.
const half = 0.5 - 2e-13

// oneJob is an instance with one job, at random prices, and all plans of the job.
type oneJob struct {
	*testing.T
	*rand.Rand
	seed    uint64
	nearly  bool // whether a step does half of the work
	job     problem.AdmittedJob
	effort  *model.Effort
	clock   *model.Clock
	in      *model.Instance
	j       *model.Job
	highest float64 // a high price
	prices  []float64
	fitting []int // by step: the number of options that fit
	sizes   *sizePrices
	cells   int
	x       []float64
	cost    func(class, step, option int) float64
	plans   []oneJobPlan
	merged  int // labels of a step, the others being merged
	// The values of the best plans.
	atSizes, atNodes float64
}

// oneJobPlan is a plan of a job: its options and its values without prices, at node prices and at prices per size.
type oneJobPlan struct {
	chosen              []uint8
	value, net, atSizes float64
	fits                bool // every step
}

// newOneJob returns a random job with its plans, or nil if it cannot finish.
func newOneJob(t *testing.T, seed uint64) *oneJob {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	steps := 4 + r.IntN(3)
	job := problem.AdmittedJob{
		Demand: 1, Options: [][]solver.Option{solver.Nodes(0, 1, 3), solver.Nodes(1, 2, 5), solver.Nodes(0, 1, 2, 6)}[r.IntN(3)],
	}
	for _, k := range job.Options {
		job.StepWork = append(job.StepWork, float64(min(k.Nodes, 1))*(0.02+0.6*r.Float64()))
	}
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
		return nil
	}
	o := &oneJob{T: t, Rand: r, seed: seed, nearly: nearly, job: job, effort: e, clock: clock, in: in, j: &in.Jobs[0]}
	o.randomPrices(steps)
	o.atSizes, o.atNodes = math.Inf(-1), math.Inf(-1)
	o.enumerate(make([]uint8, steps), 0)
	o.merged = 1 + r.IntN(4)
	o.cells = []int{1, 7, coarseCells, fineCells}[r.IntN(4)]
	return o
}

// randomPrices sets random prices of nodes and of sizes.
func (o *oneJob) randomPrices(steps int) {
	o.prices, o.fitting = make([]float64, steps), make([]int, steps)
	o.highest = o.j.Tail[0] / float64(steps*int(o.job.Options[1].Nodes))
	for step := range o.prices {
		o.prices[step] = o.highest * o.Float64()
		o.fitting[step] = len(o.job.Options)
		if o.IntN(4) == 0 {
			o.fitting[step] = 1 + o.IntN(len(o.job.Options))
		}
	}
	o.sizes = newSizePrices(o.clock, o.in)
	o.x = o.sizes.At(o.prices)
	for v := range o.x {
		o.x[v] = o.highest * (2*o.Float64() - 0.3) * float64(1+o.IntN(4))
	}
	o.cost = o.sizes.CostAt(o.x)
}

// enumerate adds all plans that start with the first steps of chosen.
func (o *oneJob) enumerate(chosen []uint8, step int) {
	if step < len(chosen) {
		for k := range o.job.Options {
			chosen[step] = uint8(k)
			o.enumerate(chosen, step+1)
		}
		return
	}
	p := oneJobPlan{chosen: slices.Clone(chosen), value: o.j.Value(chosen), fits: true}
	p.net, p.atSizes = p.value, p.value
	for step, k := range chosen {
		p.net -= o.prices[step] * float64(o.j.Sizes[k])
		p.atSizes -= o.cost(0, step, int(k))
		p.fits = p.fits && int(k) < o.fitting[step]
	}
	o.atSizes = max(o.atSizes, p.atSizes)
	if p.fits {
		o.atNodes = max(o.atNodes, p.net)
	}
	o.plans = append(o.plans, p)
}

// checkBest checks the value of the best plan. If labels were merged, it is only a bound.
func (o *oneJob) checkBest(what string, got, want float64, merged bool) {
	o.Helper()
	tolerance := 1e-12 * (math.Abs(want) + o.j.Tail[0])
	if got < want-tolerance || !merged && got > want+tolerance {
		o.Fatalf("seed %d, %s, merged to %d labels: %t: %.17g; the best plan has %.17g", o.seed, what, o.merged, merged, got, want)
	}
}

// checkSizePrices checks the best plan at prices per size.
func (o *oneJob) checkSizePrices() {
	o.Helper()
	o.sizes.set(o.x, o.cells)
	phi, _, _ := o.sizes.bestPlan(o.clock, 0)
	o.checkBest("prices per size", phi, o.atSizes, false)
	o.sizes.pricer.maxLabels = o.merged
	phi, _, _ = o.sizes.bestPlan(o.clock, 0)
	o.checkBest("prices per size", phi, o.atSizes, true)
	o.sizes.pricer.maxLabels = o.effort.MaxLabels
}

// checkNodePrices checks the best plan at node prices, and the plans that lose little compared with it.
func (o *oneJob) checkNodePrices() {
	o.Helper()
	of := pricer{maxLabels: o.effort.MaxLabels}
	phi, _ := of.price(o.clock, o.j, o.prices, o.fitting, math.Inf(-1))
	o.checkBest("node prices", phi, o.atNodes, false)
	of.maxLabels = o.merged
	phi, _ = of.price(o.clock, o.j, o.prices, o.fitting, math.Inf(-1))
	o.checkBest("node prices", phi, o.atNodes, true)

	limit := o.Float64() * o.highest
	few := enumerator{firstVisits: o.IntN(100)}
	listed, complete := few.list(o.clock, o.j, o.prices, o.fitting, o.atNodes, limit, 10_000)
	for _, p := range o.plans {
		replaces := func(q column) bool { return o.replaces(q, p) }
		if complete && p.fits && p.net > o.atNodes-0.999*limit && !slices.ContainsFunc(listed, replaces) {
			o.Fatalf("seed %d: the plan %v loses %g; those that lose less than %g are %v", o.seed, p.chosen, o.atNodes-p.net, limit, listed)
		}
	}
}

// replaces reports whether a plan has at least the same value as another and no more nodes in any step.
func (o *oneJob) replaces(q column, p oneJobPlan) bool {
	for step, k := range q.chosen {
		if k > p.chosen[step] {
			return false
		}
	}
	return o.j.Value(q.chosen) >= p.value-1e-11
}

// checkStates checks the bound of what follows a share of the work in a step, and which share dominates another.
func (o *oneJob) checkStates() {
	o.Helper()
	from := o.Float64()
	if o.IntN(2) == 0 {
		from = float64(o.IntN(o.cells)) / float64(o.cells) // at the end of an interval
	}
	if o.nearly {
		from = []float64{0, half, half - 6.5e-13}[o.IntN(3)] // With half the last is just short of that.
	}
	at, ahead := 1+o.IntN(len(o.prices)-1), math.Inf(-1)
	for _, p := range o.plans {
		value, paid := o.follows(at, from, p)
		ahead = max(ahead, value-paid)
	}
	if bound := o.sizes.toGo[o.sizes.ShapeOf[0]].upperBound(at, from); bound < ahead-1e-14*o.j.Tail[0] {
		o.Fatalf("seed %d: from a share of %g in step %d on %.17g follows at most; there are plans of %.17g", o.seed, from, at, bound, ahead)
	}
	less := []float64{1e-13, 0.1 * o.Float64()}[o.IntN(2)]
	state := stepwiseState{jobs: []served{{share: capShare(from + less)}}}
	other := stepwiseState{jobs: []served{{share: from}}, value: o.j.Tail[at] * less * (0.95 + 0.1*o.Float64())}
	if !newStepwise(o.clock, o.sizes).dominates(at, &other, &state) {
		return
	}
	for _, p := range o.plans {
		value, _ := o.follows(at, state.jobs[0].share, p)
		if instead, _ := o.follows(at, from, p); other.value+instead < value-o.in.Precision-1e-15*o.j.Tail[0] {
			o.Fatalf("seed %d: a share of %g and %g more in step %d is as good as one of %g; with %v it is worse by %g",
				o.seed, from, other.value, at, state.jobs[0].share, p.chosen, value-other.value-instead)
		}
	}
}

// follows returns the value of a plan from a step on, after a share of the work, and what it pays for its sizes.
func (o *oneJob) follows(at int, share float64, p oneJobPlan) (value, paid float64) {
	for step := at; step < len(p.chosen); step++ {
		share = capShare(share + o.j.Later[p.chosen[step]])
		value, paid = value+o.j.Gain[step]*share, paid+o.cost(0, step, int(p.chosen[step]))
	}
	return value, paid
}
