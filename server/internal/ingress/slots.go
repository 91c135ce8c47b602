package ingress

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

// minRunTime is how long a call may run before it can be interrupted for a call whose caller has
// as many slots.
const minRunTime = time.Second

// Work is the class of a method. Each class has slots of its own, so that no class waits for another.
type Work int

// The classes of methods.
const (
	// WorkAnalysis is Explain, WhatIf and Forecast. A call is rejected if it gets no slot in time. It
	// is interrupted if another class needs its memory.
	WorkAnalysis Work = iota
	// WorkDecision is a search. If it gets no slot in time, it waits for a slot of WorkShort and runs
	// with Slot.NoSearch.
	WorkDecision
	// WorkShort is work without a search.
	WorkShort
	// workLargeShort is WorkShort of calls larger than guard.SmallCall, so that small calls never wait
	// for them.
	workLargeShort

	workClasses
)

const (
	// SearchMemory is the memory reserved for a slot with a search, in bytes. A search limits the
	// states and tables of its proof by number.
	SearchMemory = 40 << 20
	// boundMemory is the memory reserved for a slot without a search, in bytes. It suffices for the
	// bound of the greedy plan.
	boundMemory = 12 << 20
)

// Memory returns the memory reserved for a slot, in bytes, in addition to the memory that calls share.
func (w Work) Memory() int {
	if w == WorkAnalysis || w == WorkDecision {
		return SearchMemory
	}
	return boundMemory
}

// InflightMemory returns the memory reserved for one slot of each class, in bytes.
func InflightMemory() int {
	bytes := 0
	for work := range workClasses {
		bytes += work.Memory()
	}
	return bytes
}

// maxWait returns the maximum time that a call waits for a slot, and the maximum fraction of the
// time until its deadline. The rest of that time is for the decision, or for another server.
func (w Work) maxWait() (longest time.Duration, fraction float64) {
	switch w {
	case WorkAnalysis:
		return guard.MaxWait, 1.0 / 2
	case WorkDecision:
		return 100 * time.Millisecond, 1.0 / 4
	default:
		return 5 * time.Second, 1.0 / 2
	}
}

// slots limits how many methods run at once. It is fair to callers: callers with fewer slots are
// first, small calls precede large calls, and callers, and the connections of a caller, alternate.
// If a caller or a connection has more slots than one that waits, one of its calls is interrupted.
type slots struct {
	// limit is the number of slots of each class, and maxQueue the maximum number of calls that wait
	// for a slot of a class.
	limit, maxQueue int

	mutex   sync.Mutex
	lanes   [workClasses]lane
	waiting atomic.Int64
	// freed reports that a goroutine is about to grant slots because memory was freed. Memory that is
	// freed until then needs no other goroutine.
	freed atomic.Bool
}

// lane is the calls of one class of work.
type lane struct {
	running []*ticket
	queue   queue
}

// ticket is a call that waits for a slot or has one.
type ticket struct {
	caller, connection string // connection is the caller's address and port
	bytes              int    // memory of the call
	// reserve reserves this memory, and reports whether enough is free.
	reserve  func() bool
	noSearch bool // the call got no slot for a search
	// extra marks an additional slot of a call, or of background work. It is interrupted as soon as
	// another call waits.
	extra bool

	lane   *lane
	share  *share // of the connection in lane; nil if extra
	number int    // position among the calls that wait

	settled chan struct{} // closed when the slot is granted or denied
	granted bool
	began   time.Time
	// interrupted is done when the call has to stop its search.
	interrupted context.Context
	interrupt   context.CancelFunc
}

func newSlots(maxInflight, maxQueue int) *slots {
	return &slots{limit: maxInflight, maxQueue: maxQueue}
}

// acquire waits for a slot. The caller releases it with release. acquire fails if there is no slot in
// time, if too many calls wait, or if ctx is done.
func (s *slots) acquire(ctx context.Context, work Work, t *ticket) error {
	began := time.Now()
	ok, err := s.wait(ctx, work, t, began)
	if !ok && err == nil && work == WorkDecision {
		t.noSearch = true
		ok, err = s.wait(ctx, WorkShort, t, began)
	}
	if !ok && err == nil {
		err = guard.Overload()
	}
	return err
}

// wait waits for a slot of a class since began, and reports whether it was granted.
func (s *slots) wait(ctx context.Context, work Work, t *ticket, began time.Time) (bool, error) {
	if work == WorkShort && t.bytes > guard.SmallCall {
		work = workLargeShort
	}
	longest, fraction := work.maxWait()
	if deadline, limited := ctx.Deadline(); limited {
		longest = min(longest, time.Duration(float64(deadline.Sub(began))*fraction))
	}
	t.lane, t.settled = &s.lanes[work], make(chan struct{})
	t.interrupted, t.interrupt = context.WithCancel(context.Background())
	s.mutex.Lock()
	s.enqueue(t)
	granted := t.granted
	s.mutex.Unlock()
	if granted {
		return true, nil
	}
	var err error
	select {
	case <-t.settled:
	case <-time.After(longest - time.Since(began)):
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if t.granted && err == nil {
		return true, nil
	}
	t.interrupt()
	t.lane.queue.remove(t, 0)
	s.free(t)
	return false, err
}

// enqueue adds a call to its queue. If it gets no slot now, enqueue interrupts calls for it.
func (s *slots) enqueue(t *ticket) {
	defer s.updateWaiting()
	l := t.lane
	l.queue.add(t)
	s.dispatch(l)
	if t.granted {
		return
	}
	if len(l.queue.calls) > s.maxQueue {
		last := l.queue.last()
		l.queue.remove(last, 0)
		close(last.settled)
	}
	if len(l.running) < s.limit { // It waits for memory.
		s.reclaim(l)
	}
	if slices.Contains(l.queue.calls, t) {
		l.interruptFor(t)
	}
}

// extra returns an additional slot for a call that has one, if one is free and no call waits.
func (s *slots) extra(t *ticket, reserve func() bool) (*ticket, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := &s.lanes[WorkDecision]
	if len(l.queue.calls) > 0 || len(l.running) >= s.limit || !reserve() {
		return nil, false
	}
	extra := &ticket{caller: t.caller, connection: t.connection, bytes: t.bytes, lane: l, extra: true, began: time.Now()}
	extra.interrupted, extra.interrupt = context.WithCancel(context.Background())
	l.running = append(l.running, extra)
	return extra, true
}

// reclaimAll interrupts all extra slots and analyses, so that their memory is freed.
func (s *slots) reclaimAll() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.reclaim(nil)
}

// reclaim interrupts all extra slots, for a call in a lane. It also interrupts analyses, unless the
// call is one.
func (s *slots) reclaim(l *lane) {
	analyses := &s.lanes[WorkAnalysis]
	for _, t := range slices.Concat(s.lanes[WorkDecision].running, analyses.running) {
		if t.extra || l != analyses {
			t.interrupt()
		}
	}
}

// release releases a slot.
func (s *slots) release(t *ticket) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t.interrupt()
	s.free(t)
}

// free makes the slot of a call, if it has one, available to the next call.
func (s *slots) free(t *ticket) {
	l := t.lane
	if i := slices.Index(l.running, t); i >= 0 {
		l.running = slices.Delete(l.running, i, i+1)
		if !t.extra {
			l.queue.count(t, -1, 0)
		}
		s.dispatch(l)
	}
	s.updateWaiting()
}

// onMemoryFreed grants slots to calls that wait for memory.
func (s *slots) onMemoryFreed() {
	if s.waiting.Load() == 0 || !s.freed.CompareAndSwap(false, true) {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.freed.Store(false)
	for work := range s.lanes {
		s.dispatch(&s.lanes[work])
	}
	s.updateWaiting()
}

// dispatch grants the free slots of a lane.
func (s *slots) dispatch(l *lane) {
	for len(l.running) < s.limit {
		t := l.queue.next()
		if t == nil {
			return
		}
		l.queue.remove(t, 1)
		t.began, t.granted = time.Now(), true
		l.running = append(l.running, t)
		close(t.settled)
	}
}

// interruptFor interrupts a running call for a waiting call. It prefers an extra slot. Otherwise it
// interrupts the longest running call that has had minRunTime or whose share exceeds the share of the
// waiting call. It never interrupts more calls than wait.
func (l *lane) interruptFor(waiting *ticket) {
	interrupted := 0
	var longest *ticket
	for _, t := range l.running {
		switch {
		case t.interrupted.Err() != nil:
			interrupted++
		case longest != nil && longest.extra:
		case t.extra:
			longest = t
		case !t.share.exceeds(waiting.share) && time.Since(t.began) < minRunTime:
		case longest == nil || t.began.Before(longest.began):
			longest = t
		}
	}
	if longest != nil && interrupted < len(l.queue.calls) {
		longest.interrupt()
	}
}

// updateWaiting updates the number of calls that wait.
func (s *slots) updateWaiting() {
	waiting := 0
	for work := range s.lanes {
		waiting += len(s.lanes[work].queue.calls)
	}
	s.waiting.Store(int64(waiting))
}

// inflight returns the number of calls whose methods run.
func (s *slots) inflight() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	calls := 0
	for work := range s.lanes {
		calls += s.lanes[work].queue.running
	}
	return calls
}

// Slot is the right of a call to run its method.
type Slot struct {
	// NoSearch reports that there was no slot for a search in time, so that the method must be short.
	NoSearch bool
	// Interrupted is done when the method has to stop its search and respond.
	Interrupted context.Context
	// Extra grants additional slots, for parallel searches.
	Extra solver.AcquireWorker
}
