package proof

import (
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The step tables: the separable jobs of the core, solved exactly.
//
// At prices lambda let the loss of a size in a step be what a job gives up by it
// against its best size there. Within one step the separable jobs form a knapsack
// whose exact solution for every number of nodes,
//
//	D_t(d) = min { sum of losses + lambda_t * nodes left over },
//
// fits in a table: d is the number of nodes the separable jobs may hold in step t
// beyond what they hold at their best sizes. Whatever the finishing jobs choose,
// the T tables complete that choice exactly. (The knapsack table is Bellman's; see
// Kellerer, Pferschy and Pisinger, "Knapsack Problems" (2004), section 11.5.)

// series is a function of whole numbers from low to low+len(at)-1, +Inf elsewhere.
type series struct {
	low int
	at  []float64
}

// cellMemory hands out memory for functions.
type cellMemory struct{ model.Arena[float64] }

// infinite returns the function that is +Inf everywhere, with room for [low, high].
func (m *cellMemory) infinite(low, high int) series {
	s := series{low: low, at: m.Take(high - low + 1)}
	for x := range s.at {
		s.at[x] = math.Inf(1)
	}
	return s
}

// value returns the function at x.
func (s *series) value(x int) float64 {
	if x < s.low || x >= s.low+len(s.at) {
		return math.Inf(1)
	}
	return s.at[x-s.low]
}

// high is the largest number that the function is kept at.
func (s *series) high() int { return s.low + len(s.at) - 1 }

// option is a size of a separable job in a step: what it loses against the job's
// best size there and how many more nodes it takes.
type option struct {
	loss   float64
	excess int
	choice uint8
}

// best returns the option that leads from the function of the jobs before to the least loss
// where they take an excess together.
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
	// jobs are the separable jobs with more than one option to consider.
	jobs    []int
	options [][]option
	// layers[n] is the least loss of the first n jobs by the excess nodes they take
	// together.
	layers []series
	// best is D_t over the excess nodes the finishing jobs can leave.
	best series
	// price is lambda_t.
	price float64
}

// separableBase sets every separable job in every step to its best size at the
// prices, and adds the nodes of a step to used, whatever the time.
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
		clock.Up(2 * len(prices) * len(j.Sizes))
	}
}

// newStepTable builds D_t on [low, high], leaving out whatever loses lossLimit or more.
// It returns nil if the table would hold more than most numbers or time is up, else also how
// many it holds.
func newStepTable(clock *model.Clock, in *model.Instance, t int, price float64, base *model.Plan, low, high int, lossLimit float64, most int, memory *Memory) (table *stepTable, cells int) {
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
		if clock.Up(4 * len(j.Sizes)) {
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
	least := series{low: 0, at: []float64{0}}
	table.layers = append(make([]series, 0, 1+len(table.options)), least)
	cells = 1
	for _, options := range table.options {
		lo, hi := span(options)
		if cells += len(least.at) + hi - lo; cells > most || clock.Up(len(options)*(len(least.at)+hi-lo)) {
			return nil, 0
		}
		sum := memory.tables.infinite(least.low+lo, least.high()+hi)
		for _, o := range options {
			addShiftedBelow(sum, &least, o.excess, o.loss, lossLimit)
		}
		least = sum.trimmed()
		table.layers = append(table.layers, least)
	}
	table.best = leftOver(least, price, low, high, lossLimit)
	return table, cells
}

// span returns the least and the most excess nodes of the options, 0 being one of
// them.
func span(options []option) (lo, hi int) {
	for _, c := range options {
		lo, hi = min(lo, c.excess), max(hi, c.excess)
	}
	return lo, hi
}

// trimmed cuts the infinite ends off.
func (s series) trimmed() series {
	from, to := 0, len(s.at)
	for from < to && math.IsInf(s.at[from], 1) {
		from++
	}
	for to > from && math.IsInf(s.at[to-1], 1) {
		to--
	}
	return series{low: s.low + from, at: s.at[from:to]}
}

// leftOver turns a least-loss function of the nodes taken into one of the nodes
// there are, on [low, high]: nodes left over cost their price.
func leftOver(least series, price float64, low, high int, lossLimit float64) series {
	best := series{low: low, at: make([]float64, max(0, high-low+1))}
	// The others are left over where taken are best: their price is a product, since a sum over
	// all nodes of a pool would lose digits.
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
	for x := range best.at {
		if best.at[x] = loss(low + x); best.at[x] >= lossLimit {
			best.at[x] = math.Inf(1)
		}
	}
	return best
}

// complete sets the step's sizes of the table's jobs to the best options where the
// separable jobs have the given excess nodes.
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
