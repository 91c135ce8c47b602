package audit

import "slices"

// fewestBits are those that a search begins with, mostBits those that it ends with.
const fewestBits, mostBits = 10, 18

// perVertex is how many numbers a vertex takes while its row is built.
const perVertex = 8

// plans are those of a member that may be part of a better one.
type plans struct {
	*search
	*member
	position int
	// add is what each size adds in each row: what the member is paid for it, minus what it pays, of
	// either sign; never for sizes that are in no plan.
	add   [][]int64
	most  int64 // at least what any plan is worth with that, at first
	paths *paths
	kept  int64 // the most that any of the paths is worth with it
}

// label is work served and a value that a plan of a member has by then.
type label struct{ served, value int64 }

// best returns at least what any plan is worth, by labels, of which none has less of both than another.
func (p *plans) best() (most int64) {
	if p.byStep || p.several() {
		return p.whole().behind(p)[0][0]
	}
	labels := []label{{}}
	for t := range p.steps {
		var next []label
		for _, n := range p.usable[t] {
			taken := slices.Clone(labels)
			for i, from := range labels {
				served := p.serve(from.served, t, n)
				taken[i] = label{served, from.value + p.gain(served) + p.add[t][n]}
			}
			next = merge(next, taken)
			p.spend(4 * (len(next) + len(taken)))
		}
		if labels = next; len(labels) > 1<<(p.bits+4) { // They are merged in pairs, upwards.
			for n := 0; 2*n < len(labels); n++ {
				labels[n] = label{labels[2*n].served, labels[min(2*n+1, len(labels)-1)].value}
			}
			labels = labels[:(len(labels)+1)/2]
		}
	}
	return labels[len(labels)-1].value
}

// merge merges labels in the order of less work, without those that have less value, too, than one before.
func merge(a, b []label) (merged []label) {
	merged = make([]label, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0].served > a[0].served {
			from = &b
		}
		l := (*from)[0]
		*from = (*from)[1:]
		last := len(merged) - 1
		if last >= 0 && l.value <= merged[last].value {
			continue
		}
		if last >= 0 && l.served == merged[last].served {
			merged = merged[:last]
		}
		merged = append(merged, l)
	}
	return merged
}

// follow returns a table of at least what can follow, by step but the first and by work served, in
// cells of 2^shift units rounded up.
func (p *plans) follow() (table [][]int64, shift int) {
	if shift = workBits - 8; p.steps > 6 {
		shift = workBits - 11
	}
	cells := int(done>>shift) + 1
	table = make([][]int64, p.steps+1)
	table[p.steps] = make([]int64, cells)
	for t := p.steps - 1; t > 0; t-- {
		table[t] = slices.Repeat([]int64{never}, cells)
		for at := range table[t] {
			for _, n := range p.usable[t] {
				served := p.serve(int64(at)<<shift, t, n)
				then := (served + 1<<shift - 1) >> shift
				table[t][at] = max(table[t][at], p.gain(served)+p.add[t][n]+table[t+1][then])
			}
		}
		p.spend(2 * cells * len(p.usable[t]))
	}
	return table, shift
}

// paths are plans of a member: the ways from the first of some vertices to the last ones. A
// vertex is what a plan has come to after a row, the work served, or nodes of a type; plans
// that have come to the same go on alike.
type paths struct {
	rounded  bool    // the work served is rounded up
	vertices []int   // by rows taken
	arcs     [][]arc // by row, in the order of their beginnings
	// most is, by rows taken and vertex, the most that a plan is worth up to there, or from there on: on the
	// side that the last pass came from.
	most [][]int64
}

// arc is a size in a row, by its position, from a vertex to one behind the row, and what that
// adds.
type arc struct {
	gain     int64
	from, to int32
	size     uint16
}

// whole returns all plans of a member to which its rows are worth the same whatever it has been
// served: of one that is byStep, or that holds nodes in one row at most. There, the second vertex is
// that of plans that do already.
func (p *plans) whole() *paths {
	g := &paths{vertices: []int{1}}
	for t := range p.rows {
		var arcs []arc
		last := t == len(p.rows)-1
		if !p.byStep && !last {
			arcs = append(arcs, arc{})
		}
		for _, n := range p.usable[t] {
			if p.byStep || p.member.sizes[n] == 0 && last && p.waits {
				arcs = append(arcs, arc{gain: p.stepValue(p.member, t, n), size: uint16(n)})
			} else if p.member.sizes[n] > 0 {
				arcs = append(arcs, arc{p.stepValue(p.member, t, n), 0, 1, uint16(n)})
			}
		}
		if !p.byStep && t > 0 {
			arcs = append(arcs, arc{from: 1, to: 1})
		}
		p.keep(2 * len(arcs))
		g.vertices, g.arcs = append(g.vertices, 2), append(g.arcs, arcs)
	}
	return g
}

// single reports whether there is one plan, and what that is worth is known.
func (g *paths) single() bool {
	return !g.rounded && !slices.ContainsFunc(g.arcs, func(arcs []arc) bool { return len(arcs) != 1 })
}

// above returns the plans that are worth more than least.
func (p *plans) above(least int64) *paths {
	if p.byStep || p.several() {
		g := p.whole()
		g.cut(p, least)
		return g
	}
	numbers := p.numbers
	g := p.list(least, 0)
	if g == nil {
		p.numbers = numbers
		g = p.list(least, workBits-p.bits)
	}
	g.cut(p, least)
	return g
}

// list returns plans that may be worth more than least, the work served by the end of each step
// rounded up by some bits; nil if that are none, and vertices too many.
func (p *plans) list(least int64, grain int) *paths {
	table, shift := p.follow()
	g, vertices, value := &paths{rounded: grain > 0, vertices: []int{1}}, []int64{0}, []int64{0}
	for t := range p.steps {
		var served, next []int64
		var arcs []arc
		index := make(map[int64]int32)
		for from, before := range vertices {
			arcsHad, verticesHad, usable := len(arcs), len(served), p.usable[t]
			if before >= done && grain == 0 {
				usable = usable[:1] // All but the smallest only take nodes. One that only rounding has finished may need them.
			}
			for _, n := range usable {
				to := (p.serve(before, t, n) + 1<<grain - 1) >> grain << grain
				gain := p.gain(to)
				v := value[from] + gain + p.add[t][n]
				if v+table[t+1][(to+1<<shift-1)>>shift] <= least {
					continue
				}
				at, seen := index[to]
				if !seen {
					at = int32(len(served))
					index[to], served, next = at, append(served, to), append(next, v)
				}
				next[at] = max(next[at], v)
				arcs = append(arcs, arc{gain, int32(from), at, uint16(n)})
			}
			p.spend(10 * len(p.usable[t]))
			p.keep(2*(len(arcs)-arcsHad) + perVertex*(len(served)-verticesHad))
			if grain == 0 && len(served) > 1<<p.bits {
				return nil
			}
		}
		p.numbers += (perVertex - 1) * len(served)
		g.vertices, g.arcs = append(g.vertices, len(served)), append(g.arcs, arcs)
		vertices, value = served, next
	}
	return g
}

// behind returns the most that can follow, by rows taken and vertex.
func (g *paths) behind(p *plans) [][]int64 {
	g.most = make([][]int64, len(g.vertices))
	for t, vertices := range g.vertices {
		g.most[t] = make([]int64, vertices)
	}
	for t := len(g.arcs) - 1; t >= 0; t-- {
		g.pass(p, t, true)
	}
	return g.most
}

// begin prepares passes from the first row on, or back from the last.
func (g *paths) begin(back bool) {
	if back {
		clear(g.most[len(g.arcs)])
	} else {
		clear(g.most[0])
	}
}

// pass takes what plans are worth on one side of a row to the other, on or back.
func (g *paths) pass(p *plans, t int, back bool) {
	before, next := g.most[t], g.most[t+1]
	if back {
		before, next = next, before
	}
	for n := range next {
		next[n] = never
	}
	for _, a := range g.arcs[t] {
		from, to := a.from, a.to
		if back {
			from, to = to, from
		}
		if add := p.add[t][a.size]; add != never && before[from] != never {
			next[to] = max(next[to], before[from]+a.gain+add)
		}
	}
	p.spend(4 * (len(g.arcs[t]) + len(next)))
	within(next)
}

// cut leaves those arcs that plans which are worth more than least go through, and returns
// the most that one is worth which goes through each size in each row.
func (g *paths) cut(p *plans, least int64) (most [][]int64) {
	g.behind(p)
	g.begin(false)
	for t := range g.arcs {
		most = append(most, g.narrow(p, t, p.add[t], least))
		g.pass(p, t, false)
	}
	return most
}

// narrow does so in the row that passes have come to, the sizes of which add what is given.
func (g *paths) narrow(p *plans, t int, adds []int64, least int64) (most []int64) {
	most = slices.Repeat([]int64{never}, len(adds))
	before, behind, kept := g.most[t], g.most[t+1], g.arcs[t][:0]
	for _, a := range g.arcs[t] {
		if before[a.from] == never || adds[a.size] == never || behind[a.to] == never {
			continue
		}
		if v := before[a.from] + a.gain + adds[a.size] + behind[a.to]; v > least {
			most[a.size] = max(most[a.size], v)
			kept = append(kept, a)
		}
	}
	p.spend(4 * len(g.arcs[t]))
	g.arcs[t] = kept
	return most
}
