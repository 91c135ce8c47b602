package chain

import (
	"context"
	"testing"
	"time"
)

func TestNewBudget(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	tests := []struct {
		name             string
		asked, byDefault time.Duration
		deadline         time.Duration // from now; 0 = none
		answering        time.Duration
		length, search   time.Duration // 0 = without limit
	}{
		{name: "no limit"},
		{name: "asked", asked: 1000 * ms, byDefault: 900 * ms, length: 1000 * ms, search: 900 * ms},
		{name: "default", byDefault: 900 * ms, length: 900 * ms, search: 810 * ms},
		{name: "the shortest reserve", asked: 100 * ms, length: 100 * ms, search: 80 * ms},
		{name: "a reserve of at most half", asked: 10 * ms, length: 10 * ms, search: 5 * ms},
		{name: "a deadline later than the budget", asked: 1000 * ms, deadline: 2000 * ms, length: 1000 * ms, search: 900 * ms},
		{name: "a deadline earlier than the budget", asked: 1000 * ms, deadline: 500 * ms, length: 450 * ms, search: 405 * ms},
		{name: "what it takes to answer", asked: 1000 * ms, deadline: 500 * ms, answering: 250 * ms, length: 200 * ms, search: 180 * ms},
		{name: "no time but to answer", asked: 1000 * ms, deadline: 500 * ms, answering: 700 * ms},
		{name: "a margin of a tenth at most", asked: 1000 * ms, deadline: 100 * ms, length: 90 * ms, search: 70 * ms},
		{name: "only a deadline", deadline: 1100 * ms, length: 1000 * ms, search: 900 * ms},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			if test.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, now.Add(test.deadline))
				defer cancel()
			}
			b := newBudget(ctx, now, test.answering, test.asked, test.byDefault)
			if test.deadline == 0 && test.length == 0 {
				if !b.end.IsZero() || !b.searchEnd.IsZero() || !b.slice(now, false).IsZero() {
					t.Fatalf("newBudget() = %+v; want none", b)
				}
				return
			}
			if length, search := b.end.Sub(now), b.searchEnd.Sub(now); length != test.length || search != test.search {
				t.Errorf("budget of %v, %v for searching; want %v and %v", length, search, test.length, test.search)
			}
			if first := b.slice(now, false).Sub(now); first != test.search*3/4 {
				t.Errorf("a first backend has %v; want three quarters of %v", first, test.search)
			}
			if last := b.slice(now, true); last != b.searchEnd {
				t.Errorf("a last backend has until %v; want %v", last, b.searchEnd)
			}
		})
	}
}
