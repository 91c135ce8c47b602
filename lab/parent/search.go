package parent

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// finished is what a job that has finished may hold in later steps.
type finished int

const (
	// holdsSmallest is the simplified model, equation (> min): any of its sizes, of
	// which the smallest is best.
	holdsSmallest finished = iota
	// returnsToZero is the parent, equations (define y 1) to (return 0 if finish):
	// no nodes at all.
	returnsToZero
)

// row is the nodes of one job in every step.
type row struct {
	nodes   []int
	value   float64 // the job's part of the objective
	reduced float64 // value less the price of the nodes
}

// noise is the rounding of a bound, relative to the price of the pool, which most of it
// cancels.
const noise = 1e-14

// search finds the best plan of a model by looking at every combination of the
// jobs' rows, except for those that a bound shows to be worse.
//
// The bound puts a price on a node in each step. Whatever the prices, a plan is
// bounded by what the whole pool costs plus what its rows gain beyond the
// price of their nodes, since it uses no more than the pool. Good prices only make
// the search fast.
type search struct {
	problem *solver.Problem
	rows    []map[int][]row // of each job by nodes in the first step, largest reduced value first
	pool    float64         // price of the whole pool over all steps
}

func newSearch(p *solver.Problem, f finished) *search {
	s := &search{problem: p, rows: make([]map[int][]row, len(p.Jobs))}
	for i := range p.Jobs {
		s.rows[i] = rowsByFirst(&p.Jobs[i], p.Steps, f)
	}
	s.price(s.prices())
	return s
}

// price works out the reduced value of every row at the given prices and sorts by it.
func (s *search) price(prices []float64) {
	s.pool = 0
	for t, price := range prices {
		s.pool += price * float64(s.problem.Capacity[t])
	}
	for _, byFirst := range s.rows {
		for _, rows := range byFirst {
			for n := range rows {
				rows[n].reduced = rows[n].value - cost(rows[n].nodes, prices)
			}
			slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.reduced, a.reduced) })
		}
	}
}

func cost(nodes []int, prices []float64) float64 {
	total := 0.0
	for t, k := range nodes {
		total += prices[t] * float64(k)
	}
	return total
}

// prices looks for the prices of the lowest bound by the subgradient method: where
// the jobs ask for more nodes than there are, a node becomes more expensive.
func (s *search) prices() []float64 {
	const rounds = 200
	prices := make([]float64, s.problem.Steps)
	best, lowest := slices.Clone(prices), math.Inf(1)
	for round := range rounds {
		bound := 0.0
		excess := make([]float64, len(prices))
		for t, price := range prices {
			bound += price * float64(s.problem.Capacity[t])
			excess[t] = -float64(s.problem.Capacity[t])
		}
		for _, byFirst := range s.rows {
			chosen := bestRow(byFirst, prices)
			bound += chosen.reduced
			for t, k := range chosen.nodes {
				excess[t] += float64(k)
			}
		}
		if bound < lowest {
			best, lowest = slices.Clone(prices), bound
		}
		length := 0.0
		for _, e := range excess {
			length += e * e
		}
		if length == 0 {
			break
		}
		stride := 0.3 * bound / length * math.Pow(0.95, float64(round))
		for t := range prices {
			prices[t] = max(0, prices[t]+stride*excess[t])
		}
	}
	return best
}

// bestRow returns the row of a job with the largest reduced value at the given prices.
func bestRow(byFirst map[int][]row, prices []float64) row {
	best := row{reduced: math.Inf(-1)}
	for _, rows := range byFirst {
		for _, r := range rows {
			r.reduced = r.value - cost(r.nodes, prices)
			// The order of a map must not decide between equals.
			if r.reduced > best.reduced || r.reduced == best.reduced && slices.Compare(r.nodes, best.nodes) < 0 {
				best = r
			}
		}
	}
	return best
}

// rowsByFirst returns every row of a job that can be part of an optimum, by its nodes in the
// first step and best first.
func rowsByFirst(job *solver.AdmittedJob, steps int, f finished) map[int][]row {
	byFirst := map[int][]row{}
	var extend func(nodes []int)
	extend = func(nodes []int) {
		if len(nodes) == steps {
			// Value takes a size that is not legal, such as the parent's 0, for one
			// that serves nothing.
			byFirst[nodes[0]] = append(byFirst[nodes[0]], row{nodes: slices.Clone(nodes), value: job.Value(nodes)})
			return
		}
		if f == returnsToZero && isFinished(job, nodes) {
			extend(append(nodes, 0))
			return
		}
		for _, k := range job.Sizes {
			extend(append(nodes, k))
		}
	}
	extend(make([]int, 0, steps))
	for k, rows := range byFirst {
		byFirst[k] = undominated(rows)
	}
	return byFirst
}

// isFinished reports whether the job has finished after the given steps.
func isFinished(job *solver.AdmittedJob, nodes []int) bool {
	progress := job.Progress(nodes)
	return len(progress) > 0 && progress[len(progress)-1] >= 1
}

// undominated sorts rows by value and leaves out those that take no less than a
// better one in every step.
func undominated(rows []row) []row {
	slices.SortStableFunc(rows, func(a, b row) int {
		if byValue := cmp.Compare(b.value, a.value); byValue != 0 {
			return byValue
		}
		return slices.Compare(a.nodes, b.nodes)
	})
	var kept []row
	for _, r := range rows {
		if !slices.ContainsFunc(kept, func(better row) bool { return takesNoMore(better.nodes, r.nodes) }) {
			kept = append(kept, r)
		}
	}
	return kept
}

// takesNoMore reports whether a is at most b in every step.
func takesNoMore(a, b []int) bool {
	for t := range a {
		if a[t] > b[t] {
			return false
		}
	}
	return true
}

// best returns the best objective of a plan whose first step is the given one if
// it exceeds the given value, and that value otherwise.
func (s *search) best(first []int, exceeding float64) float64 {
	free := slices.Clone(s.problem.Capacity)
	best := exceeding
	var place func(i int, value, bound float64)
	place = func(i int, value, bound float64) {
		if i == len(first) {
			best = max(best, value)
			return
		}
		rows := s.rows[i][first[i]]
		for _, r := range rows {
			bound := bound - rows[0].reduced + r.reduced
			if bound+noise*s.pool <= best {
				return // The rows that follow are worse.
			}
			if take(free, r.nodes) {
				place(i+1, value+r.value, bound)
				giveBack(free, r.nodes)
			}
		}
	}
	place(0, 0, s.bound(first))
	return best
}

// bound bounds the value of a plan with the given first step.
func (s *search) bound(first []int) float64 {
	bound := s.pool
	for i, k := range first {
		bound += s.rows[i][k][0].reduced
	}
	return bound
}

// take takes the nodes of a row out of the pool, or reports that they do not fit.
func take(free, nodes []int) bool {
	if !takesNoMore(nodes, free) {
		return false
	}
	for t, k := range nodes {
		free[t] -= k
	}
	return true
}

func giveBack(free, nodes []int) {
	for t, k := range nodes {
		free[t] += k
	}
}
