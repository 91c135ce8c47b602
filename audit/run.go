package audit

import (
	"cmp"
	"slices"
)

// A dynamic program keeps a limited number of states behind a row of a member; with more, it
// goes on with those of which most may be expected and proves nothing. So it is tried with an
// ever larger limit: a better plan is soon found, if there is one.
const (
	mostStates = 1 << 18
	mostTraces = 1 << 24 // of a run
	// What it takes to look at an arc from a state, and to look a state up.
	perArc, perState = 15, 250
)

// state is what the open members so far leave of the nodes of each row, where the paths of
// the last of them have come to, and the most that a plan is worth which goes on from there.
type state struct {
	stand
	most  int64
	trace int32 // in the trail
}

type stand struct {
	left   [mostSteps]int32
	vertex int32
}

// trace is the size that a state took, and the trace of the state before.
type trace struct {
	before int32
	size   uint16
}

// run is a dynamic program over the rows of the open members that keeps at most
// width states. It returns a plan that may be worth more than the target, nil if it has none, and
// whether all were kept.
func (s *search) run(width int) (plan [][]int, complete bool) {
	first := state{most: s.known()}
	for t := range s.ends {
		first.left[t] = int32(len(s.ends[t]) - 1)
	}
	states, trail := []state{first}, []trace{{}}
	complete = true
	for m, o := range s.open {
		rest := o.paths.most // As the last pass has gone back.
		for t, arcs := range o.paths.arcs {
			var next []state
			index := make(map[stand]int)
			last := t == len(o.rows)-1
			for _, from := range states {
				at, _ := slices.BinarySearchFunc(arcs, from.vertex, func(a arc, v int32) int { return cmp.Compare(a.from, v) })
				for ; at < len(arcs) && arcs[at].from == from.vertex; at++ {
					to, a, k := from, arcs[at], int32(o.member.sizes[arcs[at].size])
					s.spend(perArc)
					if to.left[t] -= k; to.left[t] < 0 || s.behind[m+1][t][to.left[t]] == never || rest[t+1][a.to] == never {
						continue
					}
					to.most += a.gain + rest[t+1][a.to] - rest[t][a.from]
					if to.most += s.behind[m+1][t][to.left[t]] - s.behind[m][t][from.left[t]]; to.most <= s.target {
						continue
					}
					if to.vertex = a.to; last {
						to.vertex = 0
					}
					s.spend(perState)
					other, seen := index[to.stand]
					if seen && next[other].most >= to.most {
						continue
					}
					trail = append(trail, trace{from.trace, a.size})
					to.trace = int32(len(trail) - 1)
					if !seen {
						other, next = len(next), append(next, to)
						index[to.stand] = other
					}
					next[other] = to
				}
				if len(next) > 2*mostStates || len(trail) > mostTraces {
					panic(stopped{"too many combinations of plans could be part of a better one"})
				}
			}
			states = next
			if len(states) > width {
				complete = false
				s.spend(perState * len(states))
				slices.SortFunc(states, func(a, b state) int { return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(a.trace, b.trace)) })
				states = states[:width]
			}
		}
	}
	if len(states) == 0 {
		return nil, complete
	}
	best := slices.MaxFunc(states, func(a, b state) int { return cmp.Compare(a.most, b.most) })
	plan = make([][]int, len(s.members))
	for i := range plan {
		plan[i] = make([]int, len(s.capacity))
	}
	for t, y := range s.layers {
		used := y.from
		for n := range best.left[t] + 1 {
			if y.at(y.from+int(n)) > y.at(used) {
				used = y.from + int(n)
			}
		}
		y.assign(plan, t, used)
	}
	at := trail[best.trace]
	for m := len(s.open) - 1; m >= 0; m-- {
		for t := len(s.capacity) - 1; t >= 0; t-- {
			o := s.open[m]
			plan[o.position][t] = o.member.sizes[at.size]
			at = trail[at.before]
		}
	}
	return plan, complete
}
