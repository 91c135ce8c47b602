package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// model is a queue that examines all of its calls each time.
type model struct {
	waiting, running []*ticket
	arrived          map[*ticket]int
	served           map[string]int
}

// counts returns how many calls each caller and each connection has.
func counts(calls []*ticket) map[string]int {
	has := make(map[string]int)
	for _, u := range calls {
		has[u.caller]++
		has[u.connection]++
	}
	return has
}

// TestQueue compares the next and the rejected call of the queue with a model, after random sequences of calls that
// arrive, run, complete or are canceled.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := new(queue)
		m := model{arrived: make(map[*ticket]int), served: make(map[string]int)}
		forget := func(u *ticket) {
			for _, name := range []string{u.caller, u.connection} {
				if counts(m.waiting)[name]+counts(m.running)[name] == 0 {
					delete(m.served, name)
				}
			}
		}
		pick := func(calls []*ticket) *ticket { return calls[rapid.IntRange(0, len(calls)-1).Draw(t, "which")] }
		for n := range rapid.IntRange(1, 100).Draw(t, "changes") {
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what <= 1 || len(m.waiting) == 0 && len(m.running) == 0:
				u := newTicket(rapid.SampledFrom([]string{"a1", "a2", "b1", "b2", "b3", "c1", "d1"}).Draw(t, "connection"),
					guard.SmallCall/2<<rapid.IntRange(0, 3).Draw(t, "size"))
				q.add(u)
				m.waiting, m.arrived[u] = append(m.waiting, u), n
			case what == 2 && len(m.waiting) > 0:
				u := pick(m.waiting)
				q.remove(u, 0)
				m.waiting = remove(m.waiting, u)
				forget(u)
			case what == 3 && len(m.running) > 0:
				u := pick(m.running)
				q.count(u, -1, 0)
				m.running = remove(m.running, u)
				forget(u)
			case len(m.waiting) > 0:
				u := q.next()
				m.checkFirst(t, u)
				q.remove(u, 1)
				m.waiting, m.running = remove(m.waiting, u), append(m.running, u)
				m.served[u.caller], m.served[u.connection] = n+1, n+1
			}
			if len(q.calls) != len(m.waiting) {
				t.Fatalf("%d calls wait; want %d", len(q.calls), len(m.waiting))
			}
			if len(q.calls) > 0 {
				m.checkLast(t, q.last())
			}
		}
		for len(m.waiting) > 0 {
			q.remove(m.waiting[0], 0)
			m.waiting = m.waiting[1:]
		}
		for _, u := range m.running {
			q.count(u, -1, 0)
		}
		if len(q.callers)+len(q.calls)+q.running > 0 {
			t.Fatalf("the queue is not empty: %+v", q)
		}
	})
}

func remove(calls []*ticket, u *ticket) []*ticket {
	var kept []*ticket
	for _, other := range calls {
		if other != u {
			kept = append(kept, other)
		}
	}
	return kept
}

// checkFirst checks that u is the first call of its connection, that this is the first connection of its caller, and
// that this is the first caller.
func (m *model) checkFirst(t *rapid.T, u *ticket) {
	caller, connection := func(u *ticket) string { return u.caller }, func(u *ticket) string { return u.connection }
	has := counts(m.running)
	bySlots := func(of func(*ticket) string) func(a, b *ticket) int {
		return func(a, b *ticket) int {
			return cmp.Or(
				cmp.Compare(has[of(a)], has[of(b)]), cmp.Compare(a.class(), b.class()), cmp.Compare(m.served[of(a)], m.served[of(b)]),
			)
		}
	}
	firsts := func(calls []*ticket, of func(*ticket) string, compare func(a, b *ticket) int) []*ticket {
		first := make(map[string]*ticket)
		for _, other := range calls {
			if known := first[of(other)]; known == nil || compare(other, known) < 0 {
				first[of(other)] = other
			}
		}
		return slices.Collect(maps.Values(first))
	}
	ofConnections := firsts(m.waiting, connection, func(a, b *ticket) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(m.arrived[a], m.arrived[b]))
	})
	if !slices.Contains(ofConnections, u) {
		t.Fatalf("%s of %d bytes is not the first of its connection", u.connection, u.bytes)
	}
	for _, other := range ofConnections {
		if other.caller == u.caller && bySlots(connection)(other, u) < 0 {
			t.Fatalf("%s of %d bytes is before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
	for _, other := range firsts(ofConnections, caller, bySlots(connection)) {
		if bySlots(caller)(other, u) < 0 {
			t.Fatalf("%s of %d bytes is before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
}

// checkLast checks that no caller and no connection has more waiting calls than the caller and the connection of u,
// and that no call of its connection must be rejected before it.
func (m *model) checkLast(t *rapid.T, u *ticket) {
	has := counts(m.waiting)
	for _, other := range m.waiting {
		if has[other.caller] > has[u.caller] || other.caller == u.caller && has[other.connection] > has[u.connection] ||
			other.connection == u.connection && cmp.Or(cmp.Compare(other.class(), u.class()), cmp.Compare(m.arrived[other], m.arrived[u])) > 0 {
			t.Fatalf("%s of %d bytes is rejected before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
}

// BenchmarkSlotsLocked measures for how long a call that arrives, completes or frees memory locks the slots, if many
// calls wait for memory.
func BenchmarkSlotsLocked(b *testing.B) {
	for _, callers := range []int{1, 100} {
		for _, waiting := range []int{64, 256, 1024, 10_000} {
			b.Run(fmt.Sprintf("%d callers, %d waiting", callers, waiting), func(b *testing.B) {
				slots := newSlots(4, 100_000)
				search := &slots.lanes[WorkDecision]
				memory := guard.NewMemory(16 << 20)
				full := memory.NewReservation("full")
				full.Set(memory.MaxCall())
				for n := range waiting {
					u := newTicket(fmt.Sprintf("%c%d", 'A'+n%callers, n%7), guard.SmallCall<<(n%6))
					u.caller = fmt.Sprint(n % callers)
					r := memory.NewReservation(u.caller)
					u.bytes, u.reserve = u.bytes+1, func() bool { return r.Set(u.bytes) }
					search.queue.add(u)
				}
				slots.updateWaiting()
				var locked [3][]time.Duration
				for b.Loop() {
					u := newTicket("x1", 2*guard.SmallCall)
					r := memory.NewReservation("x")
					u.reserve = func() bool { return r.Set(u.bytes) }
					start := time.Now()
					search.queue.add(u)
					slots.dispatch(search)
					arrived := time.Now()
					search.queue.remove(u, 0)
					slots.updateWaiting()
					left := time.Now()
					slots.onMemoryFreed()
					for i, took := range []time.Duration{arrived.Sub(start), left.Sub(arrived), time.Since(left)} {
						locked[i] = append(locked[i], took)
					}
				}
				for i, name := range []string{"arrive-µs", "leave-µs", "freed-µs"} {
					slices.Sort(locked[i]) // The median, because of other load on the machine.
					b.ReportMetric(float64(locked[i][b.N/2].Nanoseconds())/1e3, name)
				}
			})
		}
	}
}
