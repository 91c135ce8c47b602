package audit

import "slices"

// choice is a number of nodes that an item can use in a row, and its value.
type choice struct {
	nodes int
	value int64
}

// layer is the largest value of some items in a row by the nodes that they use: base plus an entry
// of value, for the nodes from `from` on. An entry is infeasible if no choices use that many.
type layer struct {
	from  int
	base  int64
	value []int64
	// The last item is a member, or a group with its own layer. before is the layer of the items before
	// it, or nil if there are none.
	before  *layer
	choices []choice
	member  int
	group   *layer
}

// at returns the largest value with the given nodes.
func (y *layer) at(nodes int) int64 {
	if n := nodes - y.from; n >= 0 && n < len(y.value) && y.value[n] != infeasible {
		return y.base + y.value[n]
	}
	return infeasible
}

// addItem returns a layer with one more item, up to the given nodes.
func (s *search) addItem(before *layer, item layer, maxNodes int) *layer {
	y := &item
	y.before = before
	if len(y.choices) == 0 {
		return y
	}
	first, last := y.choices[0], y.choices[len(y.choices)-1]
	y.from = before.from + first.nodes
	width := max(0, min(maxNodes-y.from+1, len(before.value)+last.nodes-first.nodes))
	if len(y.choices) == 1 {
		if y.base = before.base + first.value; y.base > infeasible/2 {
			y.value = before.value[:min(width, len(before.value))]
		}
		return y
	}
	s.store(width)
	y.base, y.value = before.base, slices.Repeat([]int64{infeasible}, width)
	for _, o := range y.choices {
		shift := o.nodes - first.nodes
		for n, v := range before.value[:max(0, min(len(before.value), width-shift))] {
			// A value far below zero cannot become part of a better plan.
			if v += o.value; v > y.value[n+shift] && v > infeasible/4 {
				y.value[n+shift] = v
			}
		}
		s.spend(len(before.value))
	}
	return y
}

// groupLayer returns the layer of a group in a row, or of the pool if g is -1. Its items are the
// members that are separable or have a single plan, and the subgroups, at the cost of their shortages.
func (s *search) groupLayer(t, g int) *layer {
	maxNodes := s.width[t]
	if g >= 0 {
		maxNodes = min(maxNodes, s.groups[g].limit)
	}
	y := &layer{value: []int64{0}}
	for _, i := range s.groupMembers[g+1] {
		if c := s.candidates[i]; c.separable || c.paths != nil && c.paths.single() {
			item := layer{member: i}
			for _, a := range c.paths.arcs[t] {
				item.choices = append(item.choices, choice{s.consumption(c.member, t, int(a.size)), a.value})
			}
			y = s.addItem(y, item, maxNodes)
		}
	}
	for _, subgroup := range s.subgroups[g+1] {
		inner := s.groupLayer(t, subgroup)
		item := layer{group: inner}
		s.store(2 * len(inner.value))
		for n := range inner.value {
			nodes := inner.from + n
			if v := inner.at(nodes); v != infeasible {
				v -= s.shortageCost(subgroup, nodes)
				item.choices = append(item.choices, choice{nodes, v})
			}
		}
		y = s.addItem(y, item, maxNodes)
	}
	return y
}

// assign sets the nodes of the members of a layer in row t of a plan, which use the given nodes together.
func (y *layer) assign(plan [][]int, t, nodes int) {
	for ; y.before != nil; y = y.before {
		for _, o := range y.choices {
			if v := y.before.at(nodes - o.nodes); v == infeasible || v+o.value != y.at(nodes) {
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
