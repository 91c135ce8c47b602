package guard

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestMemory checks the invariants of the budget for random calls: it is never exceeded, the used memory is the
// sum over all calls, and a caller without calls always has room for a small call.
func TestMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 64 << 20
		m := NewMemory(limit)
		var calls []*Reservation
		for range rapid.IntRange(1, 200).Draw(t, "changes") {
			if len(calls) == 0 || rapid.Bool().Draw(t, "new") {
				calls = append(calls, m.NewReservation(fmt.Sprint(rapid.IntRange(1, 8).Draw(t, "caller"))))
			}
			r := calls[rapid.IntRange(0, len(calls)-1).Draw(t, "call")]
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				r.Release()
			} else {
				r.Set(rapid.IntRange(0, limit).Draw(t, "bytes") >> rapid.IntRange(0, 16).Draw(t, "shift"))
			}
			sum := 0
			for _, r := range calls {
				sum += r.Bytes()
			}
			if used, size := m.Usage(); used != sum || used > limit || size != limit {
				t.Fatalf("%d of %d bytes are in use; the calls use %d", used, size, sum)
			}
		}
		calls = append(calls, m.NewReservation("newcomer"))
		if !calls[len(calls)-1].Set(SmallCall / 4) {
			t.Fatalf("no room for a new caller in addition to %v and %v", m.small, m.large)
		}
		for _, r := range calls {
			r.Release()
			if r.Set(1) {
				t.Fatal("a completed call reserves memory")
			}
		}
		if len(m.small.callers)+len(m.large.callers) != 0 {
			t.Fatalf("callers remain: %v, %v", m.small.callers, m.large.callers)
		}
	})
}

// TestMemoryShares checks how many calls of one size one caller and several callers can have.
func TestMemoryShares(t *testing.T) {
	t.Parallel()
	const limit, call = 64 << 20, 1 << 20
	for callers, want := range map[int]int{1: 42, 2: 24, 10: 5} { // 56 calls fit in addition to small calls.
		m := NewMemory(limit)
		took := make([]int, callers)
		for grew := true; grew; {
			grew = false
			for caller := range callers {
				if m.NewReservation(fmt.Sprint(caller)).Set(call) {
					took[caller]++
					grew = true
				}
			}
		}
		for caller, n := range took {
			if n < want-1 || n > want+1 {
				t.Errorf("of %d callers, number %d has %d calls; want about %d", callers, caller, n, want)
			}
		}
	}
	if m := NewMemory(limit); !m.NewReservation("alone").Set(m.MaxCall()) {
		t.Error("a single caller cannot make the largest call")
	}
}

// TestMemoryFreed checks that waiting calls are notified if and only if memory is released, in part or completely.
func TestMemoryFreed(t *testing.T) {
	t.Parallel()
	m := NewMemory(8 << 20)
	notified := 0
	m.OnFreed = func() { notified++ }
	r := m.NewReservation("a")
	for i, test := range []struct {
		change func()
		frees  bool
	}{
		{func() { r.Set(2 << 20) }, false},
		{func() { r.Set(3 << 20) }, false},
		{func() { r.Set(16 << 20) }, false}, // more than the budget
		{func() { r.Set(1 << 20) }, true},
		{r.Release, true},
		{r.Release, false},
	} {
		before, freed := notified, m.awaitFreed()
		test.change()
		closed := false
		select {
		case <-freed:
			closed = true
		default:
		}
		if closed != test.frees || notified-before != map[bool]int{true: 1}[test.frees] {
			t.Errorf("change %d: %t, %d notifications; want %t", i, closed, notified-before, test.frees)
		}
	}
}
