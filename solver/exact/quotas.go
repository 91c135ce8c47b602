package exact

import (
	"errors"

	"github.com/elastalloc/elastalloc/solver"
)

// Groups in the units of the search: their limits are rows of the model, and what a plan is
// short of their floors costs.

// errLimits is returned for a problem that admission cannot have made.
var errLimits = errors.New("the smallest sizes of the jobs of a group together exceed its limit")

// convertGroups takes over the groups of a problem of one step.
func (in *instance) convertGroups(p *solver.Problem) error {
	if p.Steps != 1 {
		return errors.New("groups in a problem of more than one step")
	}
	in.groups, in.quotaPrice = p.Groups, p.QuotaPrice/in.unit
	nodes := make([]int, len(p.Groups))
	for i := range p.Jobs {
		for g := p.Jobs[i].Group; g >= 0; g = p.Groups[g].Parent {
			nodes[g] += p.Jobs[i].Sizes[0]
		}
	}
	for g := range p.Groups {
		if nodes[g] > p.Groups[g].Limit {
			return errLimits
		}
	}
	return nil
}

// groupNodes returns the nodes of every group under a plan.
func (in *instance) groupNodes(p plan) []int {
	nodes := make([]int, len(in.groups))
	for i := range in.jobs {
		j := &in.jobs[i]
		for g := j.group; g >= 0; g = in.groups[g].Parent {
			nodes[g] += int(j.sizes[p[i][0]])
		}
	}
	return nodes
}

// shortfall returns what it costs that groups are short of their floors under a plan.
func (in *instance) shortfall(p plan) float64 {
	short := 0
	for g, nodes := range in.groupNodes(p) {
		short += max(0, in.groups[g].Floor-nodes)
	}
	return in.quotaPrice * float64(short)
}

// shrinkGroups takes nodes from the jobs of groups that exceed their limits under a plan,
// and returns how many.
func (in *instance) shrinkGroups(p plan) (taken int) {
	nodes := in.groupNodes(p)
	members := make(map[int][]int)
	for i := range in.jobs {
		for g := in.jobs[i].group; g >= 0; g = in.groups[g].Parent {
			if nodes[g] > in.groups[g].Limit {
				members[g] = append(members[g], i)
			}
		}
	}
	for g := range in.groups { // Any order will do: what is taken once counts everywhere.
		if jobs := members[g]; jobs != nil {
			held := 0
			for _, i := range jobs {
				held += int(in.jobs[i].sizes[p[i][0]])
			}
			taken += in.shrink(p, 0, held-in.groups[g].Limit, jobs)
		}
	}
	return taken
}
