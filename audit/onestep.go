package audit

import "slices"

// oneStep decides a model of one step: a knapsack over the jobs of each group, whose tables
// are merged up the tree. At a price of nodes, and c_q of the nodes of group q, a plan falls
// short of
//
//	sum over jobs of max_k (value(k) - (price - sum of c_q above) k)
//	  + sum over groups of max_U h_q(U)  +  price pool,   h_q(U) = -c_q U - short price max(0, floor_q - U),
//
// by what each job's size and each group's nodes lose against these maxima, and the price of
// what is left unused. Only what loses less than the bound exceeds the target is looked at.
func (c *search) oneStep(l *leaf) [][]int {
	t := &tree{
		search: c, leaf: l, charge: make([]int64, len(c.groups)), most: make([]int, len(c.groups)),
		within: make([][]int, len(c.groups)),
	}
	var groups []int
	for i := range c.jobs {
		sizes := l.allowed[i][0]
		for g := c.jobs[i].group; g >= 0; g = c.groups[g].parent {
			t.most[g] += c.jobs[i].sizes[sizes[len(sizes)-1]]
			t.within[g] = append(t.within[g], i)
		}
		t.all = append(t.all, i)
	}
	t.reach = slices.Clone(t.most)
	for g := range c.groups {
		t.most[g] = min(t.most[g], c.groups[g].limit, c.pool)
		groups = append(groups, g)
	}
	t.settle(l.free)
	t.cut = t.bound(t.all, groups) + l.prices[0]*int64(c.pool) - c.target
	if t.cut <= 0 {
		return nil
	}
	root, things := t.layer(-1)
	loss, used := root.within(c.pool, l.prices[0])
	if loss >= t.cut {
		return nil
	}
	plan := make([][]int, len(c.jobs))
	t.assign(plan, root, things, used)
	return plan
}

// highest is more than a price that all nodes together are worth paying.
const highest = 1 << 60

// tree is the groups of one step at some prices.
type tree struct {
	*search
	leaf   *leaf
	charge []int64 // c_q
	most   []int   // nodes that each group can hold
	reach  []int   // the same, but for limits and pool
	within [][]int // jobs of each group and those within it
	all    []int   // jobs
	cut    int64
}

// thing is a job, or a group with its layer and things.
type thing struct {
	job    int
	group  int
	layer  *layer
	things []thing
}

// price returns what a node costs a job of a group, or -1.
func (t *tree) price(g int) int64 {
	price := t.leaf.prices[0]
	for ; g >= 0; g = t.groups[g].parent {
		price -= t.charge[g]
	}
	return price
}

// h returns what a group adds with the given nodes, besides its jobs.
func (t *tree) h(g, nodes int) int64 {
	return -t.charge[g]*int64(nodes) - t.shortLow*int64(max(0, t.floor[g]-nodes))
}

// best returns the maximum of h.
func (t *tree) best(g int) int64 {
	return max(t.h(g, 0), t.h(g, min(t.floor[g], t.most[g])), t.h(g, t.most[g]))
}

// bound returns what jobs and groups bring to the bound at the prices.
func (t *tree) bound(jobs, groups []int) int64 {
	bound := int64(0)
	for _, i := range jobs {
		best, losses := t.losses(t.leaf, i, 0, t.price(t.jobs[i].group))
		bound += best
		t.spend(4 * len(losses))
	}
	for _, g := range groups {
		bound += t.best(g)
	}
	return bound
}

// settle finds the price of nodes, where there is none, and the charges of the groups one by
// one: the bound is convex in each.
func (t *tree) settle(noPrice bool) {
	if noPrice {
		t.minimise(&t.leaf.prices[0], 0, highest/int64(t.pool+1), func() int64 { return t.bound(t.all, nil) + t.leaf.prices[0]*int64(t.pool) })
	}
	for range 2 {
		for g := range t.groups {
			// What charges come to stays far below what 64 bits hold, as do their sums: each
			// only lowers the bound.
			low, high := -highest/8/int64(t.most[g]+1), highest/8/int64(t.reach[g]+1)
			t.minimise(&t.charge[g], low, high, func() int64 { return t.bound(t.within[g], []int{g}) })
		}
	}
}

// minimise sets a number, from low to high, to where a convex function of it is least.
func (t *tree) minimise(at *int64, low, high int64, of func() int64) {
	for high > low {
		*at = low + (high-low)/2
		here := of()
		*at++
		if of() < here {
			low = *at
		} else {
			high = *at - 1
		}
		*at = low
	}
}

// layer returns the least losses of a group by nodes, of the pool where g is -1, and the
// things in it in the order in which the layers have them.
func (t *tree) layer(g int) (*layer, []thing) {
	all, things := nothing(), []thing(nil)
	most := t.pool
	if g >= 0 {
		most = t.most[g]
	}
	for i := range t.jobs {
		if t.jobs[i].group != g {
			continue
		}
		_, losses := t.losses(t.leaf, i, 0, t.price(g))
		all = t.combine(all, below(losses, t.cut), most, t.cut)
		things = append(things, thing{job: i, group: -1})
	}
	for child := range t.groups {
		if t.groups[child].parent != g {
			continue
		}
		within, inner := t.layer(child)
		best, options := t.best(child), []option(nil)
		for n, loss := range within.loss {
			if nodes := within.from + n; loss < infinite {
				options = append(options, option{nodes, loss + best - t.h(child, nodes)})
			}
		}
		all = t.combine(all, below(options, t.cut), most, t.cut)
		things = append(things, thing{group: child, layer: within, things: inner})
	}
	return all, things
}

// assign gives the jobs below a layer the given nodes in all.
func (t *tree) assign(plan [][]int, y *layer, things []thing, nodes int) {
	for n := len(things) - 1; n >= 0; n-- {
		took := y.last[y.choice[nodes-y.from]].nodes
		if things[n].group < 0 {
			plan[things[n].job] = []int{took}
		} else {
			t.assign(plan, things[n].layer, things[n].things, took)
		}
		y, nodes = y.before, nodes-took
	}
}
