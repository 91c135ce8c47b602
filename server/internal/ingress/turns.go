package ingress

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

// fairTime is how long a call may run undisturbed while others wait, though its
// caller has no more turns than they.
const fairTime = time.Second

// Work is what a method does for a call. Each kind has turns of its own, so that none waits
// for another.
type Work int

// The kinds of work.
const (
	// WorkQuestion is turned away if its turn does not come in time, and hurried where other
	// work lacks memory.
	WorkQuestion Work = iota
	// WorkDecision is a search. Where no turn comes in time the method runs all the same, among
	// those of WorkShort: Shed says so, and it must be done soon.
	WorkDecision
	// WorkShort is done in little time.
	WorkShort
	// workLargeShort is that of calls that are not small, so that small ones never wait for them.
	workLargeShort

	kindsOfWork
)

const (
	// SearchMemory is set aside for a turn in which there may be a search, in bytes: the states and
	// tables of a proof are many where jobs are few. The search bounds them by counts.
	SearchMemory = 32 << 20
	// boundMemory is set aside for another, in which an answer may get its bound.
	boundMemory = 12 << 20
)

// Memory returns what is set aside for a turn, in bytes, beside the memory that calls share.
func (w Work) Memory() int {
	if w == WorkQuestion || w == WorkDecision {
		return SearchMemory
	}
	return boundMemory
}

// InflightMemory returns what is set aside for a turn of each kind of work, in bytes.
func InflightMemory() int {
	bytes := 0
	for work := range kindsOfWork {
		bytes += work.Memory()
	}
	return bytes
}

// patience returns how long a call waits for its turn at most, and for which fraction of the
// time until its deadline: the rest must suffice for deciding, or for asking another server.
func (w Work) patience() (longest time.Duration, fraction float64) {
	switch w {
	case WorkQuestion:
		return guard.LongestWait, 1.0 / 2
	case WorkDecision:
		return 100 * time.Millisecond, 1.0 / 4
	default:
		return 5 * time.Second, 1.0 / 2
	}
}

// turns limits how many methods run at once, and is fair to callers: who has fewer
// turns comes first, small calls come before large ones, callers take turns, and so do the
// connections of a caller. Where a caller or a connection has more turns than one that
// waits, one of its calls is asked to end its search.
type turns struct {
	// limit is how many calls of each kind of work run at once, maxQueue how many wait.
	limit, maxQueue int

	mutex   sync.Mutex
	lanes   [kindsOfWork]lane
	waiting atomic.Int64
	// freed says that turns are about to be given for memory that was freed: once for all that
	// is freed meanwhile.
	freed atomic.Bool
}

// lane is the calls of one kind of work.
type lane struct {
	running []*turn
	queue   crowd
}

// turn is a call that waits for its turn or has it.
type turn struct {
	// caller makes the call, from the address and port of connection.
	caller, connection string
	bytes              int         // that the call takes
	reserve            func() bool // takes them, and reports whether there is room
	shed               bool        // it runs without a turn for a search
	lent               bool        // it is beside the turn of the call itself, until another call waits

	lane   *lane
	over   *crowd // its connection in that lane; nil for one that is lent
	waits  bool
	number int // among those that wait

	settled chan struct{} // closed when the turn has come, or will not
	granted bool
	began   time.Time
	hurried context.Context // ends when the call is to end its search
	hurry   context.CancelFunc
}

func newTurns(maxInflight, maxQueue int) *turns {
	return &turns{limit: maxInflight, maxQueue: maxQueue}
}

// take waits for a turn, which release ends. It fails if the turn does not come in time,
// if too many others wait or if ctx ends.
func (t *turns) take(ctx context.Context, work Work, u *turn) error {
	began := time.Now()
	ok, err := t.await(ctx, work, u, began)
	if !ok && err == nil && work == WorkDecision {
		u.shed = true
		ok, err = t.await(ctx, WorkShort, u, began)
	}
	if !ok && err == nil {
		err = guard.Overload()
	}
	return err
}

// await reports whether the turn of a call that began at a time has come in its lane.
func (t *turns) await(ctx context.Context, work Work, u *turn, began time.Time) (bool, error) {
	if work == WorkShort && u.bytes > guard.SmallCall {
		work = workLargeShort
	}
	longest, fraction := work.patience()
	if deadline, limited := ctx.Deadline(); limited {
		longest = min(longest, time.Duration(float64(deadline.Sub(began))*fraction))
	}
	u.lane, u.settled = &t.lanes[work], make(chan struct{})
	u.hurried, u.hurry = context.WithCancel(context.Background())
	t.mutex.Lock()
	t.arrive(u)
	granted := u.granted
	t.mutex.Unlock()
	if granted {
		return true, nil
	}
	var err error
	select {
	case <-u.settled:
	case <-time.After(longest - time.Since(began)):
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if u.granted && err == nil {
		return true, nil
	}
	u.hurry()
	u.lane.queue.leave(u, 0)
	t.end(u)
	return false, err
}

// arrive puts a call in its queue, and lets it run or sees to it that it soon may.
func (t *turns) arrive(u *turn) {
	defer t.count()
	l := u.lane
	l.queue.add(u)
	t.dispatch(l)
	if u.granted {
		return
	}
	if l.queue.waiting > t.maxQueue { // Too many wait.
		last := l.queue.last()
		l.queue.leave(last, 0)
		close(last.settled)
	}
	if len(l.running) < t.limit { // It waits for memory.
		t.reclaim(l)
	}
	if u.waits {
		l.hurryFor(u)
	}
}

// lend returns another turn for a call that has one, if one is free, until a call waits.
func (t *turns) lend(u *turn, reserve func() bool) (*turn, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	l := &t.lanes[WorkDecision]
	if l.queue.waiting > 0 || len(l.running) >= t.limit || !reserve() {
		return nil, false
	}
	lent := &turn{caller: u.caller, connection: u.connection, bytes: u.bytes, lane: l, lent: true, began: time.Now()}
	lent.hurried, lent.hurry = context.WithCancel(context.Background())
	l.running = append(l.running, lent)
	return lent, true
}

// reclaimAll asks for the memory of turns that are lent and of questions.
func (t *turns) reclaimAll() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.reclaim(nil)
}

// reclaim does so for a call in a lane.
func (t *turns) reclaim(l *lane) {
	questions := &t.lanes[WorkQuestion]
	for _, u := range slices.Concat(t.lanes[WorkDecision].running, questions.running) {
		if u.lent || l != questions {
			u.hurry()
		}
	}
}

// release ends a turn.
func (t *turns) release(u *turn) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	u.hurry()
	t.end(u)
}

// end takes a turn away, where the call has one, for the next.
func (t *turns) end(u *turn) {
	l := u.lane
	if i := slices.Index(l.running, u); i >= 0 {
		l.running = slices.Delete(l.running, i, i+1)
		if !u.lent {
			u.over.count(-1, 0)
		}
		t.dispatch(l)
	}
	t.count()
}

// memoryFreed lets calls in that have waited for memory.
func (t *turns) memoryFreed() {
	if t.waiting.Load() == 0 || !t.freed.CompareAndSwap(false, true) {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.freed.Store(false)
	for work := range t.lanes {
		t.dispatch(&t.lanes[work])
	}
	t.count()
}

// mostTries is how many calls for which there is no memory are tried each time that turns are
// given: one of each caller, each time of others.
const mostTries = 16

// dispatch grants the turns that are free.
func (t *turns) dispatch(l *lane) {
	var tried []*crowd
	for len(tried) < mostTries && len(l.running) < t.limit && len(l.queue.next) > 0 {
		caller := l.queue.next[0]
		u := caller.first()
		if u == nil {
			break
		}
		if !u.reserve() {
			heap.Pop(&l.queue.next)
			tried = append(tried, caller)
			continue
		}
		l.queue.leave(u, 1)
		u.began, u.granted = time.Now(), true
		l.running = append(l.running, u)
		close(u.settled)
	}
	for _, caller := range tried {
		l.queue.number++
		caller.tried = l.queue.number
		heap.Push(&l.queue.next, caller)
	}
}

// hurryFor asks a running call to end its search for one that waits: a lent turn, else the one
// that has run for longest of those whose callers, or connections of the same caller, have more
// turns than that of the waiting one would have, or that have had their fair time. It asks no
// more calls than wait.
func (l *lane) hurryFor(waiting *turn) {
	hurried := 0
	var longest *turn
	for _, u := range l.running {
		switch {
		case u.hurried.Err() != nil:
			hurried++
		case longest != nil && longest.lent:
		case u.lent:
			longest = u
		case !u.over.hasMore(waiting.over) && time.Since(u.began) < fairTime:
		case longest == nil || u.began.Before(longest.began):
			longest = u
		}
	}
	if longest != nil && hurried < l.queue.waiting {
		longest.hurry()
	}
}

// count takes note of how many calls wait.
func (t *turns) count() {
	waiting := 0
	for work := range t.lanes {
		waiting += t.lanes[work].queue.waiting
	}
	t.waiting.Store(int64(waiting))
}

// inflight returns how many calls' methods run.
func (t *turns) inflight() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	calls := 0
	for work := range t.lanes {
		calls += t.lanes[work].queue.running
	}
	return calls
}

// Turn is what the method of a call may take.
type Turn struct {
	// Shed says that the method runs without a turn for a search, and must be done soon.
	Shed bool
	// Hurry ends when the method is to end soon.
	Hurry context.Context
	// Lend lends further turns.
	Lend solver.AcquireWorker
}
