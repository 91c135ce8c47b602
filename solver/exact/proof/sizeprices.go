package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Prices per size: Lagrangian decomposition.
//
// A price per node and step cannot see that the nodes of a step are a knapsack, nor
// what a plan makes of many small sizes against few large ones. So let every job and
// every step choose on its own: the job a plan, the step a size for each job, and let
// x_(g,t,k) be the price of a disagreement on size k in step t, one for all jobs of a
// shape g that differ in nothing but their first step. With m_c jobs in class c,
//
//	L(x) = sum_c m_c phi_c(x) + sum_t K_t(x),
//	phi_c(x) = max over plans of  u_c(plan) - sum_t x_(g(c),t,k_t),
//	K_t(x)   = max over sizes that fit step t of  sum over jobs of x_(g,t,k),
//
// is at least the optimum for every x; the smallest size costs nothing. The jobs that
// cannot finish choose in the knapsacks alone, where their sizes have the values they
// have. x = lambda_t (size_k - size_0) is where it starts, and its bound there is no
// worse than that of the prices. Among equal jobs one set of prices loses nothing: L is
// convex and symmetric. (Guignard and Kim, "Lagrangean decomposition" (1987).)

// sizePrices is the decomposition at some prices per size.
type sizePrices struct {
	*model.SizeIndex

	// x are the prices that job and step work at, toGo what can follow at them, by
	// shape, in tables of cells intervals; ready says whether one was filled since.
	x     []float64
	cells int
	toGo  []valueToGo
	ready []bool

	pricer   sizePricer
	knapsack knapsack
	costs    []float64
	// last is what was evaluated last, kept the best.
	last, kept evaluation
}

func newSizePrices(clock *model.Clock, in *model.Instance) *sizePrices {
	s := &sizePrices{SizeIndex: model.NewSizeIndex(clock, in), pricer: sizePricer{maxLabels: in.Effort.MaxLabels}}
	s.costs = make([]float64, in.Steps*s.Stride)
	s.toGo, s.ready = make([]valueToGo, len(s.First)), make([]bool, len(s.First))
	s.kept.bound = math.Inf(1)
	return s
}

// work estimates the operations of one evaluation of L.
func (s *sizePrices) work() int {
	return len(s.First)*s.In.Steps*s.Stride*firstCells + 8*s.In.Size()
}

// set sets the prices for job and step, and into how many intervals what can follow them is
// divided.
func (s *sizePrices) set(x []float64, cells int) {
	s.x, s.cells = x, cells
	clear(s.ready)
}

// job returns phi of a class and a plan that attains it, in memory that is used again;
// false if time is up.
func (s *sizePrices) job(clock *model.Clock, class int) (phi float64, chosen []uint8, ok bool) {
	toGo, ok := s.ahead(clock, class)
	if !ok {
		return 0, nil, false
	}
	return s.pricer.price(clock, &s.In.Jobs[s.Jobs[class]], toGo, s.costs, s.Stride, s.Sizes[s.ShapeOf[class]])
}

// ahead sets costs for a class and returns what can follow, in memory that is used again once
// prices are set; false if time is up.
func (s *sizePrices) ahead(clock *model.Clock, class int) (toGo *valueToGo, ok bool) {
	s.fill(class)
	g := s.ShapeOf[class]
	toGo = &s.toGo[g]
	if s.ready[g] {
		return toGo, true
	}
	toGo.fill(&s.In.Jobs[s.Jobs[class]], s.costs, s.Stride, s.Sizes[g], s.cells)
	s.ready[g] = true
	return toGo, !clock.Up(s.In.Steps * s.Stride * s.cells)
}

// fill sets costs to what the sizes of a class cost in every step.
func (s *sizePrices) fill(class int) {
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

// step returns a bound on K of a step with the choices that (nearly) attain it, those
// of the separable jobs first, in memory that is used again; false if time is up.
func (s *sizePrices) step(clock *model.Clock, t int) (solution, bool) {
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
	return s.knapsack.solve(clock, in.Capacity[t], in.Precision/float64(8*in.Steps))
}

// Evaluate returns L(x) and the number of columns found; false if time is up. Blocks are
// classes, then steps; add keeps a column of a block and reports whether it is new.
func (s *sizePrices) Evaluate(clock *model.Clock, x []float64, add func(block int, column model.PriceColumn) bool) (bound float64, found int, ok bool) {
	s.set(x, firstCells)
	for class := range s.Jobs {
		phi, chosen, ok := s.job(clock, class)
		if !ok {
			return 0, 0, false
		}
		bound += float64(s.Count[class]) * phi
		if add(class, s.PlanColumn(class, chosen)) {
			found++
		}
	}
	for t := range s.In.Steps {
		best, ok := s.step(clock, t)
		if !ok {
			return 0, 0, false
		}
		bound += best.bound
		if add(len(s.Jobs)+t, s.StepColumn(t, func(_, n int) uint8 { return best.choices[n] })) {
			found++
		}
	}
	s.last.note(x, bound)
	return bound, found, true
}

// Keep makes the prices evaluated last the best.
func (s *sizePrices) Keep() { s.last, s.kept = s.kept, s.last }

// sizePricer finds a job's best plan where every size of every step has a cost of its
// own: label setting as for prices per node, cut by a table of the most that can
// follow. It owns scratch memory.
type sizePricer struct {
	maxLabels      int
	layers         [][]label
	chosen         []uint8
	longer, merged []label
}

// price returns the largest value net of costs and a plan that attains it, in memory
// that is used again; false if time is up. costs[t*stride+k] is that of the k-th of
// sizes[t] sizes, and toGo is filled for them.
func (p *sizePricer) price(clock *model.Clock, j *model.Job, toGo *valueToGo, costs []float64, stride int, sizes []int) (float64, []uint8, bool) {
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
		if clock.Up(4 * len(p.layers[t]) * sizes[t]) {
			return 0, nil, false
		}
		for k := range sizes[t] {
			cost := costs[t*stride+k]
			p.longer = p.longer[:0]
			for n := range p.layers[t] {
				from := &p.layers[t][n]
				share := from.share + shares[k]
				if share >= model.Finished {
					if value := from.value + j.Tail[t] - cost + toGo.cheapest[t+1]; value > best {
						best, endStep, end = value, t, label{parent: int32(n), choice: uint8(k)}
					}
					continue
				}
				value := from.value + j.Gain[t]*share - cost
				if value+toGo.most(t+1, share) > best {
					p.longer = append(p.longer, label{share: share, value: value, parent: int32(n), choice: uint8(k)})
				}
			}
			p.merged = mergeUndominated(p.merged[:0], front, p.longer)
			front, p.merged = p.merged, front
		}
		p.layers[t+1] = thinned(front, p.maxLabels)
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

// follow sets chosen to the plan that toGo leads to and returns its value.
func (p *sizePricer) follow(j *model.Job, toGo *valueToGo, costs []float64, stride int, sizes []int) float64 {
	share, total := 0.0, 0.0
	for t, fits := range sizes {
		best, most := 0, math.Inf(-1)
		for k, serves := range j.Shares(t)[:fits] {
			value := j.Tail[t] - costs[t*stride+k] + toGo.cheapest[t+1]
			if after := share + serves; after < model.Finished {
				value = j.Gain[t]*after - costs[t*stride+k] + toGo.most(t+1, after)
			}
			if value > most {
				most, best = value, k
			}
		}
		p.chosen[t] = uint8(best)
		share = whole(share + j.Shares(t)[best])
		total += j.Gain[t]*share - costs[t*stride+best]
	}
	return total
}

// whole returns the share served, 1 where the job has finished.
func whole(share float64) float64 {
	if share < model.Finished {
		return share
	}
	return 1
}

// trace sets chosen to the plan that closes with the given label in the given step.
func (p *sizePricer) trace(toGo *valueToGo, step int, end label) {
	if step < len(p.chosen) {
		p.chosen[step] = end.choice
		copy(p.chosen[step+1:], toGo.cheapestSize[step+1:])
	}
	at := end.parent
	for t := step; t > 0; t-- {
		l := p.layers[t][at]
		p.chosen[t-1] = l.choice
		at = l.parent
	}
}

// valueToGo is a table that bounds what can follow from a step on, by the share served: the
// value-to-go at the ends of intervals. In between it is at most that of the end above, and
// that of the end below with what is served beyond it counted at once: for any sizes, value
// rises with the share, and no faster than that.
type valueToGo struct {
	value [][]float64
	cells float64
	// tail[t] is what serving the whole demand by step t counts.
	tail []float64
	// cheapest[t] is the least cost of holding any sizes from step t on, less than 0
	// where sizes are paid for; cheapestSize[t] is that of step t.
	cheapest     []float64
	cheapestSize []uint8
}

const (
	// firstCells is the number of intervals of the share while prices are sought, lastCells that
	// of searches at the best ones: what intervals hide adds up over the steps.
	firstCells = 128
	lastCells  = 2048
	// unserved is what a job may lack of its demand and count as finished.
	unserved = 1 - model.Finished
)

// fill fills the table for a job.
func (f *valueToGo) fill(j *model.Job, costs []float64, stride int, sizes []int, cells int) {
	steps := len(sizes)
	f.tail, f.cells = j.Tail, float64(cells)
	width := 1 / f.cells
	for len(f.value) <= steps {
		f.value = append(f.value, nil)
	}
	for t := range f.value {
		f.value[t] = slices.Grow(f.value[t][:0], cells+1)[:cells+1]
	}
	f.cheapest = slices.Grow(f.cheapest[:0], steps+1)[:steps+1]
	f.cheapestSize = slices.Grow(f.cheapestSize[:0], steps)[:steps]
	f.cheapest[steps] = 0
	clear(f.value[steps])
	for t := steps - 1; t >= 0; t-- {
		least, at := math.Inf(1), 0
		for k, cost := range costs[t*stride : t*stride+sizes[t]] {
			if cost < least {
				least, at = cost, k
			}
		}
		f.cheapest[t], f.cheapestSize[t] = f.cheapest[t+1]-least, uint8(at)
		if t == 0 {
			break // nothing is asked of it
		}
		now, next := f.value[t], f.value[t+1]
		for cell := range now {
			now[cell] = math.Inf(-1)
		}
		for k, serves := range j.Shares(t)[:sizes[t]] {
			cost := costs[t*stride+k]
			whole := j.Tail[t] - cost + f.cheapest[t+1]
			// The share after the step is in the interval that ends this many ends ahead.
			ahead := int(math.Ceil(min(1, serves) * f.cells))
			below := max(0, ahead-1)
			rest := j.Tail[t+1] * (serves - float64(below)*width + unserved)
			open := 0 // ends from which the job does not finish yet
			for gain, above, below := j.Gain[t], next[ahead:], next[below:]; open < len(above); open++ {
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
					value = j.Gain[t]*share - cost + next[cells]
				}
				now[cell] = max(now[cell], value)
			}
		}
	}
}

// most bounds what follows from step t on where the share was served.
func (f *valueToGo) most(t int, share float64) float64 {
	above := min(f.cells, math.Ceil(share*f.cells))
	below := max(0, above-1)
	return min(f.value[t][int(above)], f.value[t][int(below)]+f.tail[t]*(share-below/f.cells+unserved))
}
