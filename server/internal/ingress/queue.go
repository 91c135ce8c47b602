package ingress

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// flow is a level of a fair queue: the calls of a lane, of a caller in the lane, or of a connection
// of the caller. Its children are ordered by the number of their slots, the size class of their first
// call and the time since they were last served. All changes take logarithmic time, because slots is
// locked during them.
type flow struct {
	parent   *flow // nil for a lane
	name     string
	children map[string]*flow
	order    flowHeap  // the children, first the one to serve next
	calls    []*ticket // of a connection, those that wait: by size class, then by arrival

	running, waiting int
	// arrived, served and tried are the times, by the clock of the lane, at which the flow was
	// created, last got a slot, and last had a first call without enough memory.
	arrived, served, tried int
	index                  int // in parent.order
	clock                  int // of a lane: the number of arrivals and grants so far
}

// before reports whether a flow is served before another.
func (f *flow) before(o *flow) bool {
	if f.waiting == 0 || o.waiting == 0 {
		return f.waiting > o.waiting
	}
	return cmp.Or(
		cmp.Compare(f.running, o.running), cmp.Compare(f.first().class(), o.first().class()),
		cmp.Compare(max(f.served, f.tried), max(o.served, o.tried)), cmp.Compare(f.arrived, o.arrived),
	) < 0
}

// class returns the size class of a call: 0 up to guard.SmallCall, and one more for each doubling.
func (t *ticket) class() int { return bits.Len(uint(max(0, t.bytes-1) / guard.SmallCall)) }

// compare orders the calls of a connection.
func (t *ticket) compare(o *ticket) int {
	return cmp.Or(cmp.Compare(t.class(), o.class()), cmp.Compare(t.number, o.number))
}

// child returns the child with a name. It creates the child if there is none.
func (f *flow) child(name string, now int) *flow {
	c := f.children[name]
	if c == nil {
		c = &flow{parent: f, name: name, arrived: now}
		if f.children == nil {
			f.children = make(map[string]*flow)
		}
		f.children[name] = c
		heap.Push(&f.order, c)
	}
	return c
}

// add adds a call to the queue of a lane.
func (f *flow) add(t *ticket) {
	f.clock++
	t.number, t.waits = f.clock, true
	t.flow = f.child(t.caller, f.clock).child(t.connection, f.clock)
	i, _ := slices.BinarySearchFunc(t.flow.calls, t, (*ticket).compare)
	t.flow.calls = slices.Insert(t.flow.calls, i, t)
	t.flow.count(0, 1)
}

// remove removes a call from the queue, if it waits. running is 1 if it gets a slot, otherwise 0.
func (f *flow) remove(t *ticket, running int) {
	if !t.waits {
		return
	}
	t.waits = false
	i, _ := slices.BinarySearchFunc(t.flow.calls, t, (*ticket).compare)
	t.flow.calls = slices.Delete(t.flow.calls, i, i+1)
	t.flow.count(running, -1)
}

// count changes the numbers of running and waiting calls of a flow and of its ancestors.
func (f *flow) count(running, waiting int) {
	f.running, f.waiting = f.running+running, f.waiting+waiting
	if f.parent == nil {
		return
	}
	lane := f.parent
	for lane.parent != nil {
		lane = lane.parent
	}
	if running > 0 {
		lane.clock++
		f.served = lane.clock
	}
	heap.Fix(&f.parent.order, f.index)
	if f.running+f.waiting == 0 {
		heap.Remove(&f.parent.order, f.index)
		delete(f.parent.children, f.name)
	}
	f.parent.count(running, waiting)
}

// first returns the call to serve next, or nil if none waits.
func (f *flow) first() *ticket {
	switch {
	case f.waiting == 0:
		return nil
	case len(f.calls) > 0:
		return f.calls[0]
	default:
		return f.order[0].first()
	}
}

// last returns the call to reject if too many wait: the last of the largest calls of the connection
// with the largest queue, of the caller with the largest queue.
func (f *flow) last() *ticket {
	if len(f.calls) > 0 {
		return f.calls[len(f.calls)-1]
	}
	byWaiting := func(a, b *flow) int { return cmp.Compare(a.waiting, b.waiting) }
	return slices.MaxFunc(f.order, byWaiting).last()
}

// exceeds reports whether the caller of a connection has at least two slots more than the caller of
// another. For connections of the same caller, it compares the connections.
func (f *flow) exceeds(o *flow) bool {
	return f.parent.running >= o.parent.running+2 || f.parent == o.parent && f.running >= o.running+2
}

// flowHeap is a heap of flows for container/heap. It keeps their indices up to date.
type flowHeap []*flow

// Len returns the number of flows.
func (h flowHeap) Len() int { return len(h) }

// Less reports whether the flow at i is served before the flow at j.
func (h flowHeap) Less(i, j int) bool { return h[i].before(h[j]) }

// Swap swaps two flows.
func (h flowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a flow.
func (h *flowHeap) Push(x any) {
	f := x.(*flow)
	f.index = len(*h)
	*h = append(*h, f)
}

// Pop removes the last flow.
func (h *flowHeap) Pop() any {
	end := len(*h) - 1
	last := (*h)[end]
	*h = slices.Delete(*h, end, end+1)
	return last
}
