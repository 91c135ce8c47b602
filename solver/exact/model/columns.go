package model

import "math"

// Columns contains the plans generated so far for a class of identical finishing jobs.
type Columns struct {
	steps  int
	chosen []uint8   // steps per column
	nodes  []float64 // steps per column
	values []float64
}

// Len returns the number of columns.
func (set *Columns) Len() int { return len(set.values) }

// Net returns the reduced value of a column: its value minus the price of its nodes.
func (set *Columns) Net(column int, prices []float64) float64 {
	net, steps := set.values[column], len(prices)
	for t, nodes := range set.nodes[column*steps : (column+1)*steps] {
		net -= prices[t] * nodes
	}
	return net
}

// Plan returns the size indices of a column.
func (set *Columns) Plan(column int) []uint8 {
	return set.chosen[column*set.steps : (column+1)*set.steps]
}

// Nodes returns the number of nodes of a column by step.
func (set *Columns) Nodes(column int) []float64 {
	return set.nodes[column*set.steps : (column+1)*set.steps]
}

// Best returns the column with the largest net value at the given prices, and this value. The
// column is -1 if there is none.
func (set *Columns) Best(prices []float64) (column int, net float64) {
	column, net = -1, math.Inf(-1)
	for c := range set.values {
		if value := set.Net(c, prices); value > net {
			column, net = c, value
		}
	}
	return column, net
}

// Add adds a plan of a job of the class as a column.
func (set *Columns) Add(j *Job, chosen []uint8) {
	set.chosen = append(set.chosen, chosen...)
	for _, k := range chosen {
		set.nodes = append(set.nodes, float64(j.Sizes[k]))
	}
	set.values = append(set.values, j.Value(chosen))
}

// JobClass is a class of identical finishing jobs, which have the same best plan at any prices.
type JobClass struct {
	// Job is one of the jobs, and Count the number of jobs.
	Job   int
	Count float64
	Columns
}

// JobClasses contains the classes of the finishing jobs of an instance.
type JobClasses struct {
	In      *Instance
	All     []JobClass
	ClassOf []int // class of each finishing job
}

// NewJobClasses returns the classes without columns.
func NewJobClasses(clock *Clock, in *Instance) *JobClasses {
	memory := in.Memory
	of, jobs := in.Classes(clock, in.Finishing)
	d := &JobClasses{In: in, All: memory.classes.Take(len(jobs)), ClassOf: of}
	// Most classes get one column.
	for n, i := range jobs {
		d.All[n] = JobClass{Job: i, Columns: Columns{
			in.Steps, memory.sizes.Take(in.Steps)[:0], memory.Floats.Take(in.Steps)[:0], memory.Floats.Take(1)[:0],
		}}
	}
	for _, n := range of {
		d.All[n].Count++
	}
	return d
}

// Class returns the class of the f-th finishing job.
func (d *JobClasses) Class(f int) *JobClass { return &d.All[d.ClassOf[f]] }
