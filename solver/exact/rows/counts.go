package rows

import (
	"math"
	"slices"
)

// The search over counts of identical jobs, by branch and cut.
//
// For jobs with the same options and the same current allocation, only the number of jobs per option
// matters. Hyperparameter sweeps (identical jobs) therefore have few variables: one count per class of
// identical jobs and option. The linear program of the counts has one equation per class and one per row,
// so at most as many counts are fractional. Cuts and branching make them integers.

const (
	// The search is for at most fewClasses classes, or 1/jobsPerClass of the number of jobs if that is more. With
	// more classes the core search is faster: without this limit, pools of 8,000 GPUs take up to 6 times the
	// CPU time in BenchmarkLargePools.
	fewClasses   = 32
	jobsPerClass = 10
	// maxPivots limits the pivots of one linear program, because rounding errors may let it cycle.
	maxPivots = 1000
	// maxDoublings limits the steps along a ray for the same reason.
	maxDoublings = 64
	// openCells limits the cells in the tables of the open parts to 16 MB.
	openCells = 1 << 21
)

// class is a set of identical jobs.
type class struct {
	jobs    []int
	options []Option
	first   int // the count of its first option
}

// countRow is a constraint: the sum of weights times counts is at most nodes.
type countRow struct {
	weights []int64 // by count
	nodes   int64
	scale   float64 // of its equation in a vertex: 1 / the largest weight
}

// countSearch searches all counts of jobs per class and option.
type countSearch struct {
	*search
	classes []class
	rows    []countRow // the rows of the problem, and then the cuts
	counts  int
	leaves  sum  // largest bound of the parts of the search that are complete
	closed  bool // whether the incumbent is optimal in these parts
	net     nets // scratch
	// losses are what one job with each option costs at least, compared with the bound that the last call of
	// lower returned.
	losses []float64
}

// newCountSearch prepares a search. It returns nil if there are groups, if too few jobs are identical, if the
// table of a vertex would be too large, or if the deadline has passed.
func (s *search) newCountSearch() *countSearch {
	c := &countSearch{search: s, leaves: sum{high: math.Inf(-1)}, closed: true}
	if s.Groups != nil {
		return nil
	}
	most := min(max(fewClasses, len(s.Jobs)/jobsPerClass), (len(s.Jobs)-1)/2)
	if most <= 0 {
		return nil
	}
	for i, options := range s.Jobs {
		n := slices.IndexFunc(c.classes, func(k class) bool {
			return s.Current[i] == s.Current[k.jobs[0]] && slices.Equal(options, k.options)
		})
		if n < 0 {
			n, c.classes = len(c.classes), append(c.classes, class{options: options, first: c.counts})
			c.counts += len(options)
		}
		c.classes[n].jobs = append(c.classes[n].jobs, i)
		if len(c.classes) > most || c.cells() > s.effort.Cells || s.clock.Add(len(c.classes)) {
			return nil
		}
	}
	c.losses = make([]float64, c.counts)
	for row, nodes := range s.Capacity {
		r := countRow{nodes: int64(nodes)}
		for _, k := range c.classes {
			for n := range k.options {
				r.weights = append(r.weights, int64(s.nodesIn(&k.options[n].Allocation, row)))
			}
		}
		c.rows = append(c.rows, r)
	}
	return c
}

// searchCounts searches until all parts are complete or a limit is reached. It returns the prices of the
// rows, or nil if they are not known, and whether the search completed.
func (c *countSearch) searchCounts() (prices []float64, complete bool) {
	root := c.root()
	c.extend(root, extraNodes)
	if _, ok := c.optimize(root); !ok {
		return nil, false
	}
	c.extend(root, -extraNodes)
	prices = c.prices(root)
	c.lower(root, prices)
	c.prove(root.bound, 0, lemmaPrices)
	if c.goodEnough() {
		return prices, false
	}
	for {
		if _, ok := c.optimize(root); !ok || !c.addCuts(root) {
			break
		}
	}
	open := []*vertex{root}
	for n := 0; n < c.effort.Vertices && len(open) > 0 && len(open)*c.cells() <= openCells && !c.goodEnough(); n++ {
		last := len(open) - 1
		parts, ok := c.branch(open[last])
		if !ok {
			break
		}
		open = append(open[:last], parts...)
		c.states++
	}
	complete = len(open) == 0 && c.closed
	for _, v := range open {
		c.close(v)
	}
	c.prove(c.leaves, 0, lemmaCounts)
	return prices, complete
}

// branch solves the linear program of a part of the search. It closes the part, or divides it in two by the
// bounds of a count; the second one is to be searched first. It returns false if the deadline has passed.
func (c *countSearch) branch(v *vertex) (parts []*vertex, ok bool) {
	ray, ok := c.optimize(v)
	if !ok {
		return nil, false
	}
	prices := c.prices(v)
	bound := c.lower(v, prices)
	if ray != nil {
		c.lowerAlong(v, prices, ray)
		c.close(v)
		return nil, true
	}
	row, fewer := c.fractional(v)
	if !c.better(v) {
		row = -1
	} else if row < 0 {
		c.offer(c.choiceOf(v))
	}
	if row < 0 {
		c.close(v)
		return nil, true
	}
	c.exclude(v, bound)
	low, high, j, x := v.clone(), v, v.basis[row], v.level[row]
	low.high[j], high.low[j] = math.Floor(x), math.Ceil(x)
	if fewer {
		return []*vertex{high, low}, true
	}
	return []*vertex{low, high}, true
}

// cells returns the number of cells in the table of a vertex without cuts.
func (c *countSearch) cells() int {
	return (len(c.classes) + len(c.Capacity)) * (c.counts + len(c.Capacity))
}

// root returns the vertex at which each job has the option with the largest value, and the nodes that
// exceed a row are the excess of its equation.
func (c *countSearch) root() *vertex {
	v := &vertex{table: make([][]float64, len(c.classes)), low: make([]float64, c.counts), atHigh: make([]bool, c.counts)}
	for m := range v.gains {
		v.gains[m] = make([]float64, c.counts)
	}
	for n, k := range c.classes {
		v.table[n] = make([]float64, c.counts, c.counts+len(c.rows)+c.effort.Cuts)
		gains := make([][criteria]float64, len(k.options))
		best := 0
		for m, o := range k.options {
			tie := c.tie(k.jobs[0], o.Allocation)
			gains[m] = [criteria]float64{o.Value, -float64(tie.changes) / tieUnit, -float64(tie.nodes) / tieUnit}
			if slices.Compare(gains[m][:], gains[best][:]) > 0 {
				best = m
			}
		}
		for m := range k.options {
			v.table[n][k.first+m] = 1
			v.high = append(v.high, float64(len(k.jobs)))
			for by := range v.gains {
				gain := gains[m][by] - gains[best][by]
				v.gains[by][k.first+m], v.zero[by] = gain, max(v.zero[by], gainZero*math.Abs(gain))
			}
		}
		v.basis, v.level = append(v.basis, k.first+best), append(v.level, float64(len(k.jobs)))
	}
	for row := range c.rows {
		c.addRow(v, &c.rows[row])
	}
	return v
}

// addRow adds the equation of a row.
func (c *countSearch) addRow(v *vertex, r *countRow) {
	r.scale = 1 / float64(slices.Max(append(r.weights, 1)))
	coefficients := make([]float64, c.counts)
	for j, weight := range r.weights {
		coefficients[j] = float64(weight) * r.scale
	}
	v.add(coefficients, float64(r.nodes)*r.scale)
}

// extend adds nodes to each row of the problem.
func (c *countSearch) extend(v *vertex, nodes float64) {
	for n := range v.level {
		for row := range c.Capacity {
			v.level[n] += nodes * c.rows[row].scale * v.table[n][c.counts+row]
		}
	}
}

// optimize moves to the vertex with the largest value, by the dual simplex method. If there is none, it
// returns a ray: the direction of prices in which the bound decreases without limit. It returns false if the
// deadline has passed or the limit of pivots is reached.
func (c *countSearch) optimize(v *vertex) (ray []float64, ok bool) {
	for range maxPivots {
		row, excess := v.leaving()
		if excess == 0 {
			return nil, true
		}
		enter := v.entering(row, excess)
		if enter < 0 {
			for n, a := range v.table[row][c.counts:] {
				ray = append(ray, -math.Copysign(a, a*excess)*c.rows[n].scale)
			}
			return ray, true
		}
		v.pivot(row, enter, excess)
		if c.clock.Add(len(v.table) * len(v.low)) {
			break
		}
	}
	return nil, false
}

// prices returns the prices of the rows and cuts at a vertex: what their unused nodes would lose.
func (c *countSearch) prices(v *vertex) (prices []float64) {
	for n, gain := range v.gains[0][c.counts:] {
		prices = append(prices, max(0, -gain*c.rows[n].scale))
	}
	return prices
}

// lower lowers the bound of a vertex to the one at prices, if that is smaller. It returns the one at prices,
// to which the losses refer.
func (c *countSearch) lower(v *vertex, prices []float64) (bound sum) {
	for n, price := range prices {
		bound.add(product(price, float64(c.rows[n].nodes)))
	}
	for _, k := range c.classes {
		c.netOf(k, prices)
		left := float64(len(k.jobs))
		bound.magnitude += left * c.net.maxCost // covers the rounding errors of the net values
		add := func(n int, jobs float64) {
			high, lost := product(c.net.highs[n], jobs)
			bound.add(high, lost+c.net.lows[n]*jobs)
			left -= jobs
		}
		order := make([]int, len(k.options))
		for n := range order {
			order[n] = n
			add(n, v.low[k.first+n])
		}
		slices.SortFunc(order, func(a, b int) int { return c.net.compare(b, a) })
		last := order[0] // the option of the last job
		for _, n := range order {
			if jobs := min(left, v.high[k.first+n]-v.low[k.first+n]); jobs > 0 {
				last = n
				add(n, jobs)
			}
			c.losses[k.first+n] = c.net.less(last, n)
		}
	}
	if bound.minus(v.bound) < 0 || v.bound.terms == 0 {
		v.bound = bound
	}
	return bound
}

// netOf sets the net values of the options of a class.
func (c *countSearch) netOf(k class, prices []float64) {
	c.net = nets{highs: c.net.highs[:0], lows: c.net.lows[:0]}
	for n, o := range k.options {
		high, low, cost := o.Value, 0.0, 0.0
		for row, price := range prices {
			if weight := c.rows[row].weights[k.first+n]; weight != 0 && price > 0 {
				part, lost := product(price, float64(weight))
				both, rounded := twoSum(high, -part)
				high, low = twoSum(both, rounded+(low-lost))
				cost += math.Abs(part)
			}
		}
		c.net.highs, c.net.lows, c.net.maxCost = append(c.net.highs, high), append(c.net.lows, low), max(c.net.maxCost, cost)
	}
}

// exclude sets the counts of options to 0 that lose more than any choice that is as good as the incumbent.
// The bound is what the last call of lower returned. Without it, running sweeps take 1.3 times the CPU
// time, and one is not proven.
func (c *countSearch) exclude(v *vertex, bound sum) {
	limit := bound.minus(c.value) + 2*c.rounding(v)
	for j, loss := range c.losses {
		if loss > limit && v.low[j] == 0 && !v.atHigh[j] {
			v.high[j] = 0
		}
	}
}

// rounding returns the difference up to which a bound and the value of the incumbent count as equal.
func (c *countSearch) rounding(v *vertex) float64 { return c.tolerance() + 0x1p-50*v.bound.magnitude }

// better reports whether the solution of a vertex is better than the incumbent, by value or by tie.
func (c *countSearch) better(v *vertex) bool {
	if more := v.bound.minus(c.value); math.Abs(more) > c.rounding(v) {
		return more > 0
	}
	x, now := v.solution(), c.tieOf(c.choice)
	changes, nodes := float64(now.changes)/tieUnit, float64(now.nodes)/tieUnit // fewer than those of the incumbent
	for _, k := range c.classes {
		for n, o := range k.options {
			tie := c.tie(k.jobs[0], o.Allocation)
			changes -= x[k.first+n] * float64(tie.changes) / tieUnit
			nodes -= x[k.first+n] * float64(tie.nodes) / tieUnit
		}
	}
	const half = 0.5 / tieUnit
	return changes > half || changes > -half && nodes > half
}

// close records the bound of a part of the search that is complete.
func (c *countSearch) close(v *vertex) {
	if v.bound.minus(c.leaves) > 0 {
		c.leaves = v.bound
	}
	c.closed = c.closed && v.bound.minus(c.value) <= c.rounding(v)
}

// lowerAlong lowers the bound of a part without legal choices below the incumbent, along a ray.
func (c *countSearch) lowerAlong(v *vertex, prices, ray []float64) {
	length := v.zero[0] / gainZero
	for n := 0; n < maxDoublings && v.bound.minus(c.value) >= 0; n++ {
		further := slices.Clone(prices)
		for row := range further {
			further[row] = max(0, further[row]+length*ray[row])
		}
		c.lower(v, further)
		length *= 2
	}
}

// fractional returns the equation of the count to branch on, and whether the part with fewer jobs comes first.
// It returns -1 if all counts are integers. It prefers the count for which both parts lose much in their
// first pivots. With the smaller loss instead of the product, 2 sweeps are not proven.
func (c *countSearch) fractional(v *vertex) (row int, fewer bool) {
	row = -1
	most := 0.0
	for n, j := range v.basis {
		part := v.level[n] - math.Floor(v.level[n])
		if j >= c.counts || part < levelZero || part > 1-levelZero {
			continue
		}
		less, more := v.loss(n, part), v.loss(n, part-1)
		if score := max(less, v.zero[0]) * max(more, v.zero[0]); row < 0 || score > most {
			row, most, fewer = n, score, less < more
		}
	}
	return row, fewer
}

// choiceOf returns the choice with the counts of a vertex.
func (c *countSearch) choiceOf(v *vertex) []int {
	choice, x := make([]int, len(c.Jobs)), v.solution()
	for _, k := range c.classes {
		jobs := k.jobs
		for n := range k.options {
			for count := min(len(jobs), int(math.Round(x[k.first+n]))); count > 0; count-- {
				choice[jobs[0]], jobs = n, jobs[1:]
			}
		}
	}
	return choice
}
