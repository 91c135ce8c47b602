package model

import (
	"math"
	"slices"
)

// Columns is the plans found so far of a class of equal finishing jobs. A column's value is
// that of its plan, wherever that came from.
type Columns struct {
	steps  int
	chosen []uint8   // steps per column
	nodes  []float64 // steps per column
	values []float64
}

// Net returns the value of a column less the price of its nodes.
func (set *Columns) Net(column int32, prices []float64) float64 {
	net, steps := set.values[column], len(prices)
	for t, nodes := range set.nodes[int(column)*steps : (int(column)+1)*steps] {
		net -= prices[t] * nodes
	}
	return net
}

// Plan returns the sizes of a column.
func (set *Columns) Plan(column int32) []uint8 {
	return set.chosen[int(column)*set.steps : (int(column)+1)*set.steps]
}

// Held returns the nodes of a column.
func (set *Columns) Held(column int32) []float64 {
	return set.nodes[int(column)*set.steps : (int(column)+1)*set.steps]
}

// Kind is the jobs of a class that a subproblem restricts alike: they have the same
// best plan at any prices.
type Kind struct {
	Class, Job int
	Count      float64
	Allowed    []SizeSet
	// Active are the columns of the class that lie in the subproblem.
	Active []int32
	// next is the next kind of the class, -1 for none.
	next int
}

// Kinds are the finishing jobs of a subproblem, by kind. The columns of their classes are
// kept from subproblem to subproblem.
type Kinds struct {
	In      *Instance
	classOf []int     // of each finishing job
	Columns []Columns // one per class
	// All are those of the current subproblem, Of that of each finishing job, and first
	// the first of each class, -1 for none.
	All   []Kind
	Of    []int
	first []int
}

// NewKinds returns the finishing jobs without restrictions or columns.
func NewKinds(clock *Clock, in *Instance) *Kinds {
	classOf, classes := in.Classes(clock, in.Finishing)
	memory := in.Memory
	d := &Kinds{
		In: in, classOf: classOf, Columns: memory.columns.Take(len(classes)),
		All: memory.kinds.Zeros(len(classOf)), Of: memory.Ints.Take(len(classOf)), first: memory.Ints.Take(len(classes)),
	}
	// Most classes come to one column, of one kind.
	for class := range d.Columns {
		d.Columns[class] = Columns{in.Steps, memory.sizes.Take(in.Steps)[:0], memory.Floats.Take(in.Steps)[:0], memory.Floats.Take(1)[:0]}
	}
	for n := range d.All {
		d.All[n].Active = memory.slots.Take(1)[:0]
	}
	return d
}

// Add keeps a plan of a class as a column.
func (d *Kinds) Add(class int, j *Job, chosen []uint8) {
	set := &d.Columns[class]
	set.chosen = append(set.chosen, chosen...)
	for _, k := range chosen {
		set.nodes = append(set.nodes, float64(j.Sizes[k]))
	}
	set.values = append(set.values, j.Value(chosen))
	for n := d.first[class]; n >= 0; n = d.All[n].next {
		d.All[n].admit(int32(len(set.values)-1), chosen)
	}
}

// admit makes a column active if it lies in the subproblem.
func (u *Kind) admit(column int32, chosen []uint8) {
	for t, k := range chosen {
		if !u.Allowed[t].Has(int(k)) {
			return
		}
	}
	u.Active = append(u.Active, column)
}

// Enter makes the kinds of a subproblem and the columns that lie in it active, by what it
// allows per finishing job and step.
func (d *Kinds) Enter(clock *Clock, restricted []SizeSet) {
	steps := d.In.Steps
	old := d.All[:len(d.classOf)]
	d.All = d.All[:0]
	for class := range d.first {
		d.first[class] = -1
	}
	for f, class := range d.classOf {
		clock.Up(2 * steps)
		allowed := restricted[f*steps : (f+1)*steps]
		at := d.first[class]
		for at >= 0 && !slices.Equal(d.All[at].Allowed, allowed) {
			at = d.All[at].next
		}
		if at >= 0 {
			d.Of[f] = at
			d.All[at].Count++
			continue
		}
		n := len(d.All)
		u := Kind{Class: class, Job: d.In.Finishing[f], Count: 1, Allowed: allowed, Active: old[n].Active[:0], next: d.first[class]}
		d.Of[f], d.first[class] = n, n
		set := &d.Columns[class]
		for column := range set.values {
			u.admit(int32(column), set.Plan(int32(column)))
		}
		d.All = append(d.All, u)
	}
}

// BestColumn returns the active column of a kind of the largest net value at the given
// prices, and that value; -1 if there is none.
func (d *Kinds) BestColumn(u *Kind, prices []float64) (column int, net float64) {
	set := &d.Columns[u.Class]
	column, net = -1, math.Inf(-1)
	for _, c := range u.Active {
		if value := set.Net(c, prices); value > net {
			column, net = int(c), value
		}
	}
	return column, net
}

// Kind returns the kind of the f-th finishing job.
func (d *Kinds) Kind(f int) *Kind { return &d.All[d.Of[f]] }
