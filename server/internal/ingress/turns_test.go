package ingress

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestTurns checks how long a call waits for its turn, by a clock of its own.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadline time.Duration // Of the call; 0 is none.
		leaves   time.Duration // When the caller leaves; 0 is never.
		freed    time.Duration // When the call before it ends.
		want     codes.Code
		after    time.Duration
	}{
		"its turn comes":                 {freed: 300 * time.Millisecond, want: codes.OK, after: 300 * time.Millisecond},
		"its turn comes too late":        {freed: time.Minute, want: codes.ResourceExhausted, after: longestWait},
		"half of the time is for others": {deadline: 100 * time.Millisecond, freed: time.Minute, want: codes.ResourceExhausted, after: 50 * time.Millisecond},
		"a late deadline changes nothing": {
			deadline: time.Hour, freed: time.Minute, want: codes.ResourceExhausted, after: longestWait,
		},
		"the caller leaves": {leaves: 20 * time.Millisecond, freed: time.Minute, want: codes.Canceled, after: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(1, 1)
				if err := turns.take(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(test.freed, turns.release)
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
				err := turns.take(ctx)
				if status.Code(toCallError(ctx, err)) != test.want || time.Since(start) != test.after {
					t.Errorf("after %v: %v; want %v after %v", time.Since(start), err, test.want, test.after)
				}
				if err == nil {
					turns.release()
				}
				time.Sleep(test.freed)
			})
		})
	}
}

// TestTurnsAreInOrder checks that calls do not overtake each other.
func TestTurnsAreInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 10)
		if err := turns.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 10)
		for i := range 10 {
			go func() {
				if err := turns.take(t.Context()); err != nil {
					t.Error(err)
					return
				}
				order <- i
				turns.release()
			}()
			synctest.Wait()
		}
		turns.release()
		for want := range 10 {
			if got := <-order; got != want {
				t.Errorf("it is the turn of call %d; want %d", got, want)
			}
		}
	})
}
