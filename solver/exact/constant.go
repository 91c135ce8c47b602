package exact

import "slices"

// constantPlan returns the best plan in which every job holds one size as long as it
// trains: a single knapsack, which even many jobs have time for. It is nil if they have
// not.
func constantPlan(c *clock, in *instance, k chooser) plan {
	k.Reset()
	free := slices.Min(in.free)
	for i := range in.jobs {
		j := &in.jobs[i]
		for n, nodes := range j.sizes {
			if int(nodes-j.sizes[0]) > free {
				break
			}
			k.Option(nodes, j.progress(j.first[n], j.later[n])-j.cost[n])
		}
		k.Item()
		if c.up(2 * in.steps * len(j.sizes)) {
			return nil
		}
	}
	choices, ok := k.Choose(c, slices.Min(in.capacity), constantPrecision*in.scale)
	if !ok {
		return nil
	}
	p := newPlan(in)
	for i, n := range choices {
		share := 0.0
		for t := 0; t < in.steps && share < finished; t++ {
			p[i][t] = n
			share += in.jobs[i].shares(t)[n]
		}
		if c.up(in.steps) {
			break
		}
	}
	return p
}

// constantPrecision is how good a constant plan is, as a share of the objective: there
// are better ones.
const constantPrecision = 1e-5
