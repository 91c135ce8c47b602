package audit

import (
	"cmp"
	"slices"
)

// mostWays is how many ways a search by counts lists at a time.
const mostWays = 1 << 19

// lot is members of equal plans: of these only how many hold how many nodes of which type counts.
type lot struct {
	*plans
	members int
	one     uint64 // of them in a count
	// At the prices of nodes, best is the most that one of them is worth, and waiting what it loses
	// against that without nodes.
	best, waiting int64
}

// of returns how many members are counted.
func (k *lot) of(count uint64) int { return int(count / k.one % uint64(k.members+1)) }

// holdings calls visit with what the sizes of a type are worth net of the prices of nodes. A member
// has none of another type.
func (k *lot) holdings(t int, visit func(nodes int, net int64)) {
	for _, a := range k.paths.arcs[t] {
		if nodes := k.member.sizes[a.size]; a.from == 0 && (a.to == 1 || t == len(k.paths.arcs)-1) {
			visit(nodes, a.gain-k.nodes[t]*int64(nodes))
		}
	}
}

// way is how many members of each lot hold nodes, and the least that is lost by that.
type way struct {
	count uint64
	nodes int // of the last type
	loss  int64
}

// ways has no two ways of the same count and nodes.
type ways struct {
	list []way
	at   map[way]int
}

func (w *ways) add(to way) {
	key := way{count: to.count, nodes: to.nodes}
	n, there := w.at[key]
	if !there {
		n = len(w.list)
		w.at[key], w.list = n, append(w.list, to)
	}
	w.list[n].loss = min(w.list[n].loss, to.loss)
}

// counts returns the most that a plan on several node types is worth, if that is known, else more. Against
// what all can be worth at the prices of nodes, a plan loses with each member that has not its best there,
// and with each node that is left. Type by type, all ways are listed that lose too little to miss the target.
func (s *search) counts() (atMost int64) {
	lots := s.lots()
	if lots == nil {
		return -never
	}
	most, last := int64(0), len(s.ends)-1
	for n := range lots {
		k := &lots[n]
		k.best, k.waiting = never, -never
		for t := range s.ends {
			k.holdings(t, func(_ int, net int64) { k.best = max(k.best, net) })
		}
		k.holdings(last, func(nodes int, net int64) {
			if nodes == 0 {
				k.waiting = k.best - net
			}
		})
		if k.best == never {
			return never // It has no plan left, so that no better one is.
		}
		most += k.best * int64(k.members)
	}
	for t, ends := range s.ends { // All other members have one plan.
		most += s.nodes[t]*int64(len(ends)-1) + ends[0]
	}
	slack := most - s.target
	if slack <= 0 {
		return most
	}
	types := make([][]way, len(s.ends))
	for t := range types {
		held, all := s.hold(lots, t, slack)
		if !all {
			return -never
		}
		types[t] = held
	}
	rests, now := s.rests(lots, types), []way{{}}
	for t, held := range types {
		next := ways{at: make(map[way]int)}
		for _, from := range now {
			for _, of := range held {
				both := way{count: from.count + of.count, loss: from.loss + of.loss}
				if s.spend(perArc); both.loss >= slack {
					break // So do those after it.
				}
				if fit(lots, from.count, of.count) && both.loss+rest(lots, rests[t+1], both.count) < slack {
					s.spend(perState)
					next.add(both)
				}
			}
			if len(next.list) > mostWays {
				return -never
			}
		}
		now = next.list
	}
	least := slack
	for _, w := range now {
		for n := range lots {
			for range lots[n].members - lots[n].of(w.count) {
				w.loss = min(w.loss+lots[n].waiting, slack)
			}
		}
		least = min(least, w.loss)
	}
	return most - least
}

// lots returns the open members by lot, nil where there are no types or many lots.
func (s *search) lots() (lots []lot) {
	if !s.several() {
		return nil
	}
	for _, p := range s.open {
		n := slices.IndexFunc(lots, func(k lot) bool {
			return slices.Equal(k.member.sizes, p.member.sizes) && slices.EqualFunc(k.paths.arcs, p.paths.arcs, slices.Equal)
		})
		s.spend(10 * len(lots))
		if n < 0 {
			n, lots = len(lots), append(lots, lot{plans: p})
		}
		lots[n].members++
	}
	one := uint64(1)
	for n := range lots {
		lots[n].one = one
		if uint64(lots[n].members) >= 1<<56/one {
			return nil
		}
		one *= uint64(lots[n].members + 1)
	}
	if 2*len(lots) > len(s.open) {
		return nil
	}
	return lots
}

// fit reports whether there are as many members as two counts have.
func fit(lots []lot, a, b uint64) bool {
	return !slices.ContainsFunc(lots, func(k lot) bool { return k.of(a)+k.of(b) > k.members })
}

// hold returns all ways to hold nodes of a type that lose less than the slack, those that lose least first,
// unless they are many.
func (s *search) hold(lots []lot, t int, slack int64) (list []way, all bool) {
	held, filled, nodes := ways{at: make(map[way]int)}, ways{at: make(map[way]int)}, len(s.ends[t])-1
	held.add(way{})
	for n := range lots {
		k := &lots[n]
		k.holdings(t, func(size int, net int64) {
			for _, w := range held.list {
				for range k.members - k.of(w.count) {
					if w.count, w.nodes, w.loss = w.count+k.one, w.nodes+size, w.loss+k.best-net; size == 0 || w.nodes > nodes || w.loss >= slack {
						break
					}
					s.spend(perState)
					held.add(w)
				}
				if len(held.list) > mostWays {
					break
				}
			}
		})
		if len(held.list) > mostWays {
			return nil, false
		}
	}
	for _, w := range held.list {
		if w.loss, w.nodes = w.loss+s.nodes[t]*int64(nodes-w.nodes), 0; w.loss < slack {
			filled.add(w)
		}
	}
	s.spend(perState * len(held.list))
	slices.SortFunc(filled.list, func(a, b way) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.count, b.count)) })
	return filled.list, true
}

// rests returns, by type and lot, the least that is lost from there on by how many members of the lot are
// left.
func (s *search) rests(lots []lot, types [][]way) [][][]int64 {
	rests := make([][][]int64, len(types)+1)
	for n := range lots {
		k, row := &lots[n], []int64{0}
		for range k.members {
			row = append(row, min(row[len(row)-1]+k.waiting, -never))
		}
		rests[len(types)] = append(rests[len(types)], row)
		for t := len(types) - 1; t >= 0; t-- {
			own := slices.Repeat([]int64{-never}, k.members+1)
			for _, w := range types[t] {
				own[k.of(w.count)] = min(own[k.of(w.count)], w.loss)
			}
			next := slices.Repeat([]int64{-never}, k.members+1)
			for members, loss := range own {
				for more, least := range row[:len(row)-members] {
					next[members+more] = min(next[members+more], loss+least)
				}
			}
			s.spend(k.members*k.members + len(types[t]))
			row = next
			rests[t] = append(rests[t], row)
		}
	}
	return rests
}

// rest returns the least that is lost after some members are done with.
func rest(lots []lot, rests [][]int64, done uint64) (least int64) {
	for n, row := range rests {
		least = max(least, row[len(row)-1-lots[n].of(done)])
	}
	return least
}
