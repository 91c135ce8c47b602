package explain

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// pin returns p with the value of every size of a job in the first step less by a penalty,
// but for one: where the penalty exceeds what holding that size costs, it is the one that an
// optimal plan gives the job now. job and size are positions in Problem.Jobs and in Sizes.
func pin(p *solver.Problem, job, size int, penalty float64) *solver.Problem {
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

// repin returns the plan with a job at a size in the first step, where other jobs give up
// what that takes in the first step as cheaply as a simple rule finds; false if it finds no
// such plan.
func repin(p *solver.Problem, plan solver.Plan, job, size int) (solver.Plan, bool) {
	pinned := plan.Clone()
	pinned[job][0] = p.Jobs[job].Options[size]
	room := p.Headroom()
	for i := range pinned {
		room.Allocate(p.Jobs[i].Member, pinned[i][0])
	}
	for room.Exceeded() {
		best, at, to := 0.0, -1, solver.Option{}
		for i := range pinned {
			now, member := pinned[i][0], p.Jobs[i].Member
			over := room.Excess(member, now)
			if i == job || over <= 0 {
				continue
			}
			worth := p.Jobs[i].Value(pinned[i])
			for _, k := range p.Jobs[i].Options {
				room.Release(member, now)
				legal := k.Type == now.Type || room.Fits(member, k)
				room.Allocate(member, k)
				frees := over - room.Excess(member, now)
				room.Release(member, k)
				room.Allocate(member, now)
				if !legal || frees <= 0 {
					continue
				}
				pinned[i][0] = k
				cost := (worth - p.Jobs[i].Value(pinned[i])) / float64(min(frees, over))
				pinned[i][0] = now
				if at < 0 || cost < best {
					best, at, to = cost, i, k
				}
			}
		}
		if at < 0 {
			return nil, false
		}
		room.Release(p.Jobs[at].Member, pinned[at][0])
		room.Allocate(p.Jobs[at].Member, to)
		pinned[at][0] = to
	}
	return pinned, p.Check(pinned) == nil
}

// fits reports whether an option of a job of the problem, by its position, fits beside what the
// other jobs must have. Of several types that is packing, so two simple rules look for a plan.
func (e *explainer) fits(job, position int) bool {
	p := e.problem
	option := p.Jobs[job].Options[position]
	if !p.Rows.Typed() {
		member, least := p.Jobs[job].Member, p.MinOption(job)
		e.room.Release(member, least)
		defer e.room.Allocate(member, least)
		return e.room.Fits(member, option)
	}
	_, legal := startWith(p, job, option)
	if !legal {
		_, legal = repin(p, e.plan, job, position)
	}
	return legal
}

// startWith returns a plan of a problem with rows that gives a job an option and the
// others, the largest first, what the admission found that they can have or, where there is no
// room for that, the first of their options that there is room for; false if a job finds none.
func startWith(p *solver.Problem, job int, option solver.Option) (solver.Plan, bool) {
	plan, room := solver.NewPlan(len(p.Jobs), p.Steps), p.Headroom()
	take := func(i int, option solver.Option) bool {
		plan[i][0] = option
		room.Allocate(p.Jobs[i].Member, option)
		return !room.Exceeded()
	}
	if !take(job, option) {
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
		held := p.FeasibleOptions[i]
		fits := func(k solver.Option) bool { return room.Fits(p.Jobs[i].Member, k) }
		if !fits(held) {
			if n := slices.IndexFunc(p.Jobs[i].Options, fits); n >= 0 {
				held = p.Jobs[i].Options[n]
			}
		}
		if i != job && !take(i, held) {
			return nil, false
		}
	}
	return plan, true
}

// costOfChange returns how much more a job's part of the objective with the given options, one
// per step, would be if the change to the first of them cost nothing.
func costOfChange(j *solver.AdmittedJob, options []solver.Option) float64 {
	free := *j
	free.FirstStepWork = j.StepWork
	cost := free.Value(options) - j.Value(options)
	if n := slices.Index(j.Options, options[0]); n >= 0 && j.ChangeCost != nil {
		cost += j.ChangeCost[n]
	}
	return cost
}
