package ingress

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/elastalloc/elastalloc/server/internal/guard"
)

// always reserves memory of which there is enough.
func always() bool { return true }

// newTurn returns a call over a connection whose caller is its first letter.
func newTurn(connection string, bytes int) *turn {
	return &turn{caller: connection[:1], connection: "port " + connection, bytes: bytes, reserve: always}
}

// mustTake takes a turn that is free.
func mustTake(t *testing.T, turns *turns, work Work, connection string) *turn {
	t.Helper()
	u := newTurn(connection, 1)
	if err := turns.take(t.Context(), work, u); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestTurns checks how long a call waits for its turn, by a clock of its own.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work     Work
		deadline time.Duration // Of the call; 0 is none.
		leaves   time.Duration // When the caller leaves; 0 is never.
		freed    time.Duration // When the call before it ends.
		want     codes.Code
		shed     bool
		after    time.Duration
	}{
		"its turn comes":                 {freed: 300 * time.Millisecond, want: codes.OK, after: 300 * time.Millisecond},
		"its turn comes too late":        {freed: time.Minute, want: codes.ResourceExhausted, after: guard.LongestWait},
		"half of the time is for others": {deadline: 100 * time.Millisecond, freed: time.Minute, want: codes.ResourceExhausted, after: 50 * time.Millisecond},
		"a late deadline changes nothing": {
			deadline: time.Hour, freed: time.Minute, want: codes.ResourceExhausted, after: guard.LongestWait,
		},
		"the caller leaves": {leaves: 20 * time.Millisecond, freed: time.Minute, want: codes.Canceled, after: 20 * time.Millisecond},

		"a search in time":                {work: WorkDecision, freed: 50 * time.Millisecond, want: codes.OK, after: 50 * time.Millisecond},
		"no search in time":               {work: WorkDecision, freed: time.Minute, want: codes.OK, shed: true, after: 100 * time.Millisecond},
		"a quarter is for others":         {work: WorkDecision, deadline: 100 * time.Millisecond, freed: time.Minute, want: codes.OK, shed: true, after: 25 * time.Millisecond},
		"short work waits for no search":  {work: WorkShort, freed: time.Minute, want: codes.OK},
		"the caller of a search has left": {work: WorkDecision, leaves: time.Millisecond, freed: time.Minute, want: codes.Canceled, after: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(1, 1)
				first := mustTake(t, turns, min(test.work, WorkDecision), "a")
				time.AfterFunc(test.freed, func() { turns.release(first) })
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if test.leaves > 0 {
					time.AfterFunc(test.leaves, leave)
				}
				if test.deadline > 0 {
					limited, cancel := context.WithTimeout(ctx, test.deadline)
					defer cancel()
					ctx = limited
				}
				start := time.Now()
				u := newTurn("a", 1)
				err := turns.take(ctx, test.work, u)
				code := codes.OK
				if err != nil {
					code = statusOf("", err).Code()
				}
				if code != test.want || time.Since(start) != test.after {
					t.Errorf("after %v: %v; want %v after %v", time.Since(start), err, test.want, test.after)
				}
				if err == nil {
					if u.shed != test.shed {
						t.Errorf("shed is %t", u.shed)
					}
					turns.release(u)
				}
				time.Sleep(test.freed)
				synctest.Wait()
				if turns.inflight() != 0 || turns.waiting.Load() != 0 {
					t.Errorf("%d calls run and %d wait", turns.inflight(), turns.waiting.Load())
				}
			})
		})
	}
}

// TestTurnsAreFair checks whose turn it is: the caller's who has fewest, then a small
// call's, then the next caller's and the next of its connections'.
func TestTurnsAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 20)
		first, second := mustTake(t, turns, WorkQuestion, "a1"), mustTake(t, turns, WorkQuestion, "b1")
		var order []string
		for i, w := range []struct {
			connection string
			bytes      int
		}{
			{"a1", 1}, {"b1", 2 * guard.SmallCall}, {"b1", 3}, {"b1", 1}, {"b1", 2}, {"b2", 9}, {"b2", 8}, {"c1", 100},
		} {
			go func() {
				u := newTurn(w.connection, w.bytes)
				if err := turns.take(t.Context(), WorkQuestion, u); err != nil {
					t.Error(err)
					return
				}
				order = append(order, fmt.Sprintf("%s:%d", w.connection, i))
				time.Sleep(time.Millisecond)
				turns.release(u)
			}()
			synctest.Wait()
		}
		turns.release(second)
		time.Sleep(time.Second)
		turns.release(first)
		// c and b have no turn and take turns, as do the connections of b, whose large call
		// waits for its small ones; a still has a turn.
		if want := []string{"c1:7", "b2:5", "b1:2", "b2:6", "b1:3", "b1:4", "b1:1", "a1:0"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v; want %v", order, want)
		}
	})
}

// TestTurnsAreLent checks that a call gets more turns while none waits, and gives them back,
// before its own, to those that do.
func TestTurnsAreLent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(3, 10)
		own := mustTake(t, turns, WorkDecision, "a1")
		if _, ok := turns.lend(own, func() bool { return false }); ok {
			t.Error("a turn is lent without memory")
		}
		var lent []*turn
		for range 2 {
			u, ok := turns.lend(own, always)
			if !ok {
				t.Fatal("a free turn is not lent")
			}
			lent = append(lent, u)
		}
		if _, ok := turns.lend(own, always); ok || turns.inflight() != 1 {
			t.Errorf("%d calls run; want one with all the turns there are", turns.inflight())
		}
		time.Sleep(2 * fairTime)
		for n := range lent {
			go turns.take(t.Context(), WorkDecision, newTurn(fmt.Sprint("b", n), 1)) //nolint:errcheck // It waits.
			synctest.Wait()
			back := 0
			for _, u := range lent {
				if u.hurried.Err() != nil {
					back++
				}
			}
			if back != n+1 || own.hurried.Err() != nil {
				t.Errorf("%d calls wait; %d lent turns are to be given back, own %v", n+1, back, own.hurried.Err())
			}
		}
		turns.release(lent[0])
		if _, ok := turns.lend(own, always); ok || turns.inflight() != 2 {
			t.Errorf("%d calls run; want no turn lent while a call waits", turns.inflight())
		}
		turns.release(lent[1])
		synctest.Wait()
		if turns.inflight() != 3 || turns.waiting.Load() != 0 {
			t.Errorf("%d calls run, %d wait; want 3 and none", turns.inflight(), turns.waiting.Load())
		}
	})
}

// TestQuestionsTakeNothingFromDecisions checks that no number of questions keeps a decision
// from its turn or its memory, and that they keep both from each other only.
func TestQuestionsTakeNothingFromDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 100)
		inflight := make(chan int, 40) // of each question that has its turn
		for n := range 40 {
			go func() {
				u := newTurn(string(rune('A'+n)), 1)
				if turns.take(t.Context(), WorkQuestion, u) == nil {
					inflight <- turns.inflight()
					time.Sleep(20 * time.Millisecond)
					turns.release(u)
				}
			}()
		}
		synctest.Wait()
		for range 40 {
			u := newTurn("z", 1)
			start := time.Now()
			if err := turns.take(t.Context(), WorkDecision, u); err != nil || u.shed || time.Since(start) > 0 {
				t.Fatalf("a decision waits for %v beside questions, shed %t: %v", time.Since(start), u.shed, err)
			}
			turns.release(u)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		answered, most := len(inflight), 0
		for range answered {
			most = max(most, <-inflight)
		}
		if most != 2 || answered != 40 {
			t.Errorf("%d questions at once, %d answered; want 2, and all", most, answered)
		}
	})
	for work, want := range map[Work]bool{WorkQuestion: false, WorkDecision: true, WorkShort: true} {
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(2, 100)
			question := mustTake(t, turns, WorkQuestion, "a")
			go func() {
				u := newTurn("b", 1)
				u.reserve = func() bool { return question.hurried.Err() != nil }
				if turns.take(t.Context(), work, u) == nil {
					turns.release(u)
				}
			}()
			synctest.Wait()
			if hurried := question.hurried.Err() != nil; hurried != want {
				t.Errorf("work %d lacks memory; the question ends: %t", work, hurried)
			}
			turns.release(question)
			time.Sleep(time.Minute)
		})
	}
}

// TestTurnsWaitForMemory checks that a call for which there is no memory lets those pass
// for which there is, and gets its turn when there is enough.
func TestTurnsWaitForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 10)
		room := false
		got := make(chan *turn, 1)
		go func() {
			u := newTurn("a", 1000)
			u.reserve = func() bool { return room }
			if err := turns.take(t.Context(), WorkQuestion, u); err != nil {
				t.Error(err)
			}
			got <- u
		}()
		synctest.Wait()
		turns.release(mustTake(t, turns, WorkQuestion, "b"))
		select {
		case <-got:
			t.Fatal("a call runs without its memory")
		default:
		}
		room = true
		turns.memoryFreed()
		turns.release(<-got)
	})
}

// TestSmallWorkDoesNotWaitForLarge checks that short work that is small has turns which
// large calls cannot take.
func TestSmallWorkDoesNotWaitForLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1)
		large, small := newTurn("a", guard.SmallCall+1), newTurn("a", guard.SmallCall)
		if err := turns.take(t.Context(), WorkShort, large); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := turns.take(t.Context(), WorkShort, small); err != nil || time.Since(start) > 0 {
			t.Errorf("a small call waits for %v behind a large one: %v", time.Since(start), err)
		}
		turns.release(small)
		start = time.Now()
		if err := turns.take(t.Context(), WorkShort, newTurn("b", guard.SmallCall+1)); err == nil || time.Since(start) != 5*time.Second {
			t.Errorf("a second large call ends after %v: %v", time.Since(start), err)
		}
		turns.release(large)
	})
}

// TestTooManyWait checks who is turned away when too many calls wait: the largest of
// the caller with the most.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 3)
		first := mustTake(t, turns, WorkQuestion, "a")
		errs := make([]error, 5)
		for i, w := range []struct {
			caller string
			bytes  int
		}{{"a", 10}, {"a", 2 * guard.SmallCall}, {"a", 20}, {"b", 9 * guard.SmallCall}, {"a", 4 * guard.SmallCall}} {
			go func() {
				u := newTurn(w.caller, w.bytes)
				if errs[i] = turns.take(t.Context(), WorkQuestion, u); errs[i] == nil {
					turns.release(u)
				}
			}()
			synctest.Wait()
		}
		turns.release(first)
		synctest.Wait()
		for i, refused := range []bool{false, true, false, false, true} {
			if (errs[i] != nil) != refused {
				t.Errorf("call %d ends with %v", i, errs[i])
			}
		}
	})
}

// TestHurry checks which running calls are asked to end for those that wait.
func TestHurry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		running []string // The connections of those that run, the oldest first.
		age     time.Duration
		waiting []string
		want    []bool
	}{
		"no one waits":                       {running: []string{"a", "a"}, want: []bool{false, false}},
		"a caller has all turns":             {running: []string{"a", "a"}, waiting: []string{"b"}, want: []bool{true, false}},
		"each has one":                       {running: []string{"a", "b"}, waiting: []string{"c"}, want: []bool{false, false}},
		"its own calls are in the way":       {running: []string{"a", "a"}, waiting: []string{"a"}, want: []bool{false, false}},
		"its own of another connection":      {running: []string{"a1", "a1"}, waiting: []string{"a2"}, want: []bool{true, false}},
		"its own calls have run for long":    {running: []string{"a", "a"}, age: fairTime, waiting: []string{"a"}, want: []bool{true, false}},
		"who has most":                       {running: []string{"a", "b", "b", "b"}, waiting: []string{"c"}, want: []bool{false, true, false, false}},
		"no more than wait":                  {running: []string{"a", "a", "a"}, waiting: []string{"b"}, want: []bool{true, false, false}},
		"as many as wait, of different ones": {running: []string{"a", "a", "a", "a"}, waiting: []string{"b", "c"}, want: []bool{true, true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(len(test.running), 10)
				var running []*turn
				for _, caller := range test.running {
					running = append(running, mustTake(t, turns, WorkQuestion, caller))
					time.Sleep(time.Millisecond)
				}
				time.Sleep(test.age)
				for _, caller := range test.waiting {
					go func() { _ = turns.take(t.Context(), WorkQuestion, newTurn(caller, 1)) }()
					synctest.Wait()
				}
				for i, u := range running {
					if hurried := u.hurried.Err() != nil; hurried != test.want[i] {
						t.Errorf("call %d is asked to end: %t", i, hurried)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestLentMemory checks that the memory of lent turns is given back for calls that arrive or
// wait for their turn.
func TestLentMemory(t *testing.T) {
	t.Parallel()
	const large = 6 << 20
	for name, wait := range map[string]func(context.Context, *Ingress, *guard.Reservation) error{
		"arrival": func(ctx context.Context, in *Ingress, _ *guard.Reservation) error {
			_, _, err := in.receiver.Receive(ctx, &message{length: large / 2}, "b")
			return err
		},
		"turn": func(ctx context.Context, in *Ingress, memory *guard.Reservation) error {
			u := newTurn("b", large)
			u.reserve = func() bool { return memory.Set(large) }
			return in.turns.take(ctx, WorkQuestion, u)
		},
		"short turn": func(ctx context.Context, in *Ingress, memory *guard.Reservation) error {
			u := newTurn("b", large)
			u.reserve = func() bool { return memory.Set(large) }
			return in.turns.take(ctx, WorkShort, u)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in := New(Config{MaxInflight: 4, MaxQueue: 4, MaxReceiving: 4, MaxMemory: 8 << 20, MaxMessageBytes: large, ReceiveTimeout: time.Second})
				lent := 0
				for {
					turn, release, ok := in.Lend(t.Context(), "worker", 2<<20)
					if !ok {
						break
					}
					lent++
					go func() {
						<-turn.Hurry.Done()
						release()
					}()
				}
				if err := wait(t.Context(), in, in.memory.Reservation("b")); err != nil || lent < 2 {
					t.Errorf("%d turns are lent, %v; want at least 2, and memory for the call", lent, err)
				}
			})
		})
	}
}
