package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// beam is a set of states of the core search. A state is a vector of excess nodes with the smallest
// known loss that leads to it.
type beam struct {
	states

	steps int
	// slots is an open-addressing hash table of states by their excess nodes; -1 marks an empty
	// slot.
	slots []int32
	// order and spare are scratch memory of prune.
	order []int32
	spare states
}

// states contains the states of a beam, one slice per attribute.
type states struct {
	excess []int32 // steps per state
	loss   []float64
	total  []float64 // lower bound on the loss of all solutions through the state
	link   []int32
}

// emptied returns an empty set of states that reuses the memory.
func (s states) emptied() states {
	return states{excess: s.excess[:0], loss: s.loss[:0], total: s.total[:0], link: s.link[:0]}
}

func (b *beam) size() int { return len(b.loss) }

func (b *beam) state(n int) []int32 { return b.excess[n*b.steps : (n+1)*b.steps] }

// reset empties the beam.
func (b *beam) reset(steps int) {
	b.steps = steps
	b.states = b.emptied()
	if b.slots == nil {
		b.slots = make([]int32, 64)
	}
	for n := range b.slots {
		b.slots[n] = -1
	}
}

// find returns the slot of the state with the given excess nodes, or the empty slot where it has to
// be inserted.
func (b *beam) find(excess []int32) int {
	h := uint64(14695981039346656037)
	for _, e := range excess {
		h = (h ^ uint64(uint32(e))) * 1099511628211
		h ^= h >> 29
	}
	mask := len(b.slots) - 1
	slot := int(h) & mask
	for b.slots[slot] >= 0 && !slices.Equal(b.state(int(b.slots[slot])), excess) {
		slot = (slot + 1) & mask
	}
	return slot
}

// insert adds a new state in the slot that find returned.
func (b *beam) insert(slot int, excess []int32, loss, total float64, link int32) {
	b.slots[slot] = int32(b.size())
	b.excess = append(b.excess, excess...)
	b.loss = append(b.loss, loss)
	b.total = append(b.total, total)
	b.link = append(b.link, link)
	if 2*b.size() > len(b.slots) {
		b.rehash(2 * len(b.slots))
	}
}

// rehash rebuilds the hash map with the given number of slots.
func (b *beam) rehash(slots int) {
	if slots != len(b.slots) {
		b.slots = make([]int32, slots)
	}
	for n := range b.slots {
		b.slots[n] = -1
	}
	for n := range b.size() {
		b.slots[b.find(b.state(n))] = int32(n)
	}
}

// prune keeps the width states with the smallest total. It returns the smallest total of the
// dropped states, or +Inf if it drops none. If the deadline has passed, it keeps all states.
func (b *beam) prune(clock *model.Clock, width int) float64 {
	size := b.size()
	if size <= width {
		return math.Inf(1)
	}
	b.order = slices.Grow(b.order[:0], 2*size)[:2*size]
	for n := range size {
		b.order[n] = int32(n)
	}
	if !model.SortDescending(clock, b.order[:size], b.order[size:], func(n int32) float64 { return -b.total[n] }) {
		return slices.Min(b.total)
	}
	others := b.total[b.order[width]]
	kept := b.spare.emptied()
	for _, n := range b.order[:width] {
		kept.excess = append(kept.excess, b.state(int(n))...)
		kept.loss = append(kept.loss, b.loss[n])
		kept.total = append(kept.total, b.total[n])
		kept.link = append(kept.link, b.link[n])
	}
	b.states, b.spare = kept, b.states
	b.rehash(len(b.slots))
	return others
}
