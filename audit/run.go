package audit

import (
	"cmp"
	"slices"
)

// mostStates is how many states are kept behind a job; with more, the best of them are
// searched for a better plan and the search proves nothing.
const mostStates = 1 << 14

// nodes are nodes per step.
type nodes [mostSteps]int32

// state is the nodes that the open jobs so far leave, and what they lose.
type state struct {
	left  nodes
	loss  int64 // what is certain
	least int64 // with what is sure to follow
	from  int32 // the state before
	plan  int32 // of the last job
}

// run is a dynamic program over the open jobs. It returns a solution that loses less than
// the cut, nil if there is none.
func (s *horizon) run() [][]int {
	kept := int64(0)
	for _, o := range s.open {
		kept += o.kept
	}
	first := state{loss: s.fixed}
	for t, left := range s.left {
		first.left[t] = int32(left)
	}
	levels := [][]state{{first}}
	truncated := false
	for n, o := range s.open {
		kept -= o.kept
		var next []state
		at := make(map[nodes]int32)
		for from, before := range levels[n] {
			s.spend(len(o.plans) * (2 + s.steps))
			for p, plan := range o.plans {
				to := state{left: before.left, loss: before.loss + plan.loss, from: int32(from), plan: int32(p)}
				to.least = to.loss + kept
				for t, k := range plan.sizes {
					to.left[t] -= int32(s.jobs[o.job].sizes[k])
					follow := int64(infinite)
					if left := int(to.left[t]); left >= 0 && left < len(s.back[n+1][t]) {
						follow = s.back[n+1][t][left]
					}
					if to.least += follow; follow == infinite {
						to.least = infinite
						break
					}
				}
				if to.least >= s.cut {
					continue
				}
				if other, seen := at[to.left]; !seen {
					if len(next) == 8*mostStates {
						truncated, next = true, thin(next)
						clear(at)
						for n := range next {
							at[next[n].left] = int32(n)
						}
					}
					at[to.left] = int32(len(next))
					next = append(next, to)
				} else if to.loss < next[other].loss {
					next[other] = to
				}
			}
			s.spend(20 * len(at) / (len(levels[n]) + 1))
		}
		if len(next) > mostStates {
			truncated, next = true, thin(next)
		}
		levels = append(levels, next)
	}
	last := levels[len(levels)-1]
	if len(last) == 0 {
		if truncated {
			panic(stopped{"too many combinations of plans could be part of a better one"})
		}
		return nil
	}
	best := slices.MinFunc(last, func(a, b state) int { return cmp.Compare(a.least, b.least) })
	return s.assemble(levels, best)
}

// thin returns those states of which most may be expected.
func thin(states []state) []state {
	slices.SortFunc(states, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.least, b.least), slices.Compare(a.left[:], b.left[:]))
	})
	return slices.Clone(states[:mostStates])
}

// assemble returns the plans of all jobs at a state behind the last open one.
func (s *horizon) assemble(levels [][]state, at state) [][]int {
	for t, y := range s.byStep {
		_, used := y.within(int(at.left[t]), s.leaf.prices[t])
		for n, o := range y.choices(used) {
			s.plan[s.things[t][n]][t] = o
		}
	}
	for n := len(s.open) - 1; n >= 0; n-- {
		o := s.open[n]
		for t, k := range o.plans[at.plan].sizes {
			s.plan[o.job][t] = s.jobs[o.job].sizes[k]
		}
		at = levels[n][at.from]
	}
	return s.plan
}
