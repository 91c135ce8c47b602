package exact

import (
	"math"
	"slices"
)

// columns is the plans found so far of a class of equal finishing jobs. A column's value is
// that of its plan, whoever found it.
type columns struct {
	steps  int
	chosen []uint8   // steps per column
	nodes  []float64 // steps per column
	values []float64
}

// net returns the value of a column less the price of its nodes.
func (set *columns) net(column int32, prices []float64) float64 {
	net, steps := set.values[column], len(prices)
	for t, nodes := range set.nodes[int(column)*steps : (int(column)+1)*steps] {
		net -= prices[t] * nodes
	}
	return net
}

// plan returns the sizes of a column.
func (set *columns) plan(column int32) []uint8 {
	return set.chosen[int(column)*set.steps : (int(column)+1)*set.steps]
}

// held returns the nodes of a column.
func (set *columns) held(column int32) []float64 {
	return set.nodes[int(column)*set.steps : (int(column)+1)*set.steps]
}

// kind is the jobs of a class that a subproblem restricts alike: they have the same
// best plan at any prices.
type kind struct {
	class, job int
	count      float64
	allowed    []sizeSet
	// active are the columns of the class that lie in the subproblem.
	active []int32
}

// kinds are the finishing jobs of a subproblem, by kind. The columns of their classes are
// kept from subproblem to subproblem.
type kinds struct {
	in      *instance
	classOf []int     // of each finishing job
	columns []columns // one per class
	// all are those of the current subproblem, of that of each finishing job, and ofClass
	// those of each class.
	all     []kind
	of      []int
	ofClass [][]int
}

// newKinds returns the finishing jobs without restrictions or columns.
func newKinds(c *clock, in *instance) *kinds {
	classOf, classes := in.classes(c, in.finishing)
	d := &kinds{
		in: in, classOf: classOf, columns: make([]columns, len(classes)),
		of: make([]int, len(classOf)), ofClass: make([][]int, len(classes)),
	}
	for class := range d.columns {
		d.columns[class].steps = in.steps
	}
	return d
}

// add keeps a plan of a class as a column.
func (d *kinds) add(class int, j *job, chosen []uint8) {
	set := &d.columns[class]
	set.chosen = append(set.chosen, chosen...)
	for _, k := range chosen {
		set.nodes = append(set.nodes, float64(j.sizes[k]))
	}
	set.values = append(set.values, j.value(chosen))
	for _, n := range d.ofClass[class] {
		d.all[n].admit(int32(len(set.values)-1), chosen)
	}
}

// admit makes a column active if it lies in the subproblem.
func (u *kind) admit(column int32, chosen []uint8) {
	for t, k := range chosen {
		if !u.allowed[t].has(int(k)) {
			return
		}
	}
	u.active = append(u.active, column)
}

// enter makes the kinds of a subproblem and the columns that lie in it active, by what it
// allows per finishing job and step.
func (d *kinds) enter(c *clock, restricted []sizeSet) {
	steps := d.in.steps
	if cap(d.all) < len(d.classOf) {
		d.all = make([]kind, 0, len(d.classOf))
	}
	old := d.all
	d.all = d.all[:0]
	for class := range d.ofClass {
		d.ofClass[class] = d.ofClass[class][:0]
	}
	for f, class := range d.classOf {
		c.up(2 * steps)
		allowed := restricted[f*steps : (f+1)*steps]
		at := slices.IndexFunc(d.ofClass[class], func(n int) bool { return slices.Equal(d.all[n].allowed, allowed) })
		if at >= 0 {
			d.of[f] = d.ofClass[class][at]
			d.all[d.of[f]].count++
			continue
		}
		n := len(d.all)
		d.of[f], d.ofClass[class] = n, append(d.ofClass[class], n)
		u := kind{class: class, job: d.in.finishing[f], count: 1, allowed: allowed}
		if n < len(old) {
			u.active = old[n].active[:0]
		}
		set := &d.columns[class]
		for column := range set.values {
			u.admit(int32(column), set.plan(int32(column)))
		}
		d.all = append(d.all, u)
	}
}

// bestColumn returns the active column of a kind of the largest net value at the given
// prices, and that value; -1 if there is none.
func (d *kinds) bestColumn(u *kind, prices []float64) (column int, net float64) {
	set := &d.columns[u.class]
	column, net = -1, math.Inf(-1)
	for _, c := range u.active {
		if value := set.net(c, prices); value > net {
			column, net = int(c), value
		}
	}
	return column, net
}

// kind returns the kind of the f-th finishing job.
func (d *kinds) kind(f int) *kind { return &d.all[d.of[f]] }
