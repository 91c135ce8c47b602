package audit

import (
	"cmp"
	"slices"
)

const (
	mostStates = 1 << mostBits
	mostTraces = 1 << 24 // of a run
	// What it takes to look at an arc from a state, and to look a state up.
	perArc, perState = 15, 250
)

// state is what the plans that the open members have so far come to, and the most that one is
// worth which goes on from there.
type state struct {
	stand
	most  int64
	trace int32 // in the trail
}

// stand is, of a run member by member, how many nodes of each row are used and, last, the place of the
// member; of one row by row, the place of each member and, last, how many nodes of the row are used.
type stand [mostSteps + 1]int32

// place is what a plan of a member has come to: a vertex of its paths, and all the work that it has
// served there, which the vertex may round.
type place struct {
	vertex int32
	served int64
}

// trace is the size that a state took, and the trace of the state before.
type trace struct {
	before int32
	size   uint16
}

// cell is a row of an open member, and where it is found in a stand.
type cell struct{ m, t, place, used int }

// run is a dynamic program over the rows of the open members, member by member or row by row. It keeps
// a limited number of states behind a cell; with more, it goes on with those of which most may be expected
// and proves nothing.
type run struct {
	*search
	cells  []cell
	states []state
	trail  []trace
	places [][]place         // by member, of the row that it has come to
	index  []map[place]int32 // places
}

// run keeps at most width states. It returns a plan that may be worth more than the target, nil if it has
// none, and whether all were kept.
func (s *search) run(width int, byRow bool) (plan [][]int, complete bool) {
	r := s.newRun(byRow)
	complete = true
	for n := range r.cells {
		r.step(n)
		if len(r.states) > width {
			complete = false
			s.spend(perState * len(r.states))
			slices.SortFunc(r.states, func(a, b state) int { return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(a.trace, b.trace)) })
			r.states = r.states[:width]
		}
	}
	if len(r.states) == 0 {
		return nil, complete
	}
	best := slices.MaxFunc(r.states, func(a, b state) int { return cmp.Compare(a.most, b.most) })
	return r.plan(best.trace), complete
}

func (s *search) newRun(byRow bool) *run {
	r := &run{search: s, states: []state{{most: s.known()}}, trail: []trace{{}}}
	for range s.open {
		r.places, r.index = append(r.places, []place{{}}), append(r.index, nil)
	}
	for n := range len(s.open) * len(s.ends) {
		if byRow {
			r.cells = append(r.cells, cell{n % len(s.open), n / len(s.open), n % len(s.open), mostSteps})
		} else {
			r.cells = append(r.cells, cell{n / len(s.ends), n % len(s.ends), mostSteps, n % len(s.ends)})
		}
	}
	return r
}

// step has the states take the sizes of a cell.
func (r *run) step(n int) {
	c, s := r.cells[n], r.search
	o, last := s.open[c.m], c.t == len(s.ends)-1
	all := int32(len(s.ends[c.t]) - 1)
	before, rest := r.places[c.m], o.paths.most // As the last pass has gone back.
	r.places[c.m], r.index[c.m] = nil, make(map[place]int32)
	var next []state
	index := make(map[stand]int)
	for _, from := range r.states {
		at := before[from.stand[c.place]]
		arcs := o.paths.arcs[c.t]
		a, _ := slices.BinarySearchFunc(arcs, at.vertex, func(a arc, v int32) int { return cmp.Compare(a.from, v) })
		for ; a < len(arcs) && arcs[a].from == at.vertex; a++ {
			to, arc := from, arcs[a]
			if at.served >= done && arc.size > 0 {
				continue // All but the smallest only take nodes.
			}
			left := all - from.stand[c.used] - int32(o.member.sizes[arc.size])
			s.spend(perArc)
			if left < 0 || s.behind[c.m+1][c.t][left] == never || rest[c.t+1][arc.to] == never {
				continue
			}
			then := place{vertex: arc.to}
			gain := arc.gain
			if !o.byStep && !s.several() {
				then.served = o.serve(at.served, c.t, int(arc.size))
				gain = o.gain(then.served)
			}
			to.most += gain + rest[c.t+1][arc.to] - rest[c.t][arc.from]
			if to.most += s.behind[c.m+1][c.t][left] - s.behind[c.m][c.t][all-from.stand[c.used]]; to.most <= s.target {
				continue
			}
			if last {
				then = place{}
			}
			to.stand[c.used], to.stand[c.place] = all-left, r.find(c.m, then)
			if c.m == len(s.open)-1 {
				to.stand[c.used] = 0 // What is left of the row is the layer's.
			}
			s.spend(perState)
			other, seen := index[to.stand]
			if seen && next[other].most >= to.most {
				continue
			}
			r.trail = append(r.trail, trace{from.trace, arc.size})
			to.trace = int32(len(r.trail) - 1)
			if !seen {
				other, next = len(next), append(next, to)
				index[to.stand] = other
			}
			next[other] = to
		}
		if len(next) > 2*mostStates || len(r.trail) > mostTraces {
			panic(stopped{"too many combinations of plans could be part of a better one"})
		}
	}
	r.states = next
}

// find returns the number of a place of a member.
func (r *run) find(m int, at place) int32 {
	n, there := r.index[m][at]
	if !there {
		n = int32(len(r.places[m]))
		r.places[m], r.index[m][at] = append(r.places[m], at), n
	}
	return n
}

// plan returns the plan that a trace is of.
func (r *run) plan(at int32) [][]int {
	plan, left := make([][]int, len(r.members)), make([]int, len(r.ends))
	for i := range plan {
		plan[i] = make([]int, len(r.capacity))
	}
	for t, ends := range r.ends {
		left[t] = len(ends) - 1
	}
	for _, c := range slices.Backward(r.cells) {
		o := r.open[c.m]
		k := o.member.sizes[r.trail[at].size]
		plan[o.position][c.t] = k
		left[c.t] -= k
		at = r.trail[at].before
	}
	for t, y := range r.layers {
		used := y.from
		for n := range left[t] + 1 {
			if y.at(y.from+n) > y.at(used) {
				used = y.from + n
			}
		}
		y.assign(plan, t, used)
	}
	return plan
}
