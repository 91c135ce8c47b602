package explain

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// pin returns p with a penalty on all options of a job in the first step except one. If the penalty
// exceeds the loss of that option, an optimal plan gives it to the job. job and size are indices in
// Problem.Jobs and in its Options.
func pin(p *problem.Problem, job, size int, penalty float64) *problem.Problem {
	pinned := *p
	pinned.Jobs = slices.Clone(p.Jobs)
	j := &pinned.Jobs[job]
	values := make([]float64, len(j.Options))
	copy(values, j.OptionValue)
	for k := range values {
		if k != size {
			values[k] -= penalty
		}
	}
	j.OptionValue = values
	return &pinned
}

// planWithSize returns the plan with another size of a job in the first step. A greedy rule reduces
// other jobs in the first step where that costs least. It returns false if it finds no such plan.
func planWithSize(p *problem.Problem, plan problem.Plan, job, size int) (problem.Plan, bool) {
	pinned := plan.Clone()
	pinned[job][0] = p.Jobs[job].Options[size]
	headroom := p.Headroom()
	for i := range pinned {
		headroom.Allocate(p.Jobs[i].Member, pinned[i][0])
	}
	for headroom.Exceeded() {
		best, at, to := 0.0, -1, solver.Option{}
		for i := range pinned {
			now, member := pinned[i][0], p.Jobs[i].Member
			over := headroom.Excess(member, now)
			if i == job || over <= 0 {
				continue
			}
			value := p.Jobs[i].Value(pinned[i])
			for _, k := range p.Jobs[i].Options {
				headroom.Release(member, now)
				legal := k.Type == now.Type || headroom.Fits(member, k)
				headroom.Allocate(member, k)
				frees := over - headroom.Excess(member, now)
				headroom.Release(member, k)
				headroom.Allocate(member, now)
				if !legal || frees <= 0 {
					continue
				}
				pinned[i][0] = k
				cost := (value - p.Jobs[i].Value(pinned[i])) / float64(min(frees, over))
				pinned[i][0] = now
				if at < 0 || cost < best {
					best, at, to = cost, i, k
				}
			}
		}
		if at < 0 {
			return nil, false
		}
		headroom.Release(p.Jobs[at].Member, pinned[at][0])
		headroom.Allocate(p.Jobs[at].Member, to)
		pinned[at][0] = to
	}
	return pinned, p.Check(pinned) == nil
}

// fits reports whether an option of a job of the problem fits in addition to the smallest sizes of the
// other jobs. position is the index of the option. With node types, this is a packing problem, which
// fits solves with two heuristics.
func (e *explainer) fits(job, position int) bool {
	p := e.problem
	option := p.Jobs[job].Options[position]
	if !p.Rows.Typed() {
		member, smallest := p.Jobs[job].Member, p.MinOption(job)
		e.headroom.Release(member, smallest)
		defer e.headroom.Allocate(member, smallest)
		return e.headroom.Fits(member, option)
	}
	_, legal := planStartingWith(p, job, option)
	if !legal {
		_, legal = planWithSize(p, e.plan, job, position)
	}
	return legal
}

// planStartingWith returns a plan of a problem with rows in which a job has the given option. In order
// of decreasing size, the other jobs get the option that the admission found for them or, if it does
// not fit, the first of their options that fits. It returns false if no option of a job fits.
func planStartingWith(p *problem.Problem, job int, option solver.Option) (problem.Plan, bool) {
	plan, headroom := problem.NewPlan(len(p.Jobs), p.Steps), p.Headroom()
	allocate := func(i int, option solver.Option) bool {
		plan[i][0] = option
		headroom.Allocate(p.Jobs[i].Member, option)
		return !headroom.Exceeded()
	}
	if !allocate(job, option) {
		return nil, false
	}
	order := make([]int, len(p.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int {
		return cmp.Compare(p.FeasibleOptions[k].Nodes, p.FeasibleOptions[i].Nodes)
	})
	for _, i := range order {
		chosen := p.FeasibleOptions[i]
		fits := func(k solver.Option) bool { return headroom.Fits(p.Jobs[i].Member, k) }
		if !fits(chosen) {
			if n := slices.IndexFunc(p.Jobs[i].Options, fits); n >= 0 {
				chosen = p.Jobs[i].Options[n]
			}
		}
		if i != job && !allocate(i, chosen) {
			return nil, false
		}
	}
	return plan, true
}

// changeCost returns the cost of the change to the first of the given options, one per step, in the
// value of a job.
func changeCost(j *problem.AdmittedJob, options []solver.Option) float64 {
	unchanged := *j
	unchanged.FirstStepWork = j.StepWork
	cost := unchanged.Value(options) - j.Value(options)
	if n := slices.Index(j.Options, options[0]); n >= 0 && j.ChangeCost != nil {
		cost += j.ChangeCost[n]
	}
	return cost
}
