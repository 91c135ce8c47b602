package model

import (
	"errors"

	"github.com/elastalloc/elastalloc/solver/problem"
)

// Groups in the units of the search. Their limits are constraints, and nodes below their floors
// have a cost.

// errLimits is returned for a problem that was not admitted.
var errLimits = errors.New("the smallest sizes of the jobs of a group together exceed its limit")

// convertGroups converts the groups of a problem of one step and computes groupFree.
func (in *Instance) convertGroups(p *problem.Problem) error {
	if p.Steps != 1 {
		return errors.New("groups in a problem of more than one step")
	}
	in.Groups = p.Groups
	nodes := make([]int, len(p.Groups))
	for i := range p.Jobs {
		for g := p.Jobs[i].Group; g >= 0; g = p.Groups[g].Parent {
			nodes[g] += int(p.Jobs[i].Options[0].Nodes)
		}
	}
	room := p.HeadroomAtMinimum()
	if room.Exceeded() {
		return errLimits
	}
	for g := range p.Groups {
		if nodes[g] < p.Groups[g].Floor {
			in.QuotaPrice = p.QuotaPrice // otherwise no plan pays it
		}
		in.groupFree = append(in.groupFree, room.MaxNodes(problem.Member{Group: g}, 0))
	}
	return nil
}

// GroupNodes returns the number of nodes of every group in a plan.
func (in *Instance) GroupNodes(p *Plan) []int {
	nodes := make([]int, len(in.Groups))
	for i := range in.Jobs {
		j := &in.Jobs[i]
		for g := j.Group; g >= 0; g = in.Groups[g].Parent {
			nodes[g] += int(j.Sizes[p.Of(i)[0]])
		}
	}
	return nodes
}

// shortfall returns the cost of the nodes below the floors of groups in a plan.
func (in *Instance) shortfall(p *Plan) float64 {
	short := 0
	for g, nodes := range in.GroupNodes(p) {
		short += max(0, in.Groups[g].Floor-nodes)
	}
	return in.QuotaPrice * float64(short)
}

// ShrinkGroups reduces sizes in the groups that exceed their limits in a plan, and returns the
// number of nodes removed.
func (in *Instance) ShrinkGroups(p *Plan) (taken int) {
	nodes := in.GroupNodes(p)
	members := make(map[int][]int)
	for i := range in.Jobs {
		for g := in.Jobs[i].Group; g >= 0; g = in.Groups[g].Parent {
			if nodes[g] > in.Groups[g].Limit {
				members[g] = append(members[g], i)
			}
		}
	}
	for g := range in.Groups { // The order does not matter: a reduction counts in every group of the job.
		if jobs := members[g]; jobs != nil {
			used := 0
			for _, i := range jobs {
				used += int(in.Jobs[i].Sizes[p.Of(i)[0]])
			}
			taken += in.shrink(p, 0, used-in.Groups[g].Limit, jobs)
		}
	}
	return taken
}
