package guard

import "sync"

const (
	// CallBytes is the memory of an open call in addition to its message, in bytes: its stream, frames
	// in gRPC, and stacks.
	CallBytes = 32 << 10

	// SmallCall is the maximum size of a small call, in bytes. A part of the memory is reserved for small
	// calls, so that large calls cannot block them.
	SmallCall = 256 << 10

	// smallFraction is the fraction of the memory that is reserved for small calls.
	smallFraction = 1.0 / 8

	// maxFreeMultiple limits the memory of a caller to a multiple of the memory that remains free. A
	// single caller gets three quarters of the memory. Several callers get equal parts, and some memory
	// always remains free for the next caller.
	maxFreeMultiple = 3
)

// Memory limits the memory of all calls of a server.
type Memory struct {
	mutex        sync.Mutex
	small, large pool
	// freed is closed when memory is freed. It is nil if nobody waits for it.
	freed chan struct{}
	// OnFreed, if set, is called when memory is freed.
	OnFreed func()
}

// pool is a part of the memory.
type pool struct {
	limit, used int            // in bytes
	callers     map[string]int // bytes used by each caller
}

// NewMemory returns a Memory with a limit in bytes.
func NewMemory(limit int) *Memory {
	small := int(float64(limit) * smallFraction)
	return &Memory{
		small: pool{limit: small, callers: make(map[string]int)},
		large: pool{limit: limit - small, callers: make(map[string]int)},
	}
}

// MaxCall returns the maximum memory of a call, in bytes.
func (m *Memory) MaxCall() int { return m.large.limit }

// Usage returns the bytes that all calls use, and their limit.
func (m *Memory) Usage() (used, limit int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.small.used + m.large.used, m.small.limit + m.large.limit
}

// awaitFreed returns a channel that is closed when memory is freed.
func (m *Memory) awaitFreed() <-chan struct{} {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.freed == nil {
		m.freed = make(chan struct{})
	}
	return m.freed
}

// admits reports whether a caller may use more bytes. Its total is limited to maxFreeMultiple times the
// remaining free bytes. A caller that uses nothing may use all free bytes. Otherwise calls of the maximum
// size would never be admitted.
func (p *pool) admits(caller string, bytes int) bool {
	free := p.limit - p.used - bytes
	used := p.callers[caller]
	return free >= 0 && (used == 0 || used+bytes <= maxFreeMultiple*free)
}

// add adds to the bytes of a caller. bytes may be negative.
func (p *pool) add(caller string, bytes int) {
	p.used += bytes
	if used := p.callers[caller] + bytes; used > 0 {
		p.callers[caller] = used
	} else {
		delete(p.callers, caller)
	}
}

// Reservation is the memory of one call. It is safe for concurrent use.
type Reservation struct {
	memory *Memory
	caller string

	pool   *pool // nil if bytes is 0
	bytes  int
	closed bool
}

// NewReservation returns an empty reservation for a call of a caller.
func (m *Memory) NewReservation(caller string) *Reservation {
	return &Reservation{memory: m, caller: caller}
}

// Set changes the size of the reservation, in bytes, and reports whether enough memory is free. It always
// succeeds for a smaller size.
func (r *Reservation) Set(bytes int) bool {
	r.memory.mutex.Lock()
	before := r.bytes
	ok := r.change(bytes)
	freed := ok && r.bytes < before
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

// change implements Set. The caller has locked the memory.
func (r *Reservation) change(bytes int) bool {
	if r.closed {
		return bytes == 0
	}
	before, from := r.bytes, r.pool
	if from != nil {
		from.add(r.caller, -before)
	}
	r.bytes, r.pool = bytes, nil
	switch m := r.memory; {
	case bytes == 0:
		return true
	case bytes <= SmallCall && m.small.admits(r.caller, bytes):
		r.pool = &m.small
	case from != nil && bytes <= before:
		r.pool = from
	case m.large.admits(r.caller, bytes):
		r.pool = &m.large
	default:
		r.bytes, r.pool = before, from
		if from != nil {
			from.add(r.caller, before)
		}
		return false
	}
	r.pool.add(r.caller, bytes)
	return true
}

// Bytes returns the size of the reservation, in bytes.
func (r *Reservation) Bytes() int {
	r.memory.mutex.Lock()
	defer r.memory.mutex.Unlock()
	return r.bytes
}

// Release frees the memory. After it, Set fails for sizes above 0.
func (r *Reservation) Release() {
	r.Set(0)
	r.memory.mutex.Lock()
	r.closed = true
	r.memory.mutex.Unlock()
}
