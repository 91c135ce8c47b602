package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Prices per size: Lagrangian decomposition.
//
// A price per node and step ignores that the nodes of a step are a knapsack, and that a plan with
// many small sizes differs from a plan with few large ones. The decomposition lets every job and
// every step choose independently: a job chooses a plan, and a step chooses a size for each job.
// The multiplier x_(g,t,k) is the price of a disagreement on size k in step t. All jobs of a shape
// g, which differ only in their first step, share it. With m_c jobs in class c,
//
//	L(x) = sum_c m_c phi_c(x) + sum_t K_t(x),
//	phi_c(x) = max over plans of  u_c(plan) - sum_t x_(g(c),t,k_t),
//	K_t(x)   = max over sizes that fit step t of  sum over jobs of x_(g,t,k),
//
// is an upper bound on the optimum for every x; the smallest size has the price 0. Separable jobs
// choose only in the knapsacks, with their own values. The initial prices x = lambda_t (size_k -
// size_0) give a bound that is at least as tight as the bound at the node prices. Sharing prices
// among identical jobs loses nothing, because L is convex and symmetric. (Guignard and Kim,
// "Lagrangean decomposition" (1987).)

// sizePrices evaluates the decomposition at prices per size.
type sizePrices struct {
	*model.SizeIndex

	// x are the current prices. toGo contains the values-to-go at x by shape, in tables of cells
	// intervals, and ready reports whether a table is filled.
	x     []float64
	cells int
	toGo  []valueToGo
	ready []bool

	pricer   sizePricer
	knapsack knapsack
	costs    []float64
	// last is the last evaluation, kept the best one.
	last, kept evaluation
}

func newSizePrices(clock *model.Clock, in *model.Instance) *sizePrices {
	s := &sizePrices{SizeIndex: model.NewSizeIndex(clock, in), pricer: sizePricer{maxLabels: in.Effort.MaxLabels}}
	s.costs = make([]float64, in.Steps*s.Stride)
	s.toGo, s.ready = make([]valueToGo, len(s.First)), make([]bool, len(s.First))
	s.kept.bound = math.Inf(1)
	return s
}

// work estimates the number of operations of one evaluation of L.
func (s *sizePrices) work() int {
	return len(s.First)*s.In.Steps*s.Stride*coarseCells + 8*s.In.Size()
}

// set sets the current prices and the number of intervals of the tables.
func (s *sizePrices) set(x []float64, cells int) {
	s.x, s.cells = x, cells
	clear(s.ready)
}

// bestPlan returns phi of a class and a plan that attains it, in reused memory. It returns false if
// the deadline has passed.
func (s *sizePrices) bestPlan(clock *model.Clock, class int) (phi float64, chosen []uint8, ok bool) {
	toGo, ok := s.toGoOf(clock, class)
	if !ok {
		return 0, nil, false
	}
	return s.pricer.price(clock, &s.In.Jobs[s.Jobs[class]], toGo, s.costs, s.Stride, s.Sizes[s.ShapeOf[class]])
}

// toGoOf sets costs for a class and returns its value-to-go, which is valid until set is called. It
// returns false if the deadline has passed.
func (s *sizePrices) toGoOf(clock *model.Clock, class int) (toGo *valueToGo, ok bool) {
	s.setCosts(class)
	g := s.ShapeOf[class]
	toGo = &s.toGo[g]
	if s.ready[g] {
		return toGo, true
	}
	toGo.fill(&s.In.Jobs[s.Jobs[class]], s.costs, s.Stride, s.Sizes[g], s.cells)
	s.ready[g] = true
	return toGo, !clock.Add(s.In.Steps * s.Stride * s.cells)
}

// setCosts sets costs to the costs of the sizes of a class in every step.
func (s *sizePrices) setCosts(class int) {
	j, g := &s.In.Jobs[s.Jobs[class]], s.ShapeOf[class]
	for t, first := range s.First[g] {
		row := s.costs[t*s.Stride : (t+1)*s.Stride]
		row[0] = 0
		copy(row[1:], s.x[first:first+s.Sizes[g][t]-1])
		if t == 0 {
			for k := range s.Sizes[g][0] {
				row[k] += j.Cost[k]
			}
		}
	}
}

// solveStep solves the knapsack K of a step. The choices list the separable jobs first, in reused
// memory. It returns false if the deadline has passed.
func (s *sizePrices) solveStep(clock *model.Clock, t int) (solution, bool) {
	in := s.In
	in.SeparableItems(clock, &s.knapsack, t)
	for f, i := range in.Finishing {
		j, g := &in.Jobs[i], s.ShapeOf[s.ClassOf[f]]
		s.knapsack.Option(j.Sizes[0], 0)
		for k := 1; k < s.Sizes[g][t]; k++ {
			s.knapsack.Option(j.Sizes[k], s.x[s.First[g][t]+k-1])
		}
		s.knapsack.Item()
	}
	return s.knapsack.solve(clock, in.Capacity[t], in.Precision/float64(8*in.Steps), maxCallCells)
}

// Evaluate returns L(x) and the number of new columns, or false if the deadline has passed. Each
// class and then each step is a block. The function add adds a column to a block and reports
// whether the column is new.
func (s *sizePrices) Evaluate(
	clock *model.Clock, x []float64, add func(block int, column model.PriceColumn) bool,
) (bound float64, found int, ok bool) {
	s.set(x, coarseCells)
	for class := range s.Jobs {
		phi, chosen, ok := s.bestPlan(clock, class)
		if !ok {
			return 0, 0, false
		}
		bound += float64(s.Count[class]) * phi
		if add(class, s.PlanColumn(class, chosen)) {
			found++
		}
	}
	for t := range s.In.Steps {
		best, ok := s.solveStep(clock, t)
		if !ok {
			return 0, 0, false
		}
		bound += best.bound
		if add(len(s.Jobs)+t, s.StepColumn(t, func(_, n int) uint8 { return best.choices[n] })) {
			found++
		}
	}
	s.last.set(x, bound)
	return bound, found, true
}

// Keep records the last evaluation as the best one.
func (s *sizePrices) Keep() { s.last, s.kept = s.kept, s.last }

// sizePricer finds the best plan of a job if every size of every step has its own cost. It uses
// label setting as for prices per node, with a table of the value-to-go to drop labels. It owns its
// scratch memory.
type sizePricer struct {
	maxLabels        int
	layers           [][]label
	chosen           []uint8
	extended, merged []label
}

// price returns the largest value net of costs and a plan that attains it, in reused memory. It
// returns false if the deadline has passed. The cost of the k-th of sizes[t] sizes is
// costs[t*stride+k], and toGo has to be filled for these costs.
func (p *sizePricer) price(
	clock *model.Clock, j *model.Job, toGo *valueToGo, costs []float64, stride int, sizes []int,
) (float64, []uint8, bool) {
	steps := len(sizes)
	p.chosen = slices.Grow(p.chosen[:0], steps)[:steps]
	best := p.follow(j, toGo, costs, stride, sizes)
	for len(p.layers) <= steps {
		p.layers = append(p.layers, nil)
	}
	p.layers[0] = append(p.layers[0][:0], label{parent: -1})
	endStep, end := -1, label{}
	for t := range steps {
		shares := j.Shares(t)
		front := p.layers[t+1][:0]
		if clock.Add(4 * len(p.layers[t]) * sizes[t]) {
			return 0, nil, false
		}
		for k := range sizes[t] {
			cost := costs[t*stride+k]
			p.extended = p.extended[:0]
			for n := range p.layers[t] {
				from := &p.layers[t][n]
				share := from.share + shares[k]
				if share >= model.Finished {
					if value := from.value + j.Tail[t] - cost + toGo.finished[t+1]; value > best {
						best, endStep, end = value, t, label{parent: int32(n), choice: uint8(k)}
					}
					continue
				}
				value := from.value + j.Gain[t]*share - cost
				if value+toGo.upperBound(t+1, share) > best {
					p.extended = append(p.extended, label{share: share, value: value, parent: int32(n), choice: uint8(k)})
				}
			}
			p.merged = mergeUndominated(p.merged[:0], front, p.extended)
			front, p.merged = p.merged, front
		}
		p.layers[t+1] = thin(front, p.maxLabels)
	}
	for n, l := range p.layers[steps] {
		if l.value > best {
			best, endStep, end = l.value, steps, label{parent: int32(n)}
		}
	}
	if endStep >= 0 {
		p.trace(toGo, endStep, end)
	}
	return best, p.chosen, true
}

// follow sets chosen to the plan that always takes the size with the largest tabulated value. It
// returns the value of the plan.
func (p *sizePricer) follow(j *model.Job, toGo *valueToGo, costs []float64, stride int, sizes []int) float64 {
	share, total := 0.0, 0.0
	for t, fits := range sizes {
		best, bestValue := 0, math.Inf(-1)
		for k, serves := range j.Shares(t)[:fits] {
			value := j.Tail[t] - costs[t*stride+k] + toGo.finished[t+1]
			if after := share + serves; after < model.Finished {
				value = j.Gain[t]*after - costs[t*stride+k] + toGo.upperBound(t+1, after)
			}
			if value > bestValue {
				bestValue, best = value, k
			}
		}
		p.chosen[t] = uint8(best)
		share = capShare(share + j.Shares(t)[best])
		total += j.Gain[t]*share - costs[t*stride+best]
	}
	return total
}

// capShare returns the share served, or 1 if the job has finished.
func capShare(share float64) float64 {
	if share < model.Finished {
		return share
	}
	return 1
}

// trace sets chosen to the plan that ends with the given label in the given step.
func (p *sizePricer) trace(toGo *valueToGo, step int, end label) {
	if step < len(p.chosen) {
		p.chosen[step] = end.choice
		copy(p.chosen[step+1:], toGo.finishedSize[step+1:])
	}
	at := end.parent
	for t := step; t > 0; t-- {
		l := p.layers[t][at]
		p.chosen[t-1] = l.choice
		at = l.parent
	}
}

// valueToGo is a table of upper bounds on the value-to-go from a step on, by the share served. It
// contains the value at the ends of intervals. At a share inside an interval, the value-to-go is at
// most the value at the upper end, because it never decreases with the share. It is also at most
// the value at the lower end plus the value of serving the difference at once.
type valueToGo struct {
	value [][]float64
	cells float64
	// tail[t] is the value of serving the whole demand in step t.
	tail []float64
	// finished[t] is the value-to-go of a finished job from step t on: minus the minimum cost,
	// which is positive if prices are negative. finishedSize[t] is the size in step t.
	finished     []float64
	finishedSize []uint8
}

const (
	// coarseCells is the number of intervals of the share during the minimization of the bound,
	// fineCells during searches at the best prices. The error of an interval adds up over the
	// steps. They trade time for tighter bounds. With 4 times either number BenchmarkHardEnd (go test
	// ./solver/exact -run '^$' -bench HardEnd) takes 1.5 and 2 times the work, and with a quarter of
	// fineCells BenchmarkAgainstHiGHS loses 2 proofs.
	coarseCells = 128
	fineCells   = 2048
	// unserved is the share of its demand that a finished job may lack.
	unserved = 1 - model.Finished
)

// fill fills the table for a job.
func (f *valueToGo) fill(j *model.Job, costs []float64, stride int, sizes []int, cells int) {
	steps := len(sizes)
	f.tail, f.cells = j.Tail, float64(cells)
	for len(f.value) <= steps {
		f.value = append(f.value, nil)
	}
	for t := range f.value {
		f.value[t] = slices.Grow(f.value[t][:0], cells+1)[:cells+1]
	}
	f.finished = slices.Grow(f.finished[:0], steps+1)[:steps+1]
	f.finishedSize = slices.Grow(f.finishedSize[:0], steps)[:steps]
	f.finished[steps] = 0
	clear(f.value[steps])
	for t := steps - 1; t >= 0; t-- {
		least, at := math.Inf(1), 0
		for k, cost := range costs[t*stride : t*stride+sizes[t]] {
			if cost < least {
				least, at = cost, k
			}
		}
		f.finished[t], f.finishedSize[t] = f.finished[t+1]-least, uint8(at)
		if t == 0 {
			break // the first step has no table
		}
		for cell := range f.value[t] {
			f.value[t][cell] = math.Inf(-1)
		}
		for k, serves := range j.Shares(t)[:sizes[t]] {
			f.raise(j, t, serves, costs[t*stride+k])
		}
	}
}

// raise raises the values of step t to those of a size, which serves a share of the demand at a cost.
func (f *valueToGo) raise(j *model.Job, t int, serves, cost float64) {
	now, next, width, gain := f.value[t], f.value[t+1], 1/f.cells, j.Gain[t]
	whole := j.Tail[t] - cost + f.finished[t+1]
	// The share after the step is in the interval whose end is this many intervals further.
	ahead := int(math.Ceil(min(1, serves) * f.cells))
	behind := max(0, ahead-1)
	rest := j.Tail[t+1] * (serves - float64(behind)*width + unserved)
	above, below := next[ahead:], next[behind:]
	open := 0 // number of ends at which the job does not finish
	for ; open < len(above); open++ {
		share := float64(open)*width + serves
		if share >= model.Finished {
			break
		}
		if value := gain*share - cost + min(above[open], below[open]+rest); value > now[open] {
			now[open] = value
		}
	}
	for cell := open; cell < len(now); cell++ {
		value := whole
		if share := float64(cell)*width + serves; share < model.Finished {
			value = gain*share - cost + next[len(next)-1]
		}
		now[cell] = max(now[cell], value)
	}
}

// upperBound returns an upper bound on the value-to-go from step t on at a share.
func (f *valueToGo) upperBound(t int, share float64) float64 {
	above := min(f.cells, math.Ceil(share*f.cells))
	below := max(0, above-1)
	return min(f.value[t][int(above)], f.value[t][int(below)]+f.tail[t]*(share-below/f.cells+unserved))
}
