package rows

import (
	"cmp"
	"math"
	"slices"
)

// state is a state of the core search after its first jobs: the excess nodes compared with the best
// options of all jobs, and the smallest known loss that leads to it.
type state struct {
	loss  float64
	total float64 // lower bound on the loss of all choices through the state
	tie   tie
	link  int32
	at    int32 // position of the excess nodes in the beam
}

// beam is a set of states with different excess nodes.
type beam struct {
	states []state
	// nodes has the excess nodes of the states, one number for each of the rows.
	nodes []int32
	rows  int
	// slots is an open-addressing hash table of the states by their excess nodes; -1 marks an empty
	// slot.
	slots []int32
}

// excess returns the excess nodes of a state.
func (b *beam) excess(s *state) []int32 {
	return b.nodes[int(s.at)*b.rows : (int(s.at)+1)*b.rows]
}

func (b *beam) reset() {
	b.states, b.nodes = b.states[:0], b.nodes[:0]
	b.rehash(max(len(b.slots), 256))
}

// find returns the slot of the state with the given excess nodes, or the empty slot where it has to
// be inserted.
func (b *beam) find(excess []int32) int {
	h := uint64(0)
	for _, e := range excess {
		h = (h ^ uint64(uint32(e))) * 0x9E3779B97F4A7C15
		h ^= h >> 32
	}
	mask := len(b.slots) - 1
	slot := int(h) & mask
	for b.slots[slot] >= 0 && !slices.Equal(b.excess(&b.states[b.slots[slot]]), excess) {
		slot = (slot + 1) & mask
	}
	return slot
}

// keep adds a state, in place of a worse one with the same excess. It returns false if that state is at least as
// good. Losses that differ by at most tolerance are equal.
func (b *beam) keep(s *state, excess []int32, tolerance float64) bool {
	slot := b.find(excess)
	at := b.slots[slot]
	if at < 0 {
		b.insert(slot, *s, excess)
		return true
	}
	there := &b.states[at]
	if more := s.loss - there.loss; more > tolerance || more >= -tolerance && s.tie.compare(there.tie) >= 0 {
		return false
	}
	s.at = there.at
	*there = *s
	return true
}

// insert adds a new state in the slot that find returned.
func (b *beam) insert(slot int, next state, excess []int32) {
	next.at = int32(len(b.nodes) / b.rows)
	b.nodes = append(b.nodes, excess...)
	b.slots[slot] = int32(len(b.states))
	b.states = append(b.states, next)
	if 2*len(b.states) > len(b.slots) {
		b.rehash(4 * len(b.slots))
	}
}

func (b *beam) rehash(slots int) {
	if slots != len(b.slots) {
		b.slots = make([]int32, slots)
	}
	for n := range b.slots {
		b.slots[n] = -1
	}
	for n := range b.states {
		b.slots[b.find(b.excess(&b.states[n]))] = int32(n)
	}
}

// prune keeps the width states with the smallest total. It returns the smallest total of the
// dropped states, or +Inf if it drops none.
func (b *beam) prune(width int) float64 {
	if len(b.states) <= width {
		return math.Inf(1)
	}
	slices.SortFunc(b.states, func(x, y state) int { return cmp.Or(cmp.Compare(x.total, y.total), x.tie.compare(y.tie)) })
	dropped := b.states[width].total
	b.states = b.states[:width]
	b.rehash(len(b.slots))
	return dropped
}
