package model

// Arena allocates slices from blocks of memory. After Reset it reuses the blocks.
type Arena[Item any] struct {
	blocks [][]Item
	// at is the current block, and used the number of items in use.
	at, used int
}

// Reset releases all slices.
func (a *Arena[Item]) Reset() { a.at, a.used = 0, 0 }

// Take returns n items with undefined values.
func (a *Arena[Item]) Take(n int) []Item {
	if a.at < len(a.blocks) && a.used > 0 && a.used+n > len(a.blocks[a.at]) {
		a.at, a.used = a.at+1, 0
	}
	if a.at == len(a.blocks) || n > len(a.blocks[a.at]) {
		// Allocate a little more, for sizes that grow slowly. Release the later blocks, so that the
		// blocks together are not much larger than the slices of one round.
		clear(a.blocks[a.at:])
		a.blocks = append(a.blocks[:a.at], make([]Item, max(n+n/8, 1<<min(8+a.at, 16))))
	}
	a.used += n
	return a.blocks[a.at][a.used-n : a.used : a.used]
}

// Zeros returns n items with the value zero.
func (a *Arena[Item]) Zeros(n int) []Item {
	items := a.Take(n)
	clear(items)
	return items
}

// Memory is the memory of an instance and its job classes. The next instance reuses it.
type Memory struct {
	Jobs    Arena[Job]
	Floats  Arena[float64]
	Ints    Arena[int]
	edges   Arena[Edge]
	slots   Arena[int32]
	sizes   Arena[uint8]
	classes Arena[JobClass]
}

// Reset releases all slices.
func (m *Memory) Reset() {
	for _, arena := range []interface{ Reset() }{
		&m.Jobs, &m.Floats, &m.Ints, &m.edges, &m.slots, &m.sizes, &m.classes,
	} {
		arena.Reset()
	}
}
