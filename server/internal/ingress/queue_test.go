package ingress

import (
	"cmp"
	"fmt"
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
		var q queue
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
				q.leave(u)
				m.waiting = remove(m.waiting, u)
				forget(u)
			case what == 3 && len(m.running) > 0:
				u := pick(m.running)
				q.count(u, -1, 0)
				m.running = remove(m.running, u)
				forget(u)
			case len(m.waiting) > 0:
				u := q.first(false).first()
				m.checkFirst(t, u)
				q.count(u, 1, 0)
				q.leave(u)
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
			q.leave(m.waiting[0])
			m.waiting = m.waiting[1:]
		}
		for _, u := range m.running {
			q.count(u, -1, 0)
		}
		if len(q.callers)+len(q.small)+len(q.large)+len(q.crowds) > 0 {
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

// checkFirst checks that no call comes before u.
func (m *model) checkFirst(t *rapid.T, u *turn) {
	has := counts(m.running)
	for _, other := range m.waiting {
		if cmp.Or(
			cmp.Compare(has[other.caller], has[u.caller]), cmp.Compare(other.class(), u.class()),
			cmp.Compare(m.served[other.caller], m.served[u.caller]),
		) < 0 || other.caller == u.caller && other.class() == u.class() && cmp.Or(
			cmp.Compare(has[other.connection], has[u.connection]), cmp.Compare(m.served[other.connection], m.served[u.connection]),
		) < 0 || other.connection == u.connection && other.class() == u.class() && m.came[other] < m.came[u] {
			t.Fatalf("%s of %d bytes comes before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
}

// checkLast checks that u is of those of whom most wait, and none of its connection is larger.
func (m *model) checkLast(t *rapid.T, u *turn) {
	has := counts(m.waiting)
	for _, other := range m.waiting {
		if has[other.caller] > has[u.caller] || other.caller == u.caller && has[other.connection] > has[u.connection] ||
			other.connection == u.connection && cmp.Or(cmp.Compare(other.class(), u.class()), cmp.Compare(m.came[other], m.came[u])) > 0 {
			t.Fatalf("%s of %d bytes is turned away before %s of %d", u.connection, u.bytes, other.connection, other.bytes)
		}
	}
}

// TestOpenCallsOfACaller checks that one caller's calls are turned away before they wait for
// the turns, and no other's.
func TestOpenCallsOfACaller(t *testing.T) {
	t.Parallel()
	turns := newTurns(1, 2)
	for range turns.most {
		turns.enter(newTurn("a", 1))
	}
	turns.mutex.Lock() // No call may wait for it.
	err := turns.take(t.Context(), WorkSearch, newTurn("a", 1))
	turns.mutex.Unlock()
	if err == nil {
		t.Error("a caller has more calls open than could ever wait")
	}
	turns.release(mustTake(t, turns, "b"))
}

// BenchmarkTurnsLocked measures for how long a call that arrives, ends or frees memory locks the
// turns of others, beside so many that wait for memory.
func BenchmarkTurnsLocked(b *testing.B) {
	for _, callers := range []int{1, 100} {
		for _, waiting := range []int{64, 256, 1024, 10_000} {
			b.Run(fmt.Sprintf("%d callers, %d waiting", callers, waiting), func(b *testing.B) {
				turns := newTurns(4, 100_000)
				memory := guard.NewMemory(16 << 20)
				full := memory.Reservation("full")
				full.Set(memory.Most())
				for n := range waiting {
					u := newTurn(fmt.Sprintf("%c%d", 'A'+n%callers, n%7), guard.SmallCall<<(n%6))
					u.caller = fmt.Sprint(n % callers)
					r := memory.Reservation(u.caller)
					u.bytes, u.reserve = u.bytes+1, func() bool { return r.Set(u.bytes) }
					turns.search.queue.add(u)
				}
				turns.count()
				var locked [3]time.Duration
				for b.Loop() {
					u := newTurn("x1", 2*guard.SmallCall)
					r := memory.Reservation("x")
					u.reserve = func() bool { return r.Set(u.bytes) }
					start := time.Now()
					turns.search.queue.add(u)
					turns.dispatch(&turns.search)
					arrived := time.Now()
					turns.search.queue.leave(u)
					turns.count()
					left := time.Now()
					turns.memoryFreed()
					locked[0], locked[1], locked[2] = locked[0]+arrived.Sub(start), locked[1]+left.Sub(arrived), locked[2]+time.Since(left)
				}
				for i, name := range []string{"arrive-µs", "leave-µs", "freed-µs"} {
					b.ReportMetric(float64(locked[i].Nanoseconds())/1e3/float64(b.N), name)
				}
			})
		}
	}
}
