package ingress

import (
	"cmp"
	"container/heap"
	"container/list"
	"math/bits"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// queue orders the calls that wait for turns of one kind: whose caller has fewer turns comes
// first, then small calls before large ones, then the caller that was served longest ago, and
// so on for the connections of a caller. Every change takes time in the logarithm of their
// number, since it is made with the turns locked.
type queue struct {
	callers map[string]*callerCalls // that wait or have a turn
	// lines are the first of each caller and size class, small ones apart.
	small, large order[*callerLine]
	crowds       order[*callerCalls] // the callers, most waiting calls first
	waiting      int
	number       int // of what has come or was served last
}

// callerCalls are the calls of a caller, over connections.
type callerCalls struct {
	crowd
	connections map[string]*connectionCalls
	crowds      order[*connectionCalls]
	lines       map[int]*callerLine // by size class
}

// connectionCalls are those over one connection.
type connectionCalls struct{ crowd }

// crowd counts the calls of a caller or a connection.
type crowd struct {
	running, waiting int
	served           int // the number of its last turn
	index            int
}

func (c *crowd) place() *int                              { return &c.index }
func (c *callerCalls) before(o *callerCalls) bool         { return c.waiting > o.waiting }
func (c *connectionCalls) before(o *connectionCalls) bool { return c.waiting > o.waiting }

// callerLine is the calls of a caller that are of one size class.
type callerLine struct {
	caller       *callerCalls
	class        int
	since, tried int // the numbers when it came, and when its first call did not fit
	byConnection map[*connectionCalls]*connectionLine
	lines        order[*connectionLine]
	index        int
}

func (l *callerLine) place() *int { return &l.index }

func (l *callerLine) before(o *callerLine) bool {
	return cmp.Or(
		cmp.Compare(l.caller.running, o.caller.running), cmp.Compare(l.class, o.class),
		cmp.Compare(max(l.caller.served, l.tried), max(o.caller.served, o.tried)), cmp.Compare(l.since, o.since),
	) < 0
}

// first returns the call of the line that comes first.
func (l *callerLine) first() *turn { return l.lines[0].calls.Front().Value.(*turn) }

// connectionLine is those of them that came over one connection, in their order.
type connectionLine struct {
	of         *callerLine
	connection *connectionCalls
	since      int
	calls      list.List // of *turn
	index      int
}

func (l *connectionLine) place() *int { return &l.index }

func (l *connectionLine) before(o *connectionLine) bool {
	return cmp.Or(
		cmp.Compare(l.connection.running, o.connection.running), cmp.Compare(l.connection.served, o.connection.served),
		cmp.Compare(l.since, o.since),
	) < 0
}

// class returns the size class of a call: 0 for small ones, and one more for each doubling.
func (u *turn) class() int { return bits.Len(uint(max(0, u.bytes-1) / guard.SmallCall)) }

// heads returns the lines among which those of a size class are.
func (q *queue) heads(class int) *order[*callerLine] {
	if class == 0 {
		return &q.small
	}
	return &q.large
}

// of returns the caller and the connection of a call.
func (q *queue) of(u *turn) (*callerCalls, *connectionCalls) {
	c := q.callers[u.caller]
	if c == nil {
		if q.callers == nil {
			q.callers = make(map[string]*callerCalls)
		}
		c = &callerCalls{connections: make(map[string]*connectionCalls), lines: make(map[int]*callerLine)}
		q.callers[u.caller] = c
		q.crowds.push(c)
	}
	own := c.connections[u.connection]
	if own == nil {
		own = new(connectionCalls)
		c.connections[u.connection] = own
		c.crowds.push(own)
	}
	return c, own
}

// count adds to the numbers of calls of a caller and its connection, which are forgotten when
// they have none.
func (q *queue) count(u *turn, running, waiting int) {
	c, own := q.of(u)
	if running != 0 { // Several lines move: one at a time would find the others out of order.
		for class, line := range c.lines {
			q.heads(class).remove(line)
		}
	}
	c.running, own.running = c.running+running, own.running+running
	c.waiting, own.waiting = c.waiting+waiting, own.waiting+waiting
	if running > 0 {
		q.number++
		c.served, own.served = q.number, q.number
	}
	if running != 0 {
		for class, line := range c.lines {
			if l := line.byConnection[own]; l != nil {
				line.lines.fix(l)
			}
			q.heads(class).push(line)
		}
	}
	q.waiting += waiting
	q.crowds.fix(c)
	c.crowds.fix(own)
	if own.running+own.waiting == 0 {
		c.crowds.remove(own)
		delete(c.connections, u.connection)
	}
	if c.running+c.waiting == 0 {
		q.crowds.remove(c)
		delete(q.callers, u.caller)
	}
}

// add puts a call in the queue.
func (q *queue) add(u *turn) {
	q.number++
	c, own := q.of(u)
	class := u.class()
	line := c.lines[class]
	if line == nil {
		line = &callerLine{caller: c, class: class, since: q.number, byConnection: make(map[*connectionCalls]*connectionLine)}
		c.lines[class] = line
	}
	l := line.byConnection[own]
	if l == nil {
		l = &connectionLine{of: line, connection: own, since: q.number}
		line.byConnection[own] = l
		line.lines.push(l)
		if len(line.lines) == 1 {
			q.heads(class).push(line)
		}
	}
	u.line, u.element = l, l.calls.PushBack(u)
	q.count(u, 0, 1)
}

// leave takes a call out of the queue, if it is there.
func (q *queue) leave(u *turn) {
	l := u.line
	if l == nil {
		return
	}
	u.line = nil
	l.calls.Remove(u.element)
	if line := l.of; l.calls.Len() == 0 {
		line.lines.remove(l)
		delete(line.byConnection, l.connection)
		if len(line.lines) == 0 {
			q.heads(line.class).remove(line)
			delete(line.caller.lines, line.class)
		}
	}
	q.count(u, 0, -1)
}

// first returns the line whose first call comes first, of small ones only where there is no
// turn for others; nil where there is none.
func (q *queue) first(onlySmall bool) *callerLine {
	switch {
	case len(q.small) == 0 && (onlySmall || len(q.large) == 0):
		return nil
	case onlySmall || len(q.large) == 0 || len(q.small) > 0 && q.small[0].before(q.large[0]):
		return q.small[0]
	default:
		return q.large[0]
	}
}

// last returns the call that is turned away where too many wait: of the caller of which most
// wait, and of its connection of which most do, the last of the largest.
func (q *queue) last() *turn {
	c := q.crowds[0]
	own, largest := c.crowds[0], (*connectionLine)(nil)
	for _, line := range c.lines {
		if l := line.byConnection[own]; l != nil && (largest == nil || line.class > largest.of.class) {
			largest = l
		}
	}
	return largest.calls.Back().Value.(*turn)
}

// order is a heap of what is to be found by its order.
type order[T ordered[T]] []T

// ordered comes before others or not, and knows its place among them.
type ordered[T any] interface {
	before(T) bool
	place() *int
}

func (o *order[T]) push(x T)   { heap.Push(o, x) }
func (o *order[T]) fix(x T)    { heap.Fix(o, *x.place()) }
func (o *order[T]) remove(x T) { heap.Remove(o, *x.place()) }

// Len, Less, Swap, Push and Pop are for container/heap.
func (o order[T]) Len() int { return len(o) }

// Less is for container/heap.
func (o order[T]) Less(i, j int) bool { return o[i].before(o[j]) }

// Swap is for container/heap.
func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	*o[i].place(), *o[j].place() = i, j
}

// Push is for container/heap.
func (o *order[T]) Push(x any) {
	*x.(T).place() = len(*o)
	*o = append(*o, x.(T))
}

// Pop is for container/heap.
func (o *order[T]) Pop() any {
	last := (*o)[len(*o)-1]
	clear((*o)[len(*o)-1:])
	*o = (*o)[:len(*o)-1]
	return last
}
