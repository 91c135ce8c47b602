package ingress

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// crowd is the calls of a lane, those of a caller among them, or those over one of its
// connections. Of its members, the one with fewer turns comes first, then the one whose first
// call is smaller, then the one that was served longest ago. Every change takes time in the
// logarithm of their number, since it is made with the turns locked.
type crowd struct {
	of      *crowd // nil for a lane
	name    string
	members map[string]*crowd
	next    order   // the members, that whose turn it is first
	calls   []*turn // of a connection, that wait: smaller classes first, each in its order

	running, waiting     int
	since, served, tried int // when it came, had its last turn, and its first call did not fit
	place                int // in next of the crowd that it is of
	number               int // of a lane: what has come or was served last
}

// isBefore reports whether it is the turn of a crowd rather than of another.
func (c *crowd) isBefore(o *crowd) bool {
	if c.waiting == 0 || o.waiting == 0 {
		return c.waiting > o.waiting
	}
	return cmp.Or(
		cmp.Compare(c.running, o.running), cmp.Compare(c.first().class(), o.first().class()),
		cmp.Compare(max(c.served, c.tried), max(o.served, o.tried)), cmp.Compare(c.since, o.since),
	) < 0
}

// class returns the size class of a call: 0 for small ones, and one more for each doubling.
func (u *turn) class() int { return bits.Len(uint(max(0, u.bytes-1) / guard.SmallCall)) }

// compare orders the calls over a connection.
func (u *turn) compare(o *turn) int {
	return cmp.Or(cmp.Compare(u.class(), o.class()), cmp.Compare(u.number, o.number))
}

// member returns a member of a crowd, a new one where there is none of that name.
func (c *crowd) member(name string, number int) *crowd {
	m := c.members[name]
	if m == nil {
		m = &crowd{of: c, name: name, since: number}
		if c.members == nil {
			c.members = make(map[string]*crowd)
		}
		c.members[name] = m
		heap.Push(&c.next, m)
	}
	return m
}

// add puts a call in the queue of a lane.
func (c *crowd) add(u *turn) {
	c.number++
	u.number, u.waits = c.number, true
	u.over = c.member(u.caller, c.number).member(u.connection, c.number)
	i, _ := slices.BinarySearchFunc(u.over.calls, u, (*turn).compare)
	u.over.calls = slices.Insert(u.over.calls, i, u)
	u.over.count(0, 1)
}

// leave takes a call out of the queue, if it is there, and gives it its turn or not.
func (c *crowd) leave(u *turn, running int) {
	if !u.waits {
		return
	}
	u.waits = false
	i, _ := slices.BinarySearchFunc(u.over.calls, u, (*turn).compare)
	u.over.calls = slices.Delete(u.over.calls, i, i+1)
	u.over.count(running, -1)
}

// count changes how many calls over a connection run and wait, and so of its caller and lane.
func (c *crowd) count(running, waiting int) {
	c.running, c.waiting = c.running+running, c.waiting+waiting
	if c.of == nil {
		return
	}
	lane := c.of
	for lane.of != nil {
		lane = lane.of
	}
	if running > 0 {
		lane.number++
		c.served = lane.number
	}
	heap.Fix(&c.of.next, c.place)
	if c.running+c.waiting == 0 {
		heap.Remove(&c.of.next, c.place)
		delete(c.of.members, c.name)
	}
	c.of.count(running, waiting)
}

// first returns the call that comes first, nil where none waits.
func (c *crowd) first() *turn {
	switch {
	case c.waiting == 0:
		return nil
	case len(c.calls) > 0:
		return c.calls[0]
	default:
		return c.next[0].first()
	}
}

// last returns the call that is turned away where too many wait: of the caller of which most
// wait, and of its connection of which most do, the last of the largest.
func (c *crowd) last() *turn {
	if len(c.calls) > 0 {
		return c.calls[len(c.calls)-1]
	}
	byWaiting := func(a, b *crowd) int { return cmp.Compare(a.waiting, b.waiting) }
	return slices.MaxFunc(c.next, byWaiting).last()
}

// hasMore reports whether the caller of a connection, or where it is the same, the connection,
// has more turns than that of another would have with one more.
func (c *crowd) hasMore(o *crowd) bool {
	return c.of.running >= o.of.running+2 || c.of == o.of && c.running >= o.running+2
}

// order is a heap of crowds that know their places in it, for container/heap.
type order []*crowd

// Len returns how many there are.
func (o order) Len() int { return len(o) }

// Less reports whether it is the turn of one rather than of another.
func (o order) Less(i, j int) bool { return o[i].isBefore(o[j]) }

// Swap swaps two.
func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push adds one at the end.
func (o *order) Push(x any) {
	c := x.(*crowd)
	c.place = len(*o)
	*o = append(*o, c)
}

// Pop removes the one at the end.
func (o *order) Pop() any {
	end := len(*o) - 1
	last := (*o)[end]
	*o = slices.Delete(*o, end, end+1)
	return last
}
