package rows

import "math"

// Joint tables: the smallest remaining loss of a row by its excess nodes and those of the open leaf group.
//
// The tails of a row count what its jobs lose beyond the tables of their leaf groups, whatever the excess nodes of
// these groups. A joint table counts 1/k of the losses of the leaf groups themselves, where k is the number of priced
// rows of the leaf group. The sum over the rows is therefore another lower bound. If guided is set, each table counts
// the whole loss, and the tables of the leaf groups are subtracted k-1 times. This is not a bound, but a better
// estimate.

// jointTables are the joint tables of a tree. They are empty if they would be too large.
type jointTables struct {
	guided bool
	rows   []*jointRow
	// later has, by job, the values of the rows after the leaf group of the job.
	later []float64
	// With guided, again has, by job, the sum over the later leaf groups of their smallest losses, and
	// counted, by leaf group, how often the tables of the leaf group are to be subtracted.
	again, counted []float64
}

// jointRow is the joint table of one row.
type jointRow struct {
	*treeRow
	tables []jointTable // by job
}

// jointTable has one series of losses by excess nodes of the row, from low on, for each excess of the leaf group.
type jointTable struct {
	low, size int
	values    []float64
}

// series returns the losses for the excess at position x of the table of the leaf group.
func (t *jointTable) series(x int) []float64 { return t.values[x*t.size:][:t.size] }

// value returns the smallest remaining loss before job n of the tree, with x as the position of the excess nodes in
// the table of the leaf group.
func (r *jointRow) value(n, x, excess int) float64 {
	t := &r.tables[n-r.from]
	if excess -= t.low; excess < 0 || excess >= t.size || x < 0 || x*t.size >= len(t.values) {
		return math.Inf(1)
	}
	return t.values[x*t.size+excess]
}

// makeJoint computes the joint tables, unless they are too large.
func (c *tree) makeJoint() {
	j := &c.joint
	weights := make([]float64, len(c.leaves))
	for n := range c.leaves {
		priced := 0
		for _, t := range c.leaves[n].rows {
			if t.priced {
				priced++
			}
		}
		if priced == 0 {
			return
		}
		if weights[n] = 1 / float64(priced); j.guided {
			weights[n] = 1
		}
		j.counted = append(j.counted, float64(priced-1))
	}
	cells := 0
	for _, t := range c.rows {
		if !t.priced {
			continue
		}
		r := &jointRow{treeRow: t, tables: make([]jointTable, t.to-t.from)}
		if !c.fillJoint(r, weights, &cells) {
			j.rows = nil
			return
		}
		j.rows = append(j.rows, r)
	}
	j.later, j.again = make([]float64, len(c.jobs)), make([]float64, len(c.jobs))
	for n := range c.jobs {
		for m := range c.leaves {
			if l := &c.leaves[m]; l.from > n {
				j.again[n] += j.counted[m] * l.min
			}
		}
		for _, r := range j.rows {
			if r.from > n {
				j.later[n] += r.value(r.from, -c.leaves[c.jobs[r.from].leaf].after[0].low, 0)
			}
		}
	}
}

// fillJoint computes the joint table of a row. It returns false if it is too large or the deadline has passed.
func (c *tree) fillJoint(r *jointRow, weights []float64, cells *int) bool {
	jobs := c.jobs[r.from:r.to]
	end := &r.tails[len(jobs)]
	next := jointTable{low: end.low, size: len(end.at), values: end.at} // one series at a boundary of leaf groups
	for m := len(jobs) - 1; m >= 0; m-- {
		j, n := &jobs[m], r.from+m
		l := &c.leaves[j.leaf]
		at := &l.after[n-l.from]
		t := jointTable{low: r.tails[m].low, size: len(r.tails[m].at)} // Outside of the tail, the loss exceeds the limit.
		size := t.size * len(at.at)
		if *cells += size; *cells > c.effort.Joint || c.clock.Add(size*len(j.options)/4) {
			return false
		}
		t.values = make([]float64, size)
		c.fillTable(&t, &next, n, r.row, weights[j.leaf])
		r.tables[m], next = t, t
		if n == l.from { // The excess of a leaf group is 0 at its start.
			if x := -at.low; x >= 0 && x < len(at.at) {
				next.values = t.series(x)
			} else {
				next.values, next.size = nil, 0
			}
		}
	}
	return true
}

// fillTable computes the joint table before job n of the tree from the one after it, which is one series if
// the job is the last one of its leaf group.
func (c *tree) fillTable(t, next *jointTable, n, row int, weight float64) {
	j := &c.jobs[n]
	l := &c.leaves[j.leaf]
	at, after, last := &l.after[n-l.from], &l.after[n-l.from+1], n+1 == l.to
	for x := range at.at {
		values := t.series(x)
		for e := range values {
			values[e] = math.Inf(1)
		}
		for k := range j.options {
			o := &j.options[k]
			excess := at.low + x + c.excessOf(l, j, o) // of the leaf group, after the job
			loss, to := weight*o.loss, next.values
			switch {
			case last && l.row >= 0:
				loss += weight * c.lossAt(l.row, excess)
			case last:
			case excess < after.low || excess > after.high():
				continue
			default:
				to = next.series(excess - after.low)
			}
			shift := t.low + c.change(j, o, row) - next.low
			for e := max(0, -shift); e < min(t.size, next.size-shift); e++ {
				values[e] = min(values[e], loss+to[e+shift])
			}
		}
	}
}

// jointRest returns a lower bound on the remaining loss of a state before job n, or an estimate with guided.
func (c *tree) jointRest(n int) float64 {
	j := &c.joint
	l := &c.leaves[c.jobs[n].leaf]
	table := &l.after[n-l.from]
	excess := 0
	if l.row >= 0 {
		excess = int(c.excess[l.coordinate])
	}
	sum := j.later[n]
	for _, r := range j.rows {
		if n >= r.from && n < r.to {
			sum += r.value(n, excess-table.low, int(c.excess[r.coordinate]))
		}
	}
	if j.guided {
		sum -= j.again[n] + j.counted[c.jobs[n].leaf]*table.value(excess)
	}
	return sum
}
