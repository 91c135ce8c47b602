package audit

import "slices"

// mostCounts is how many numbers a table of counts may have.
const mostCounts = 1 << 22

// counts returns the most that a plan on several node types is worth, if that is known. Members
// of equal plans are one kind. Type by type, a table has the most that all are worth by how many of
// each kind are done with, and by the nodes that they hold.
func (s *search) counts() (known bool, atMost int64) {
	type kind struct {
		*plans
		members, stride int
	}
	if !s.several() {
		return false, 0
	}
	var kinds []kind
	for _, p := range s.open {
		n := slices.IndexFunc(kinds, func(k kind) bool {
			return slices.Equal(k.member.sizes, p.member.sizes) && slices.EqualFunc(k.paths.arcs, p.paths.arcs, slices.Equal)
		})
		s.spend(10 * len(kinds))
		if n < 0 {
			n, kinds = len(kinds), append(kinds, kind{plans: p})
		}
		kinds[n].members++
	}
	size, width := 1, slices.Max(s.width)+1
	for n := range kinds {
		kinds[n].stride = size
		if size *= kinds[n].members + 1; size*width > mostCounts {
			return false, 0
		}
	}
	numbers := s.numbers
	s.keep(size * (width + 1))
	s.numbers = numbers // The tables do not stay.
	most := slices.Repeat([]int64{never}, size)
	most[0] = 0
	for t, ends := range s.ends {
		table := [][]int64{most}
		for len(table) < len(ends) {
			table = append(table, slices.Repeat([]int64{never}, size))
		}
		for _, k := range kinds {
			for _, a := range k.paths.arcs[t] {
				if a.from == 1 || a.to == 0 && t < len(s.ends)-1 {
					continue // It is done with before, or behind.
				}
				nodes, block := k.member.sizes[a.size], k.stride*(k.members+1)
				for held := nodes; held < len(table); held++ {
					from, to := table[held-nodes], table[held]
					for first := 0; first < size; first += block {
						for n := first + k.stride; n < first+block; n++ {
							// What is far below all that may be gained gains nothing.
							if v := from[n-k.stride] + a.gain; v > to[n] && v > never/4 {
								to[n] = v
							}
						}
					}
				}
				s.spend(size * len(table))
			}
		}
		most = slices.Repeat([]int64{never}, size)
		for held, row := range table {
			if end := ends[len(ends)-1-held]; end != never {
				for n, v := range row {
					most[n] = max(most[n], v+end)
				}
			}
		}
		s.spend(2 * size * len(table))
	}
	return true, most[size-1]
}
