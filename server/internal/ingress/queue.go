package ingress

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// maxTries is the maximum number of calls without enough memory that next tries, one per caller. The next
// call tries other callers.
const maxTries = 16

// queue is the calls of a lane that wait for a slot. It examines all of them each time: there are at most as many as
// Config.MaxQueue.
type queue struct {
	calls   []*ticket
	callers map[string]*share
	running int
	clock   int // number of arrivals, grants and failed tries so far
}

// share is what a caller, or a connection of a caller, has of a lane.
type share struct {
	caller      *share            // of a connection
	connections map[string]*share // of a caller

	running, waiting int // numbers of calls
	// arrived, served and tried are the times, by the clock of the queue, at which the first call arrived, the
	// last one got a slot, and the last one was tried without enough memory.
	arrived, served, tried int
}

// class returns the size class of a call: 0 up to guard.SmallCall, and one more for each doubling.
func (t *ticket) class() int { return bits.Len(uint(max(0, t.bytes-1) / guard.SmallCall)) }

// compareShares orders two calls by shares of them: fewer slots first, then smaller calls, then shares that were
// served longer ago.
func compareShares(t, o *ticket, of, other *share) int {
	return cmp.Or(
		cmp.Compare(of.running, other.running), cmp.Compare(t.class(), o.class()),
		cmp.Compare(max(of.served, of.tried), max(other.served, other.tried)), cmp.Compare(of.arrived, other.arrived),
	)
}

// add adds a call.
func (q *queue) add(t *ticket) {
	q.clock++
	t.number = q.clock
	child := func(shares *map[string]*share, name string, caller *share) *share {
		if *shares == nil {
			*shares = make(map[string]*share)
		}
		if (*shares)[name] == nil {
			(*shares)[name] = &share{caller: caller, arrived: q.clock}
		}
		return (*shares)[name]
	}
	caller := child(&q.callers, t.caller, nil)
	t.share = child(&caller.connections, t.connection, caller)
	q.calls = append(q.calls, t)
	q.count(t, 0, 1)
}

// remove removes a call, if it waits. running is 1 if it gets a slot, otherwise 0.
func (q *queue) remove(t *ticket, running int) {
	if i := slices.Index(q.calls, t); i >= 0 {
		q.calls = slices.Delete(q.calls, i, i+1)
		q.count(t, running, -1)
	}
}

// count changes the numbers of running and waiting calls of the shares of a call.
func (q *queue) count(t *ticket, running, waiting int) {
	q.running += running
	if running > 0 {
		q.clock++
	}
	for s := t.share; s != nil; s = s.caller {
		s.running, s.waiting = s.running+running, s.waiting+waiting
		if running > 0 {
			s.served = q.clock
		}
	}
	if t.share.running+t.share.waiting == 0 {
		delete(t.share.caller.connections, t.connection)
	}
	if t.share.caller.running+t.share.caller.waiting == 0 {
		delete(q.callers, t.caller)
	}
}

// firsts returns the first call of each caller, in the order of the callers.
func (q *queue) firsts() []*ticket {
	of := make(map[*share]*ticket, len(q.callers))
	for _, t := range q.calls {
		first := of[t.share.caller]
		if first == nil || cmp.Or(compareShares(t, first, t.share, first.share), cmp.Compare(t.number, first.number)) < 0 {
			of[t.share.caller] = t
		}
	}
	calls := make([]*ticket, 0, len(of))
	for _, t := range of {
		calls = append(calls, t)
	}
	slices.SortFunc(calls, func(t, o *ticket) int { return compareShares(t, o, t.share.caller, o.share.caller) })
	return calls
}

// next returns the first call that can reserve its memory, or nil if there is none.
func (q *queue) next() *ticket {
	firsts := q.firsts()
	for _, t := range firsts[:min(maxTries, len(firsts))] {
		if t.reserve() {
			return t
		}
		q.clock++
		t.share.caller.tried = q.clock
	}
	return nil
}

// last returns the call to reject if too many wait: the last of the largest calls of the connection
// with the largest queue, of the caller with the largest queue.
func (q *queue) last() *ticket {
	return slices.MaxFunc(q.calls, func(t, o *ticket) int {
		return cmp.Or(
			cmp.Compare(t.share.caller.waiting, o.share.caller.waiting), cmp.Compare(t.share.caller.arrived, o.share.caller.arrived),
			cmp.Compare(t.share.waiting, o.share.waiting), cmp.Compare(t.share.arrived, o.share.arrived),
			cmp.Compare(t.class(), o.class()), cmp.Compare(t.number, o.number),
		)
	})
}

// exceeds reports whether the caller of a connection has at least two slots more than the caller of
// another. For connections of the same caller, it compares the connections.
func (s *share) exceeds(o *share) bool {
	return s.caller.running >= o.caller.running+2 || s.caller == o.caller && s.running >= o.running+2
}
