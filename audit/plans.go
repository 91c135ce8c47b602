package audit

import (
	"cmp"
	"math"
	"slices"
)

// infinite is more than any loss.
const infinite = math.MaxInt64 / 4

// mostLabels is how many labels are kept of a job; more are merged in pairs, upwards.
const mostLabels = 4096

// label is work served and what it was worth, net of prices.
type label struct{ served, value int64 }

// options are the positions of the sizes that a leaf leaves a job in a step; where the job
// has finished, all but the smallest of them only take nodes.
func (l *leaf) options(j *member, i, t int, served int64) []int {
	all := l.allowed[i][t]
	if served >= j.done {
		return all[:1]
	}
	return all
}

// best returns at least what any plan of a job is worth, net of the prices of its sizes.
func (c *search) best(l *leaf, i int, price [][]int64) int64 {
	j := &c.jobs[i]
	labels := []label{{}}
	for t := range c.steps {
		var next []label
		for _, from := range labels {
			for _, n := range l.options(j, i, t, from.served) {
				served := j.serve(from.served, t, n)
				next = append(next, label{served, from.value + j.gain(served) - price[t][n]})
			}
		}
		c.spend(8 * len(next))
		labels = undominated(next)
	}
	best := int64(-infinite)
	for _, l := range labels {
		best = max(best, l.value)
	}
	return best
}

// undominated returns the labels of which no other has as much of both, most work first.
func undominated(labels []label) []label {
	slices.SortFunc(labels, func(a, b label) int {
		return cmp.Or(cmp.Compare(b.served, a.served), cmp.Compare(b.value, a.value))
	})
	kept := labels[:0]
	for _, l := range labels {
		if len(kept) == 0 || l.value > kept[len(kept)-1].value {
			kept = append(kept, l)
		}
	}
	if len(kept) > mostLabels {
		for n := 0; 2*n < len(kept); n++ {
			kept[n] = label{kept[2*n].served, kept[min(2*n+1, len(kept)-1)].value}
		}
		kept = kept[:(len(kept)+1)/2]
	}
	return kept
}

// follow returns a table of at least what can follow, net of prices, by step and by work
// served, in cells of 2^shift units rounded up.
func (c *search) follow(l *leaf, i int, price [][]int64) (table [][]int64, shift int) {
	j := &c.jobs[i]
	if shift = workBits - 8; c.steps > 6 {
		shift = workBits - 11
	}
	most := slices.Max(j.firstUnits) + int64(c.steps-1)*slices.Max(j.laterUnits)
	cells := int((min(most, j.done)+1<<shift-1)>>shift) + 1
	table = make([][]int64, c.steps+1)
	table[c.steps] = make([]int64, cells+1)
	for t := c.steps - 1; t >= 0; t-- {
		table[t] = make([]int64, cells+1)
		for at := range table[t] {
			best := int64(-infinite)
			for _, n := range l.allowed[i][t] {
				served := j.serve(int64(at)<<shift, t, n)
				then := min(cells, int((served+1<<shift-1)>>shift))
				best = max(best, j.gain(served)-price[t][n]+table[t+1][then])
			}
			table[t][at] = best
		}
		c.spend(2 * len(table[t]) * len(l.allowed[i][t]))
	}
	return table, shift
}

// plan is the positions of a job's sizes per step, and what the plan loses against the best
// of the job at the prices of nodes.
type plan struct {
	sizes []uint8
	loss  int64
}

// list returns the plans of a job that are worth more than least net of the prices of its
// sizes, with their losses against best at the prices of nodes.
func (c *search) list(l *leaf, i int, price [][]int64, least, best int64) []plan {
	j := &c.jobs[i]
	table, shift := c.follow(l, i, price)
	var plans []plan
	sizes := make([]uint8, c.steps)
	var walk func(t int, served, net, atNodes int64)
	walk = func(t int, served, net, atNodes int64) {
		c.spend(4)
		if t == c.steps {
			plans = append(plans, plan{slices.Clone(sizes), best - atNodes})
			if c.plans++; c.plans > mostPlans {
				panic(stopped{"more plans of jobs could be part of a better one than the check lists"})
			}
			return
		}
		for _, n := range l.options(j, i, t, served) {
			after := j.serve(served, t, n)
			gain := j.gain(after)
			net := net + gain - price[t][n]
			if net+table[t+1][min(len(table[t])-1, int((after+1<<shift-1)>>shift))] > least {
				sizes[t] = uint8(n)
				walk(t+1, after, net, atNodes+gain-l.prices[t]*int64(j.sizes[n]))
			}
		}
	}
	walk(0, 0, 0, 0)
	return plans
}
