package ingress

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

const (
	// maxWaitFraction is the fraction of the time until a call's deadline that it may
	// wait: the rest must suffice for deciding, or for asking another server.
	maxWaitFraction = 1.0 / 2

	// longestSearchWait and maxSearchWaitFraction are the same for a call that can be
	// answered without a search, and longestShortWait for that answer: it is the last
	// that this server can give.
	longestSearchWait     = 100 * time.Millisecond
	maxSearchWaitFraction = 1.0 / 4
	longestShortWait      = 5 * time.Second

	// fairTime is how long a call may run undisturbed while others wait, though its
	// caller has no more turns than they.
	fairTime = time.Second
)

// Work is what a method does for a call.
type Work int

// The kinds of work.
const (
	// WorkSearch waits for a turn, and is turned away if none comes in time.
	WorkSearch Work = iota
	// WorkSearchOrShed is like it, but where no turn comes in time the method runs all the
	// same, among those of WorkShort: Shed says so, and it must be done soon.
	WorkSearchOrShed
	// WorkShort is done in little time. It never waits for searches.
	WorkShort
)

// turns limits how many methods run at once, and is fair to callers: who has fewer
// turns comes first, small calls come before large ones, callers take turns, and so do the
// connections of a caller. Where a caller or a connection has more turns than one that
// waits, one of its calls is asked to end its search.
type turns struct {
	mutex         sync.Mutex
	search, short lane
	waiting       atomic.Int64
	// freed says that turns are about to be given for memory that was freed: once for all that
	// is freed meanwhile.
	freed atomic.Bool

	// open counts the calls of each caller, most at most, so that not even the wait for mutex
	// is for one caller's alone.
	openMutex sync.Mutex
	open      map[string]int
	most      int
}

// lane is turns of one kind: limit calls run at once, and forSmall more that are small, so
// that they need not wait for large ones.
type lane struct {
	limit, forSmall int
	maxQueue        int
	running         []*turn
	queue           queue
}

// turn is a call that waits for its turn or has it.
type turn struct {
	// caller makes the call, from the address and port of connection.
	caller, connection string
	// bytes is how large the call is, and reserve takes them; it reports whether there
	// is room.
	bytes   int
	reserve func() bool
	// shed says that it runs without a turn for a search.
	shed bool
	// lent says that it is beside the turn of the call itself, until another call waits.
	lent bool

	// line is where it waits, as element; nil where it does not.
	line    *connectionLine
	element *list.Element

	// granted is closed when the turn has come, refused when it will not.
	granted, refused chan struct{}
	began            time.Time
	// hurried ends when the call is to end its search.
	hurried context.Context
	hurry   context.CancelFunc
}

func newTurns(maxInflight, maxQueue int) *turns {
	return &turns{
		search: lane{limit: maxInflight, maxQueue: maxQueue},
		short:  lane{limit: maxInflight, forSmall: maxInflight, maxQueue: maxQueue},
		// Beyond, a caller's calls would be turned away from both queues.
		open: make(map[string]int), most: 2*maxQueue + 3*maxInflight + 1,
	}
}

// take waits for a turn, which release ends. It fails if the turn does not come in time,
// if too many others wait or if ctx ends.
func (t *turns) take(ctx context.Context, work Work, u *turn) error {
	began := time.Now()
	within := func(longest time.Duration, fraction float64) time.Time {
		if deadline, limited := ctx.Deadline(); limited {
			longest = min(longest, time.Duration(float64(deadline.Sub(began))*fraction))
		}
		return began.Add(longest)
	}
	if !t.enter(u) {
		return guard.Overload()
	}
	defer t.exit(u)
	if work == WorkSearchOrShed {
		ok, err := t.await(ctx, &t.search, u, within(longestSearchWait, maxSearchWaitFraction))
		if ok || err != nil {
			return err
		}
		u.shed, work = true, WorkShort
	}
	l, longest := &t.search, guard.LongestWait
	if work == WorkShort {
		l, longest = &t.short, longestShortWait
	}
	ok, err := t.await(ctx, l, u, within(longest, maxWaitFraction))
	if !ok && err == nil {
		err = guard.Overload()
	}
	return err
}

// enter counts a call that waits, and reports whether its caller may have one more.
func (t *turns) enter(u *turn) bool {
	t.openMutex.Lock()
	defer t.openMutex.Unlock()
	if t.open[u.caller] >= t.most {
		return false
	}
	t.open[u.caller]++
	return true
}

func (t *turns) exit(u *turn) {
	t.openMutex.Lock()
	defer t.openMutex.Unlock()
	if t.open[u.caller]--; t.open[u.caller] == 0 {
		delete(t.open, u.caller)
	}
}

// await reports whether the turn of a call has come in a lane before a time.
func (t *turns) await(ctx context.Context, l *lane, u *turn, end time.Time) (bool, error) {
	u.granted, u.refused = make(chan struct{}), make(chan struct{})
	u.hurried, u.hurry = context.WithCancel(context.Background())
	t.mutex.Lock()
	l.queue.add(u)
	t.dispatch(l)
	if !u.isGranted() {
		l.trim()
		if l.hasTurn(u) { // It waits for memory.
			t.search.reclaim()
		}
		if u.line != nil {
			l.hurryFor(u)
		}
	}
	t.mutex.Unlock()
	if u.isGranted() {
		return true, nil
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	var err error
	select {
	case <-u.granted:
		return true, nil
	case <-u.refused:
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if u.isGranted() {
		if err == nil {
			return true, nil
		}
		l.end(u)
		t.dispatch(l)
	}
	l.queue.leave(u)
	t.count()
	u.hurry()
	return false, err
}

// lend returns another turn for a call that has one, if one is free and no call waits. It is
// hurried as soon as one does.
func (t *turns) lend(u *turn, reserve func() bool) (*turn, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	l := &t.search
	lent := &turn{caller: u.caller, connection: u.connection, bytes: u.bytes, lent: true, began: time.Now()}
	if l.queue.waiting > 0 || !l.hasTurn(lent) || !reserve() {
		return nil, false
	}
	lent.hurried, lent.hurry = context.WithCancel(context.Background())
	l.running = append(l.running, lent)
	return lent, true
}

// reclaim asks for all turns that are lent, for their memory.
func (t *turns) reclaim() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.search.reclaim()
}

func (l *lane) reclaim() {
	for _, u := range l.running {
		if u.lent {
			u.hurry()
		}
	}
}

func (u *turn) isGranted() bool {
	select {
	case <-u.granted:
		return true
	default:
		return false
	}
}

// release ends a turn.
func (t *turns) release(u *turn) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	u.hurry()
	for _, l := range []*lane{&t.search, &t.short} {
		if l.end(u) {
			t.dispatch(l)
		}
	}
}

// memoryFreed lets calls in that have waited for memory.
func (t *turns) memoryFreed() {
	if t.waiting.Load() == 0 || !t.freed.CompareAndSwap(false, true) {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.freed.Store(false)
	t.dispatch(&t.search)
	t.dispatch(&t.short)
}

// mostTries is how many calls for which there is no memory are tried each time that turns are
// given: one of each caller and size class, each time others.
const mostTries = 16

// dispatch grants the turns that are free.
func (t *turns) dispatch(l *lane) {
	defer t.count()
	var tried []*callerLine
	for len(tried) < mostTries && len(l.running) < l.limit+l.forSmall {
		line := l.queue.first(!l.hasTurn(&turn{bytes: guard.SmallCall + 1}))
		if line == nil {
			break
		}
		u := line.first()
		if !l.hasTurn(u) {
			break
		}
		if !u.reserve() {
			l.queue.heads(line.class).remove(line)
			tried = append(tried, line)
			continue
		}
		l.queue.count(u, 1, 0)
		l.queue.leave(u)
		u.began = time.Now()
		l.running = append(l.running, u)
		close(u.granted)
	}
	for _, line := range tried {
		l.queue.number++
		line.tried = l.queue.number
		l.queue.heads(line.class).push(line)
	}
}

// hasTurn reports whether there is a turn for a call.
func (l *lane) hasTurn(u *turn) bool {
	large := 0
	for _, running := range l.running {
		if !running.isSmall() {
			large++
		}
	}
	return len(l.running) < l.limit+l.forSmall && (large < l.limit || l.forSmall > 0 && u.isSmall())
}

// isSmall reports whether large calls do not keep a call waiting.
func (u *turn) isSmall() bool { return u.bytes <= guard.SmallCall }

// trim turns a call away where too many wait.
func (l *lane) trim() {
	if l.queue.waiting > l.maxQueue {
		last := l.queue.last()
		l.queue.leave(last)
		close(last.refused)
	}
}

// hurryFor asks a running call to end its search, so that it is the turn of one that
// waits: one with a lent turn to give that back or, where none is, the one that has run for
// longest of those whose callers, or connections of the same caller, have more turns than
// that of the waiting one would have, or that have had their fair time. It asks no more
// calls than wait.
func (l *lane) hurryFor(waiting *turn) {
	ofWaiting, overSame := l.queue.of(waiting)
	hurried := 0
	var longest *turn
	for _, u := range l.running {
		if u.hurried.Err() != nil {
			hurried++
			continue
		}
		if u.lent {
			longest = u
		}
		if longest != nil && longest.lent {
			continue
		}
		c, over := l.queue.of(u)
		more := c.running >= ofWaiting.running+2 || c == ofWaiting && over.running >= overSame.running+2
		if !more && time.Since(u.began) < fairTime {
			continue
		}
		if longest == nil || u.began.Before(longest.began) {
			longest = u
		}
	}
	if longest != nil && hurried < l.queue.waiting {
		longest.hurry()
	}
}

// end takes a turn away, and reports whether the call had one.
func (l *lane) end(u *turn) bool {
	i := slices.Index(l.running, u)
	if i < 0 {
		return false
	}
	l.running = slices.Delete(l.running, i, i+1)
	if !u.lent {
		l.queue.count(u, -1, 0)
	}
	return true
}

// count takes note of how many calls wait.
func (t *turns) count() { t.waiting.Store(int64(t.search.queue.waiting + t.short.queue.waiting)) }

// inflight returns how many calls' methods run.
func (t *turns) inflight() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	calls := 0
	for _, running := range [][]*turn{t.search.running, t.short.running} {
		for _, u := range running {
			if !u.lent {
				calls++
			}
		}
	}
	return calls
}

// turnKey is the key of the turn in the context of a call.
type turnKey struct{}

// Turn is what the method of a call may take. The zero value is that of code that needs no
// turn.
type Turn struct {
	// Shed says that the method was to wait for its turn and runs without one: too many
	// wait, and it must be done soon.
	Shed bool
	// Hurry is closed when the method is to end soon.
	Hurry <-chan struct{}
	// Lend lends further turns.
	Lend solver.Lend
}

// TurnOf returns the turn of the call that ctx belongs to.
func TurnOf(ctx context.Context) Turn {
	turn, _ := ctx.Value(turnKey{}).(Turn)
	return turn
}
