package audit

import "slices"

// option is one way to use nodes in a row, and what it is worth.
type option struct {
	nodes int
	value int64
}

// layer is the most that items are worth in a row by the nodes that they use, from `from`
// on: base and a value each, never where that many cannot be used.
type layer struct {
	from  int
	base  int64
	value []int64
	// The last item, its options, and the layer of those before it; nil where there is none.
	// It is a member, or a group with its layer.
	before  *layer
	options []option
	member  int
	group   *layer
}

// at returns what a layer is worth with the given nodes.
func (y *layer) at(nodes int) int64 {
	if n := nodes - y.from; n >= 0 && n < len(y.value) && y.value[n] != never {
		return y.base + y.value[n]
	}
	return never
}

// add adds an item to a layer, up to the given nodes.
func (s *search) add(before *layer, item layer, most int) *layer {
	y := &item
	y.before = before
	if len(y.options) == 0 {
		return y
	}
	first, last := y.options[0], y.options[len(y.options)-1]
	y.from = before.from + first.nodes
	width := max(0, min(most-y.from+1, len(before.value)+last.nodes-first.nodes))
	if len(y.options) == 1 {
		if y.base = before.base + first.value; y.base > never/2 {
			y.value = before.value[:min(width, len(before.value))]
		}
		return y
	}
	s.keep(width)
	y.base, y.value = before.base, slices.Repeat([]int64{never}, width)
	for _, o := range y.options {
		shift := o.nodes - first.nodes
		for n, v := range before.value[:max(0, min(len(before.value), width-shift))] {
			// What is far below all that may be gained gains nothing.
			if v += o.value; v > y.value[n+shift] && v > never/4 {
				y.value[n+shift] = v
			}
		}
		s.spend(len(before.value))
	}
	return y
}

// table returns the layer of a group in a row, of the pool where g is -1: its members that are worth
// what they are row by row, or have one plan, and the groups in it, which lose what their nodes are short of their floors.
func (s *search) table(t, g int) *layer {
	most := s.width[t]
	if g >= 0 {
		most = min(most, s.groups[g].limit)
	}
	y := &layer{value: []int64{0}}
	for _, i := range s.own[g+1] {
		if p := s.plans[i]; p.byStep || p.paths != nil && p.paths.single() {
			item := layer{member: i}
			for _, a := range p.paths.arcs[t] {
				item.options = append(item.options, option{p.member.sizes[a.size], a.gain})
			}
			y = s.add(y, item, most)
		}
	}
	for _, inner := range s.inner[g+1] {
		within := s.table(t, inner)
		item := layer{group: within}
		s.keep(2 * len(within.value))
		for n := range within.value {
			nodes := within.from + n
			if v := within.at(nodes); v != never {
				v -= s.shortCost(inner, nodes)
				item.options = append(item.options, option{nodes, v})
			}
		}
		y = s.add(y, item, most)
	}
	return y
}

// assign gives the members of a layer their nodes, which add up to nodes, in row t of a plan.
func (y *layer) assign(plan [][]int, t, nodes int) {
	for ; y.before != nil; y = y.before {
		for _, o := range y.options {
			if v := y.before.at(nodes - o.nodes); v == never || v+o.value != y.at(nodes) {
				continue
			}
			if y.group != nil {
				y.group.assign(plan, t, o.nodes)
			} else {
				plan[y.member][t] = o.nodes
			}
			nodes -= o.nodes
			break
		}
	}
}
