package guard

import "sync"

const (
	// CallBytes is what an open call takes beside its message: its stream, the frames
	// that gRPC holds of it, and stacks.
	CallBytes = 32 << 10

	// SmallCall is how much a call may hold that is small. A part of the memory is for
	// those alone, so that large ones never keep them out.
	SmallCall = 256 << 10

	// smallFraction is that part of the memory.
	smallFraction = 1.0 / 8

	// freeShare is how many times what is left free one caller may hold: three quarters
	// of the memory if it is alone, and as much as the others if there are many. So there
	// is always something left for the next one.
	freeShare = 3
)

// Memory is the bytes that all calls of a server hold together, and their limit.
type Memory struct {
	mutex        sync.Mutex
	small, large pool
	// freed, where somebody waits for it, is closed when bytes are given back.
	freed chan struct{}
	// OnFreed, where set, is called then.
	OnFreed func()
}

// pool is a part of the memory.
type pool struct {
	limit, held int
	callers     map[string]int // What each of them holds.
}

// NewMemory returns a memory of the given number of bytes.
func NewMemory(limit int) *Memory {
	small := int(float64(limit) * smallFraction)
	return &Memory{
		small: pool{limit: small, callers: make(map[string]int)},
		large: pool{limit: limit - small, callers: make(map[string]int)},
	}
}

// Most returns the bytes that a single call can hold.
func (m *Memory) Most() int { return m.large.limit }

// State returns the bytes that all calls hold, and their limit.
func (m *Memory) State() (held, limit int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.small.held + m.large.held, m.small.limit + m.large.limit
}

// awaitFreed returns a channel that is closed when bytes are given back.
func (m *Memory) awaitFreed() <-chan struct{} {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.freed == nil {
		m.freed = make(chan struct{})
	}
	return m.freed
}

// admits reports whether a caller may hold this many bytes more: of what is free its share, or,
// if it holds nothing, any. Otherwise there would be calls that are never let in.
func (p *pool) admits(caller string, bytes int) bool {
	free := p.limit - p.held - bytes
	held := p.callers[caller]
	return free >= 0 && (held == 0 || held+bytes <= freeShare*free)
}

// add changes what a caller holds.
func (p *pool) add(caller string, bytes int) {
	p.held += bytes
	if held := p.callers[caller] + bytes; held > 0 {
		p.callers[caller] = held
	} else {
		delete(p.callers, caller)
	}
}

// Reservation is what one call holds of the memory. It is safe for concurrent use.
type Reservation struct {
	memory *Memory
	caller string

	pool   *pool // nil while nothing is held
	bytes  int
	closed bool
}

// Reservation returns one that holds nothing yet, for a call of a caller.
func (m *Memory) Reservation(caller string) *Reservation {
	return &Reservation{memory: m, caller: caller}
}

// Set changes what the call holds in all, and reports whether there is room, as for less.
func (r *Reservation) Set(bytes int) bool {
	r.memory.mutex.Lock()
	had := r.bytes
	ok := r.change(bytes)
	freed := ok && r.bytes < had
	if freed && r.memory.freed != nil {
		close(r.memory.freed)
		r.memory.freed = nil
	}
	r.memory.mutex.Unlock()
	if freed && r.memory.OnFreed != nil {
		r.memory.OnFreed()
	}
	return ok
}

// change is Set, with the memory locked.
func (r *Reservation) change(bytes int) bool {
	if r.closed {
		return bytes == 0
	}
	had, from := r.bytes, r.pool
	if from != nil {
		from.add(r.caller, -had)
	}
	r.bytes, r.pool = bytes, nil
	switch m := r.memory; {
	case bytes == 0:
		return true
	case bytes <= SmallCall && m.small.admits(r.caller, bytes):
		r.pool = &m.small
	case from != nil && bytes <= had:
		r.pool = from
	case m.large.admits(r.caller, bytes):
		r.pool = &m.large
	default:
		r.bytes, r.pool = had, from
		if from != nil {
			from.add(r.caller, had)
		}
		return false
	}
	r.pool.add(r.caller, bytes)
	return true
}

// Held returns how much the call holds.
func (r *Reservation) Held() int {
	r.memory.mutex.Lock()
	defer r.memory.mutex.Unlock()
	return r.bytes
}

// Release gives everything back, for good.
func (r *Reservation) Release() {
	r.Set(0)
	r.memory.mutex.Lock()
	r.closed = true
	r.memory.mutex.Unlock()
}
