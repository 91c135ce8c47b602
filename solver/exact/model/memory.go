package model

// Arena hands out memory, block after block. After Reset it hands out the same again.
type Arena[Item any] struct {
	blocks [][]Item
	// at is the block handed out now, used how much of it is.
	at, used int
}

// Reset takes back all that was handed out.
func (a *Arena[Item]) Reset() { a.at, a.used = 0, 0 }

// Take returns n items, as they were left.
func (a *Arena[Item]) Take(n int) []Item {
	if a.at < len(a.blocks) && a.used > 0 && a.used+n > len(a.blocks[a.at]) {
		a.at, a.used = a.at+1, 0
	}
	if a.at == len(a.blocks) {
		a.blocks = append(a.blocks, nil)
	}
	if n > len(a.blocks[a.at]) {
		// A little more, for what grows slowly.
		a.blocks[a.at] = make([]Item, max(n+n/8, 1<<min(8+a.at, 16)))
	}
	a.used += n
	return a.blocks[a.at][a.used-n : a.used : a.used]
}

// Zeros returns n items of value zero.
func (a *Arena[Item]) Zeros(n int) []Item {
	items := a.Take(n)
	clear(items)
	return items
}

// Memory is what an instance and what is kept of its jobs are in; the next one uses it again.
type Memory struct {
	Jobs    Arena[Job]
	Floats  Arena[float64]
	Ints    Arena[int]
	rates   Arena[Rate]
	slots   Arena[int32]
	sizes   Arena[uint8]
	classes Arena[JobClass]
}

// Reset takes back what was handed out.
func (m *Memory) Reset() {
	for _, arena := range []interface{ Reset() }{
		&m.Jobs, &m.Floats, &m.Ints, &m.rates, &m.slots, &m.sizes, &m.classes,
	} {
		arena.Reset()
	}
}
