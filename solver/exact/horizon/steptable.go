package horizon

import (
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The step tables: the separable jobs of the core problem.
//
// The loss of a size at prices lambda is the net value of the best size of the job in the step
// minus the net value of the size. Within one step the separable jobs are a knapsack. Its exact
// solution for every number of nodes,
//
//	D_t(d) = min { sum of losses + lambda_t * idle nodes },
//
// fits in a table, where d is the number of nodes that the separable jobs may use in step t in
// addition to the nodes of their best sizes. For any choice of the finishing jobs, the T tables
// give the best completion. (The table is a dynamic program by Bellman; see Kellerer, Pferschy and
// Pisinger, "Knapsack Problems" (2004), section 11.5.)

// series is a function on the integers from low to low+len(values)-1. It is +Inf elsewhere.
type series struct {
	low    int
	values []float64
}

// cellMemory allocates the values of series.
type cellMemory struct{ model.Arena[float64] }

// infinite returns a function that is +Inf everywhere, with memory for [low, high].
func (m *cellMemory) infinite(low, high int) series {
	s := series{low: low, values: m.Take(high - low + 1)}
	for x := range s.values {
		s.values[x] = math.Inf(1)
	}
	return s
}

// value returns the value of the function at x.
func (s *series) value(x int) float64 {
	if x < s.low || x >= s.low+len(s.values) {
		return math.Inf(1)
	}
	return s.values[x-s.low]
}

// high returns the largest integer with a stored value.
func (s *series) high() int { return s.low + len(s.values) - 1 }

// option is a size of a job in a step: its loss and its number of nodes, both relative to the best
// size of the job.
type option struct {
	loss   float64
	excess int
	choice uint8
}

// best returns the option with the smallest total loss, if the jobs before and the option use the
// given excess nodes together.
func (s *series) best(options []option, taken int) option {
	least, best := math.Inf(1), option{}
	for _, o := range options {
		if loss := s.value(taken-o.excess) + o.loss; loss < least {
			least, best = loss, o
		}
	}
	return best
}

// stepTable is D_t for one step.
type stepTable struct {
	// jobs are the separable jobs with several options.
	jobs    []int
	options [][]option
	// layers[n] is the smallest loss of the first n jobs, by their total excess nodes.
	layers []series
	// best is D_t over the excess nodes that the finishing jobs can leave.
	best series
	// price is lambda_t.
	price float64
}

// separableBase sets the best size of every separable job in every step at the prices, and adds its
// nodes to used. It does not stop at the deadline.
func separableBase(clock *model.Clock, in *model.Instance, prices []float64, base *model.Plan, used []int) {
	for _, i := range in.Separable {
		j := &in.Jobs[i]
		for t, price := range prices {
			best := math.Inf(-1)
			for k, nodes := range j.Sizes[:in.Fitting(j, t)] {
				if net := j.StepValue(t, k) - price*float64(nodes); net > best {
					best, base.Of(i)[t] = net, uint8(k)
				}
			}
			used[t] += int(j.Sizes[base.Of(i)[t]])
		}
		clock.Add(2 * len(prices) * len(j.Sizes))
	}
}

// newStepTable builds D_t on [low, high] and excludes losses of lossLimit and above. It also
// returns the number of values in the table. It returns nil if there would be more than limit
// values or the deadline has passed.
func newStepTable(
	clock *model.Clock, in *model.Instance, t int, price float64,
	base *model.Plan, low, high int, lossLimit float64, limit int, memory *Memory,
) (table *stepTable, cells int) {
	table = &stepTable{price: price}
	all := memory.options // of all jobs, one after the other
	for _, i := range in.Separable {
		j := &in.Jobs[i]
		net := j.StepValue(t, int(base.Of(i)[t])) - price*float64(j.Sizes[base.Of(i)[t]])
		from := len(all)
		for k, nodes := range j.Sizes[:in.Fitting(j, t)] {
			loss := net - (j.StepValue(t, k) - price*float64(nodes))
			if loss < lossLimit {
				all = append(all, option{
					loss: max(0, loss), excess: int(nodes - j.Sizes[base.Of(i)[t]]), choice: uint8(k),
				})
			}
		}
		if clock.Add(4 * len(j.Sizes)) {
			return nil, 0
		}
		if len(all)-from > 1 {
			table.jobs = append(table.jobs, i)
			table.options = append(table.options, all[from:len(all):len(all)])
		} else {
			all = all[:from]
		}
	}
	memory.options = all
	least := series{low: 0, values: []float64{0}}
	table.layers = append(make([]series, 0, 1+len(table.options)), least)
	cells = 1
	for _, options := range table.options {
		lo, hi := span(options)
		if cells += len(least.values) + hi - lo; cells > limit || clock.Add(len(options)*(len(least.values)+hi-lo)) {
			return nil, 0
		}
		sum := memory.tables.infinite(least.low+lo, least.high()+hi)
		for _, o := range options {
			addShiftedBelow(sum, &least, o.excess, o.loss, lossLimit)
		}
		least = sum.trimmed()
		table.layers = append(table.layers, least)
	}
	table.best = withIdleNodes(least, price, low, high, lossLimit)
	return table, cells
}

// span returns the smallest and the largest excess nodes of the options. The range includes 0.
func span(options []option) (lo, hi int) {
	for _, c := range options {
		lo, hi = min(lo, c.excess), max(hi, c.excess)
	}
	return lo, hi
}

// trimmed returns the function without the infinite values at both ends.
func (s series) trimmed() series {
	from, to := 0, len(s.values)
	for from < to && math.IsInf(s.values[from], 1) {
		from++
	}
	for to > from && math.IsInf(s.values[to-1], 1) {
		to--
	}
	return series{low: s.low + from, values: s.values[from:to]}
}

// withIdleNodes converts the smallest loss by used nodes to the smallest loss by available nodes,
// on [low, high]. Idle nodes cost their price.
func withIdleNodes(least series, price float64, low, high int, lossLimit float64) series {
	best := series{low: low, values: make([]float64, max(0, high-low+1))}
	// The remaining nodes are idle. Their price is computed as a product, because repeated addition
	// over all nodes of a pool would accumulate rounding errors.
	taken, of := low, math.Inf(1)
	loss := func(nodes int) float64 {
		left := of + price*float64(nodes-taken)
		if all := least.value(nodes); all <= left {
			taken, of, left = nodes, all, all
		}
		return left
	}
	for nodes := least.low; nodes <= min(low-1, least.high()); nodes++ {
		loss(nodes)
	}
	for x := range best.values {
		if best.values[x] = loss(low + x); best.values[x] >= lossLimit {
			best.values[x] = math.Inf(1)
		}
	}
	return best
}

// complete sets the sizes of the jobs of the table in step t to the best options for the given
// excess nodes of the separable jobs.
func (table *stepTable) complete(base *model.Plan, t, excess int) {
	last := len(table.jobs)
	taken, least := excess, math.Inf(1)
	for x := min(excess, table.layers[last].high()); x >= table.layers[last].low; x-- {
		if loss := table.layers[last].value(x) + table.price*float64(excess-x); loss < least {
			taken, least = x, loss
		}
	}
	for n := last - 1; n >= 0; n-- {
		best := table.layers[n].best(table.options[n], taken)
		base.Of(table.jobs[n])[t] = best.choice
		taken -= best.excess
	}
}
