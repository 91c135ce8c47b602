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

// model is a queue that looks at all of its calls each time.
type model struct {
	waiting, running []*turn
	came             map[*turn]int
	served           map[string]int
}

// counts returns how many calls each caller and each connection has.
func counts(calls []*turn) map[string]int {
	has := make(map[string]int)
	for _, u := range calls {
		has[u.caller]++
		has[u.connection]++
	}
	return has
}

// TestQueue holds the queue to the order that it promises: whose turn it is and who is turned
// away, whatever came, was served, ended or left before.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := new(crowd)
		m := model{came: make(map[*turn]int), served: make(map[string]int)}
		forget := func(u *turn) {
			for _, name := range []string{u.caller, u.connection} {
				if counts(m.waiting)[name]+counts(m.running)[name] == 0 {
					delete(m.served, name)
				}
			}
		}
		pick := func(calls []*turn) *turn { return calls[rapid.IntRange(0, len(calls)-1).Draw(t, "which")] }
		for n := range rapid.IntRange(1, 100).Draw(t, "changes") {
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what <= 1 || len(m.waiting) == 0 && len(m.running) == 0:
				u := newTurn(rapid.SampledFrom([]string{"a1", "a2", "b1", "b2", "b3", "c1", "d1"}).Draw(t, "connection"),
					guard.SmallCall/2<<rapid.IntRange(0, 3).Draw(t, "size"))
				q.add(u)
				m.waiting, m.came[u] = append(m.waiting, u), n
			case what == 2 && len(m.waiting) > 0:
				u := pick(m.waiting)
				q.leave(u, 0)
				m.waiting = remove(m.waiting, u)
				forget(u)
			case what == 3 && len(m.running) > 0:
				u := pick(m.running)
				u.over.count(-1, 0)
				m.running = remove(m.running, u)
				forget(u)
			case len(m.waiting) > 0:
				u := q.first()
				m.checkFirst(t, u)
				q.leave(u, 1)
				m.waiting, m.running = remove(m.waiting, u), append(m.running, u)
				m.served[u.caller], m.served[u.connection] = n+1, n+1
			}
			if q.waiting != len(m.waiting) {
				t.Fatalf("%d calls wait; want %d", q.waiting, len(m.waiting))
			}
			if q.waiting > 0 {
				m.checkLast(t, q.last())
			}
		}
		for len(m.waiting) > 0 {
			q.leave(m.waiting[0], 0)
			m.waiting = m.waiting[1:]
		}
		for _, u := range m.running {
			u.over.count(-1, 0)
		}
		if len(q.members)+len(q.next)+q.running > 0 {
			t.Fatalf("the queue is not empty: %+v", q)
		}
	})
}

func remove(calls []*turn, u *turn) []*turn {
	var rest []*turn
	for _, other := range calls {
		if other != u {
			rest = append(rest, other)
		}
	}
	return rest
}

// checkFirst checks that u comes first over its connection, that connection first of those of
// its caller, and that caller first of all.
func (m *model) checkFirst(t *rapid.T, u *turn) {
	caller, connection := func(u *turn) string { return u.caller }, func(u *turn) string { return u.connection }
	has := counts(m.running)
	byTurns := func(of func(*turn) string) func(a, b *turn) int {
		return func(a, b *turn) int {
			return cmp.Or(
				cmp.Compare(has[of(a)], has[of(b)]), cmp.Compare(a.class(), b.class()), cmp.Compare(m.served[of(a)], m.served[of(b)]),
			)
		}
	}
	firsts := func(calls []*turn, of func(*turn) string, compare func(a, b *turn) int) []*turn {
		first := make(map[string]*turn)
		for _, other := range calls {
			if known := first[of(other)]; known == nil || compare(other, known) < 0 {
				first[of(other)] = other
			}
		}
		return slices.Collect(maps.Values(first))
	}
	ofConnections := firsts(m.waiting, connection, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(m.came[a], m.came[b]))
	})
	if !slices.Contains(ofConnections, u) {
		t.Fatalf("%s of %d bytes is not the first of its connection", u.connection, u.bytes)
	}
	for _, other := range ofConnections {
		if other.caller == u.caller && byTurns(connection)(other, u) < 0 {
			t.Fatalf("%s of %d bytes comes before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
	for _, other := range firsts(ofConnections, caller, byTurns(connection)) {
		if byTurns(caller)(other, u) < 0 {
			t.Fatalf("%s of %d bytes comes before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
}

// checkLast checks that no caller and no connection has more calls waiting than those of u, and
// that no call of its connection is to be turned away before it.
func (m *model) checkLast(t *rapid.T, u *turn) {
	has := counts(m.waiting)
	for _, other := range m.waiting {
		if has[other.caller] > has[u.caller] || other.caller == u.caller && has[other.connection] > has[u.connection] ||
			other.connection == u.connection && cmp.Or(cmp.Compare(other.class(), u.class()), cmp.Compare(m.came[other], m.came[u])) > 0 {
			t.Fatalf("%s of %d bytes is turned away before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
}

// BenchmarkTurnsLocked measures for how long a call that arrives, ends or frees memory locks the
// turns of others, beside many that wait for memory.
func BenchmarkTurnsLocked(b *testing.B) {
	for _, callers := range []int{1, 100} {
		for _, waiting := range []int{64, 256, 1024, 10_000} {
			b.Run(fmt.Sprintf("%d callers, %d waiting", callers, waiting), func(b *testing.B) {
				turns := newTurns(4, 100_000)
				search := &turns.lanes[WorkDecision]
				memory := guard.NewMemory(16 << 20)
				full := memory.Reservation("full")
				full.Set(memory.Most())
				for n := range waiting {
					u := newTurn(fmt.Sprintf("%c%d", 'A'+n%callers, n%7), guard.SmallCall<<(n%6))
					u.caller = fmt.Sprint(n % callers)
					r := memory.Reservation(u.caller)
					u.bytes, u.reserve = u.bytes+1, func() bool { return r.Set(u.bytes) }
					search.queue.add(u)
				}
				turns.count()
				var locked [3][]time.Duration
				for b.Loop() {
					u := newTurn("x1", 2*guard.SmallCall)
					r := memory.Reservation("x")
					u.reserve = func() bool { return r.Set(u.bytes) }
					start := time.Now()
					search.queue.add(u)
					turns.dispatch(search)
					arrived := time.Now()
					search.queue.leave(u, 0)
					turns.count()
					left := time.Now()
					turns.memoryFreed()
					for i, took := range []time.Duration{arrived.Sub(start), left.Sub(arrived), time.Since(left)} {
						locked[i] = append(locked[i], took)
					}
				}
				for i, name := range []string{"arrive-µs", "leave-µs", "freed-µs"} {
					slices.Sort(locked[i]) // The median: others may use the machine meanwhile.
					b.ReportMetric(float64(locked[i][b.N/2].Nanoseconds())/1e3, name)
				}
			})
		}
	}
}
