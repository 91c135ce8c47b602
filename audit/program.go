package audit

import (
	"cmp"
	"slices"
)

const (
	maxStates = 1 << maxPrecision
	maxTrail  = 1 << 24 // back-pointers of a program
	// Operations to extend a state by an arc, and to look a state up.
	workPerArc, workPerState = 15, 250
)

// state is a set of partial plans of the open members that have the same continuations.
type state struct {
	stateKey
	bound int64 // upper bound of the value of a complete plan
	trail int32 // the back-pointer of the best partial plan
}

// stateKey identifies a state. Member by member, it contains the nodes used in each row and, last,
// the position of the member. Row by row, it contains the position of each member and, last, the nodes
// used in the row.
type stateKey [maxSteps + 1]int32

// position is the state of one member: a vertex of its paths, and its work without the rounding of
// the vertex.
type position struct {
	vertex int32
	work   int64
}

// backPointer is the size that a member takes in a stage, and the back-pointer of the stage before.
type backPointer struct {
	before int32
	size   uint16
}

// stage is a row of an open member, with the indices of the member's position and of the row's nodes
// in a stateKey.
type stage struct{ m, t, position, used int }

// program is a dynamic program over the rows of the open members, member by member or row by row.
type program struct {
	*search
	stages []stage
	states []state
	trail  []backPointer
	// demand is, by member and row, the maximum number of nodes that this member and those after it can use
	// together with the layer. More nodes are equivalent.
	demand    [][]int
	positions [][]position         // of each member, in the row that it has reached
	index     []map[position]int32 // in positions
}

// run runs a dynamic program with at most width states after each stage. If there are more, it keeps
// those with the highest bounds and returns complete false. It returns a plan whose value may exceed the
// target, or nil if it finds none.
func (s *search) run(width int, byRow bool) (plan [][]int, complete bool) {
	p := s.newProgram(byRow)
	complete = true
	for n := range p.stages {
		p.advance(n)
		if len(p.states) > width {
			complete = false
			s.spend(workPerState * len(p.states))
			slices.SortFunc(p.states, func(a, b state) int { return cmp.Or(cmp.Compare(b.bound, a.bound), cmp.Compare(a.trail, b.trail)) })
			p.states = p.states[:width]
		}
	}
	if len(p.states) == 0 {
		return nil, complete
	}
	best := slices.MaxFunc(p.states, func(a, b state) int { return cmp.Compare(a.bound, b.bound) })
	return p.backtrack(best.trail), complete
}

func (s *search) newProgram(byRow bool) *program {
	p := &program{search: s, states: []state{{bound: s.currentBound()}}, trail: []backPointer{{}}}
	p.demand = make([][]int, len(s.open)+1)
	for _, best := range s.layerBest {
		p.demand[len(s.open)] = append(p.demand[len(s.open)], slices.Index(best, best[len(best)-1]))
	}
	for m, c := range slices.Backward(s.open) {
		for t, adjust := range c.adjust {
			largest := 0
			for n, v := range adjust {
				if v != infeasible {
					largest = max(largest, s.consumption(c.member, t, n))
				}
			}
			p.demand[m] = append(p.demand[m], p.demand[m+1][t]+largest)
		}
	}
	for range s.open {
		p.positions, p.index = append(p.positions, []position{{}}), append(p.index, nil)
	}
	for n := range len(s.open) * len(s.layerBest) {
		if byRow {
			p.stages = append(p.stages, stage{n % len(s.open), n / len(s.open), n % len(s.open), maxSteps})
		} else {
			p.stages = append(p.stages, stage{n / len(s.layerBest), n % len(s.layerBest), maxSteps, n % len(s.layerBest)})
		}
	}
	return p
}

// frontier is the states after a stage, with different keys.
type frontier struct {
	states []state
	index  map[stateKey]int // in states
}

// advance extends the states by the sizes of a stage.
func (p *program) advance(n int) {
	g, s := p.stages[n], p.search
	c, last := s.open[g.m], g.t == len(s.layerBest)-1
	width := int32(len(s.layerBest[g.t]) - 1)
	reached, values := p.positions[g.m], c.paths.values // The last propagation has gone back.
	p.positions[g.m], p.index[g.m] = nil, make(map[position]int32)
	next := frontier{index: make(map[stateKey]int)}
	for n := range p.states {
		from := &p.states[n]
		at := reached[from.stateKey[g.position]]
		for _, arc := range arcsFrom(c.paths.arcs[g.t], at.vertex) {
			if at.work >= allWork && arc.size > 0 {
				continue // A finished job keeps its smallest size.
			}
			left := width - from.stateKey[g.used] - int32(s.consumption(c.member, g.t, int(arc.size)))
			s.spend(workPerArc)
			if left < 0 || s.suffix[g.m+1][g.t][left] == infeasible || values[g.t+1][arc.to] == infeasible {
				continue
			}
			then := position{vertex: arc.to}
			value := arc.value
			if !c.separable && !s.coupled() {
				then.work = c.workAfter(at.work, g.t, int(arc.size))
				value = c.completionGain(then.work)
			}
			bound := from.bound + value + values[g.t+1][arc.to] - values[g.t][arc.from] +
				s.suffix[g.m+1][g.t][left] - s.suffix[g.m][g.t][width-from.stateKey[g.used]]
			if bound <= s.target {
				continue
			}
			if last {
				then = position{}
			}
			to := state{stateKey: from.stateKey, bound: bound}
			to.stateKey[g.used] = width - min(left, int32(p.demand[g.m+1][g.t]))
			to.stateKey[g.position] = p.positionIndex(g.m, then)
			if g.m == len(s.open)-1 {
				to.stateKey[g.used] = 0 // The layer has the nodes that are left in the row.
			}
			s.spend(workPerState)
			p.keep(&next, &to, backPointer{from.trail, arc.size})
		}
		if len(next.states) > 2*maxStates || len(p.trail) > maxTrail {
			panic(aborted{"too many combinations of plans could be part of a better one"})
		}
	}
	p.states = next.states
}

// arcsFrom returns the arcs from a vertex. The arcs of a row are in the order of their vertices.
func arcsFrom(arcs []arc, vertex int32) []arc {
	first, _ := slices.BinarySearchFunc(arcs, vertex, func(a arc, v int32) int { return cmp.Compare(a.from, v) })
	end := first
	for end < len(arcs) && arcs[end].from == vertex {
		end++
	}
	return arcs[first:end]
}

// keep adds a state that by leads to, or replaces the state with the same key if its bound is lower.
func (p *program) keep(next *frontier, to *state, by backPointer) {
	other, seen := next.index[to.stateKey]
	if seen && next.states[other].bound >= to.bound {
		return
	}
	p.trail = append(p.trail, by)
	to.trail = int32(len(p.trail) - 1)
	if !seen {
		next.index[to.stateKey], next.states = len(next.states), append(next.states, *to)
		return
	}
	next.states[other] = *to
}

// positionIndex returns the index of a position of a member.
func (p *program) positionIndex(m int, at position) int32 {
	n, seen := p.index[m][at]
	if !seen {
		n = int32(len(p.positions[m]))
		p.positions[m], p.index[m][at] = append(p.positions[m], at), n
	}
	return n
}

// backtrack returns the plan of a back-pointer.
func (p *program) backtrack(at int32) [][]int {
	plan, left := make([][]int, len(p.members)), make([]int, len(p.layerBest))
	for i := range plan {
		plan[i] = make([]int, len(p.capacity))
	}
	for t, row := range p.layerBest {
		left[t] = len(row) - 1
	}
	for _, g := range slices.Backward(p.stages) {
		c := p.open[g.m]
		n := int(p.trail[at].size)
		plan[c.position][g.t] = c.sizes[n]
		left[g.t] -= p.consumption(c.member, g.t, n)
		at = p.trail[at].before
	}
	for t, y := range p.layers {
		used := y.from
		for n := range left[t] + 1 {
			if y.at(y.from+n) > y.at(used) {
				used = y.from + n
			}
		}
		y.assign(plan, t, used)
	}
	if p.coupled() {
		for i := range plan { // The rows of the types determine the others.
			on := max(0, slices.IndexFunc(plan[i][:len(p.nodes)], func(k int) bool { return k > 0 }))
			plan[i] = p.usageByRow(p.members[i].job, on, plan[i][on])
		}
	}
	return plan
}
