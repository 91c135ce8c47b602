package ingress

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// always is a reservation that succeeds.
func always() bool { return true }

// newTicket returns a call over a connection whose caller is its first letter.
func newTicket(connection string, bytes int) *ticket {
	return &ticket{caller: connection[:1], connection: "port " + connection, bytes: bytes, reserve: always}
}

// mustAcquire acquires a free slot.
func mustAcquire(t *testing.T, slots *slots, work Work, connection string) *ticket {
	t.Helper()
	u := newTicket(connection, 1)
	if err := slots.acquire(t.Context(), work, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// callContext returns the context of a call with a deadline whose caller cancels it after a time, each unless it is 0.
func callContext(t *testing.T, deadline, leaves time.Duration) context.Context {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	if leaves > 0 {
		time.AfterFunc(leaves, leave)
	}
	if deadline > 0 {
		limited, cancel := context.WithTimeout(ctx, deadline)
		t.Cleanup(cancel)
		return limited
	}
	return ctx
}

// TestSlots checks how long a call waits for a slot, with a fake clock.
func TestSlots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work     Work
		deadline time.Duration // of the call; 0 means none
		leaves   time.Duration // time at which the caller cancels; 0 means never
		freed    time.Duration // time at which the running call completes
		want     codes.Code
		noSearch bool
		after    time.Duration
	}{
		"a slot in time":  {freed: 300 * time.Millisecond, want: codes.OK, after: 300 * time.Millisecond},
		"no slot in time": {freed: time.Minute, want: codes.ResourceExhausted, after: guard.MaxWait},
		"half of the time is reserved": {
			deadline: 100 * time.Millisecond, freed: time.Minute, want: codes.ResourceExhausted, after: 50 * time.Millisecond,
		},
		"a late deadline changes nothing": {
			deadline: time.Hour, freed: time.Minute, want: codes.ResourceExhausted, after: guard.MaxWait,
		},
		"the caller cancels": {leaves: 20 * time.Millisecond, freed: time.Minute, want: codes.Canceled, after: 20 * time.Millisecond},

		"a search in time": {work: WorkDecision, freed: 50 * time.Millisecond, want: codes.OK, after: 50 * time.Millisecond},
		"no search in time": {
			work: WorkDecision, freed: time.Minute, want: codes.OK, noSearch: true, after: 100 * time.Millisecond,
		},
		"a quarter of the time is reserved": {
			work: WorkDecision, deadline: 100 * time.Millisecond, freed: time.Minute, want: codes.OK, noSearch: true, after: 25 * time.Millisecond,
		},
		"short work waits for no search": {work: WorkShort, freed: time.Minute, want: codes.OK},
		"the caller of a search cancels": {
			work: WorkDecision, leaves: time.Millisecond, freed: time.Minute, want: codes.Canceled, after: time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slots := newSlots(1, 1)
				first := mustAcquire(t, slots, min(test.work, WorkDecision), "a")
				time.AfterFunc(test.freed, func() { slots.release(first) })
				start := time.Now()
				u := newTicket("a", 1)
				err := slots.acquire(callContext(t, test.deadline, test.leaves), test.work, u)
				code := codes.OK
				if err != nil {
					code = statusOf("", err).Code()
				}
				if code != test.want || time.Since(start) != test.after {
					t.Errorf("after %v: %v; want %v after %v", time.Since(start), err, test.want, test.after)
				}
				if err == nil {
					if u.noSearch != test.noSearch {
						t.Errorf("noSearch is %t", u.noSearch)
					}
					slots.release(u)
				}
				time.Sleep(test.freed)
				synctest.Wait()
				if slots.inflight() != 0 || slots.waiting.Load() != 0 {
					t.Errorf("%d calls run and %d wait", slots.inflight(), slots.waiting.Load())
				}
			})
		})
	}
}

// TestSlotsAreFair checks the order of calls: callers with fewer slots are first, then small calls,
// then the next caller and its next connection.
func TestSlotsAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(2, 20)
		first, second := mustAcquire(t, slots, WorkAnalysis, "a1"), mustAcquire(t, slots, WorkAnalysis, "b1")
		var order []string
		for i, w := range []struct {
			connection string
			bytes      int
		}{
			{"a1", 1}, {"b1", 2 * guard.SmallCall}, {"b1", 3}, {"b1", 1}, {"b1", 2}, {"b2", 9}, {"b2", 8}, {"c1", 100},
		} {
			go func() {
				u := newTicket(w.connection, w.bytes)
				if err := slots.acquire(t.Context(), WorkAnalysis, u); err != nil {
					t.Error(err)
					return
				}
				order = append(order, fmt.Sprintf("%s:%d", w.connection, i))
				time.Sleep(time.Millisecond)
				slots.release(u)
			}()
			synctest.Wait()
		}
		slots.release(second)
		time.Sleep(time.Second)
		slots.release(first)
		// c and b have no slot and alternate, as do the connections of b, whose large call waits
		// for its small calls. a still has a slot.
		if want := []string{"c1:7", "b2:5", "b1:2", "b2:6", "b1:3", "b1:4", "b1:1", "a1:0"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v; want %v", order, want)
		}
	})
}

// TestExtraSlots checks that a call gets more slots while none waits, and releases them
// for waiting calls before its own slot.
func TestExtraSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(3, 10)
		own := mustAcquire(t, slots, WorkDecision, "a1")
		if _, ok := slots.extra(own, func() bool { return false }); ok {
			t.Error("an extra slot is granted without memory")
		}
		var lent []*ticket
		for range 2 {
			u, ok := slots.extra(own, always)
			if !ok {
				t.Fatal("a free slot is not granted")
			}
			lent = append(lent, u)
		}
		if _, ok := slots.extra(own, always); ok || slots.inflight() != 1 {
			t.Errorf("%d calls run; want one with all slots", slots.inflight())
		}
		time.Sleep(2 * minRunTime)
		for n := range lent {
			go slots.acquire(t.Context(), WorkDecision, newTicket(fmt.Sprint("b", n), 1)) //nolint:errcheck // It waits.
			synctest.Wait()
			back := 0
			for _, u := range lent {
				if u.interrupted.Err() != nil {
					back++
				}
			}
			if back != n+1 || own.interrupted.Err() != nil {
				t.Errorf("%d calls wait; %d extra slots must be released, own %v", n+1, back, own.interrupted.Err())
			}
		}
		slots.release(lent[0])
		if _, ok := slots.extra(own, always); ok || slots.inflight() != 2 {
			t.Errorf("%d calls run; must not grant an extra slot while a call waits", slots.inflight())
		}
		slots.release(lent[1])
		synctest.Wait()
		if slots.inflight() != 3 || slots.waiting.Load() != 0 {
			t.Errorf("%d calls run, %d wait; want 3 and none", slots.inflight(), slots.waiting.Load())
		}
	})
}

// TestAnalysesDoNotDelayDecisions checks that analyses never prevent a decision from getting a slot or memory, and
// that they only wait for each other.
func TestAnalysesDoNotDelayDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(2, 100)
		inflight := make(chan int, 40) // of each analysis that has a slot
		for n := range 40 {
			go func() {
				u := newTicket(string(rune('A'+n)), 1)
				if slots.acquire(t.Context(), WorkAnalysis, u) == nil {
					inflight <- slots.inflight()
					time.Sleep(20 * time.Millisecond)
					slots.release(u)
				}
			}()
		}
		synctest.Wait()
		for range 40 {
			u := newTicket("z", 1)
			start := time.Now()
			if err := slots.acquire(t.Context(), WorkDecision, u); err != nil || u.noSearch || time.Since(start) > 0 {
				t.Fatalf("a decision waits for %v during analyses, shed %t: %v", time.Since(start), u.noSearch, err)
			}
			slots.release(u)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		completed, highest := len(inflight), 0
		for range completed {
			highest = max(highest, <-inflight)
		}
		if highest != 2 || completed != 40 {
			t.Errorf("%d concurrent analyses, %d completed; want 2, and all", highest, completed)
		}
	})
	for work, want := range map[Work]bool{WorkAnalysis: false, WorkDecision: true, WorkShort: true} {
		synctest.Test(t, func(t *testing.T) {
			slots := newSlots(2, 100)
			analysis := mustAcquire(t, slots, WorkAnalysis, "a")
			go func() {
				u := newTicket("b", 1)
				u.reserve = func() bool { return analysis.interrupted.Err() != nil }
				if slots.acquire(t.Context(), work, u) == nil {
					slots.release(u)
				}
			}()
			synctest.Wait()
			if interrupted := analysis.interrupted.Err() != nil; interrupted != want {
				t.Errorf("work %d lacks memory; the analysis is interrupted: %t", work, interrupted)
			}
			slots.release(analysis)
			time.Sleep(time.Minute)
		})
	}
}

// TestSlotsWaitForMemory checks that a call that waits for memory does not block calls with enough memory, and gets
// a slot when memory is available.
func TestSlotsWaitForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(1, 10)
		room := false
		got := make(chan *ticket, 1)
		go func() {
			u := newTicket("a", 1000)
			u.reserve = func() bool { return room }
			if err := slots.acquire(t.Context(), WorkAnalysis, u); err != nil {
				t.Error(err)
			}
			got <- u
		}()
		synctest.Wait()
		slots.release(mustAcquire(t, slots, WorkAnalysis, "b"))
		select {
		case <-got:
			t.Fatal("a call runs without its memory")
		default:
		}
		room = true
		slots.onMemoryFreed()
		slots.release(<-got)
	})
}

// TestSmallWorkDoesNotWaitForLarge checks that small calls of short work have slots that large calls cannot use.
func TestSmallWorkDoesNotWaitForLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(1, 1)
		large, small := newTicket("a", guard.SmallCall+1), newTicket("a", guard.SmallCall)
		if err := slots.acquire(t.Context(), WorkShort, large); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := slots.acquire(t.Context(), WorkShort, small); err != nil || time.Since(start) > 0 {
			t.Errorf("a small call waits for %v behind a large one: %v", time.Since(start), err)
		}
		slots.release(small)
		start = time.Now()
		if err := slots.acquire(t.Context(), WorkShort, newTicket("b", guard.SmallCall+1)); err == nil || time.Since(start) != 5*time.Second {
			t.Errorf("a second large call returns after %v: %v", time.Since(start), err)
		}
		slots.release(large)
	})
}

// TestTooManyWait checks that the largest call of the caller with the most waiting calls is rejected if too many
// calls wait.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(1, 3)
		first := mustAcquire(t, slots, WorkAnalysis, "a")
		errs := make([]error, 5)
		for i, w := range []struct {
			caller string
			bytes  int
		}{{"a", 10}, {"a", 2 * guard.SmallCall}, {"a", 20}, {"b", 9 * guard.SmallCall}, {"a", 4 * guard.SmallCall}} {
			go func() {
				u := newTicket(w.caller, w.bytes)
				if errs[i] = slots.acquire(t.Context(), WorkAnalysis, u); errs[i] == nil {
					slots.release(u)
				}
			}()
			synctest.Wait()
		}
		slots.release(first)
		synctest.Wait()
		for i, refused := range []bool{false, true, false, false, true} {
			if (errs[i] != nil) != refused {
				t.Errorf("the error of call %d is %v", i, errs[i])
			}
		}
	})
}

// TestInterrupt checks which running calls are interrupted for waiting calls.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		running []string // connections of the running calls, the oldest first
		age     time.Duration
		waiting []string
		want    []bool
	}{
		"no one waits":                     {running: []string{"a", "a"}, want: []bool{false, false}},
		"a caller has all slots":           {running: []string{"a", "a"}, waiting: []string{"b"}, want: []bool{true, false}},
		"each caller has one slot":         {running: []string{"a", "b"}, waiting: []string{"c"}, want: []bool{false, false}},
		"the caller has all slots itself":  {running: []string{"a", "a"}, waiting: []string{"a"}, want: []bool{false, false}},
		"another connection of the caller": {running: []string{"a1", "a1"}, waiting: []string{"a2"}, want: []bool{true, false}},
		"its own calls have run for long":  {running: []string{"a", "a"}, age: minRunTime, waiting: []string{"a"}, want: []bool{true, false}},
		"the caller with most slots": {
			running: []string{"a", "b", "b", "b"}, waiting: []string{"c"}, want: []bool{false, true, false, false},
		},
		"not more than waiting calls": {running: []string{"a", "a", "a"}, waiting: []string{"b"}, want: []bool{true, false, false}},
		"waiting calls of different callers": {
			running: []string{"a", "a", "a", "a"}, waiting: []string{"b", "c"}, want: []bool{true, true, false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slots := newSlots(len(test.running), 10)
				var running []*ticket
				for _, caller := range test.running {
					running = append(running, mustAcquire(t, slots, WorkAnalysis, caller))
					time.Sleep(time.Millisecond)
				}
				time.Sleep(test.age)
				for _, caller := range test.waiting {
					go func() { _ = slots.acquire(t.Context(), WorkAnalysis, newTicket(caller, 1)) }()
					synctest.Wait()
				}
				for i, u := range running {
					if interrupted := u.interrupted.Err() != nil; interrupted != test.want[i] {
						t.Errorf("call %d is interrupted: %t", i, interrupted)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// ones is a connection that receives ones, which are frames of 65,793 bytes.
type ones struct{ net.Conn }

// Read reads ones.
func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
}

// TestMemoryOfExtraSlots checks that the memory of extra slots is released for calls that arrive or
// wait for a slot.
func TestMemoryOfExtraSlots(t *testing.T) {
	t.Parallel()
	const large = 6 << 20
	for name, wait := range map[string]func(context.Context, *Ingress, *guard.Reservation) error{
		"arrival": func(ctx context.Context, in *Ingress, _ *guard.Reservation) error {
			connection, info, err := in.receiver.Credentials(insecure.NewCredentials()).ServerHandshake(ones{})
			if err != nil {
				return err
			}
			ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.UnixAddr{Net: "unix"}, AuthInfo: info})
			_, _, err = in.receiver.Receive(ctx, func(any) error {
				_, err := io.ReadFull(connection, make([]byte, large))
				return err
			})
			return err
		},
		"slot": func(ctx context.Context, in *Ingress, memory *guard.Reservation) error {
			u := newTicket("b", large)
			u.reserve = func() bool { return memory.Set(large) }
			return in.slots.acquire(ctx, WorkAnalysis, u)
		},
		"short slot": func(ctx context.Context, in *Ingress, memory *guard.Reservation) error {
			u := newTicket("b", large)
			u.reserve = func() bool { return memory.Set(large) }
			return in.slots.acquire(ctx, WorkShort, u)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in := New(Config{MaxInflight: 4, MaxQueue: 4, MaxReceiving: 4, MaxMemory: 8 << 20, ReceiveTimeout: time.Second})
				lent := 0
				for {
					slot, release, ok := in.IdleSlot(t.Context(), "worker", 2<<20)
					if !ok {
						break
					}
					lent++
					go func() {
						<-slot.Interrupted.Done()
						release()
					}()
				}
				if err := wait(t.Context(), in, in.memory.NewReservation("b")); err != nil || lent < 2 {
					t.Errorf("%d extra slots are granted, %v; want at least 2, and memory for the call", lent, err)
				}
			})
		})
	}
}
