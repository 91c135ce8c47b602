package guard

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestMemory checks what the budget promises whatever calls take and give back: it is
// never exceeded, what is held is what calls hold, and a caller that holds nothing always
// finds room for a small call.
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
			if held, most := m.Usage(); held != sum || held > limit || most != limit {
				t.Fatalf("%d of %d bytes are held; the calls hold %d", held, most, sum)
			}
		}
		calls = append(calls, m.NewReservation("newcomer"))
		if !calls[len(calls)-1].Set(SmallCall / 4) {
			t.Fatalf("no room for a newcomer beside %v and %v", m.small, m.large)
		}
		for _, r := range calls {
			r.Release()
			if r.Set(1) {
				t.Fatal("a call that has ended takes memory")
			}
		}
		if len(m.small.callers)+len(m.large.callers) != 0 {
			t.Fatalf("callers are left: %v, %v", m.small.callers, m.large.callers)
		}
	})
}

// TestMemoryShares checks what one caller, and several, can hold with calls of one size.
func TestMemoryShares(t *testing.T) {
	t.Parallel()
	const limit, call = 64 << 20, 1 << 20
	for callers, want := range map[int]int{1: 42, 2: 24, 10: 5} { // Of the 56 that are not for small calls.
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
				t.Errorf("of %d callers, number %d holds %d calls; want about %d", callers, caller, n, want)
			}
		}
	}
	if m := NewMemory(limit); !m.NewReservation("alone").Set(m.MaxCall()) {
		t.Error("a caller alone cannot make the largest call")
	}
}

// TestMemoryFreed checks that those who wait are told of memory that is given back, in part or
// as a whole, and of nothing else.
func TestMemoryFreed(t *testing.T) {
	t.Parallel()
	m := NewMemory(8 << 20)
	told := 0
	m.OnFreed = func() { told++ }
	r := m.NewReservation("a")
	for i, test := range []struct {
		change func()
		frees  bool
	}{
		{func() { r.Set(2 << 20) }, false},
		{func() { r.Set(3 << 20) }, false},
		{func() { r.Set(16 << 20) }, false}, // More than there is.
		{func() { r.Set(1 << 20) }, true},
		{r.Release, true},
		{r.Release, false},
	} {
		before, freed := told, m.awaitFreed()
		test.change()
		closed := false
		select {
		case <-freed:
			closed = true
		default:
		}
		if closed != test.frees || told-before != map[bool]int{true: 1}[test.frees] {
			t.Errorf("change %d: %t, told %d times; want %t", i, closed, told-before, test.frees)
		}
	}
}
