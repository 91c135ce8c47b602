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
		name                     string
		requested, defaultLength time.Duration
		deadline                 time.Duration // from now; 0 = none
		responseTime             time.Duration
		length, search           time.Duration // 0 = no limit
	}{
		{name: "no limit"},
		{name: "requested", requested: 1000 * ms, defaultLength: 900 * ms, length: 1000 * ms, search: 900 * ms},
		{name: "default", defaultLength: 900 * ms, length: 900 * ms, search: 810 * ms},
		{name: "the minimum reserve", requested: 100 * ms, length: 100 * ms, search: 80 * ms},
		{name: "a reserve of at most half", requested: 10 * ms, length: 10 * ms, search: 5 * ms},
		{name: "a deadline later than the budget", requested: 1000 * ms, deadline: 2000 * ms, length: 1000 * ms, search: 900 * ms},
		{name: "a deadline earlier than the budget", requested: 1000 * ms, deadline: 500 * ms, length: 450 * ms, search: 405 * ms},
		{name: "the time of the response", requested: 1000 * ms, deadline: 500 * ms, responseTime: 250 * ms, length: 200 * ms, search: 180 * ms},
		{name: "a response that takes longer than the deadline", requested: 1000 * ms, deadline: 500 * ms, responseTime: 700 * ms},
		{name: "a margin of a tenth", requested: 1000 * ms, deadline: 100 * ms, length: 90 * ms, search: 70 * ms},
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
			b := newBudget(ctx, now, test.responseTime, test.requested, test.defaultLength)
			if test.deadline == 0 && test.length == 0 {
				if !b.deadline.IsZero() || !b.searchDeadline.IsZero() || !b.backendDeadline(now, false).IsZero() {
					t.Fatalf("newBudget() = %+v; want none", b)
				}
				return
			}
			if length, search := b.deadline.Sub(now), b.searchDeadline.Sub(now); length != test.length || search != test.search {
				t.Errorf("budget of %v, of which %v for searching; want %v and %v", length, search, test.length, test.search)
			}
			if first := b.backendDeadline(now, false).Sub(now); first != test.search*3/4 {
				t.Errorf("the first backend has %v; want three quarters of %v", first, test.search)
			}
			if last := b.backendDeadline(now, true); last != b.searchDeadline {
				t.Errorf("the last backend has until %v; want %v", last, b.searchDeadline)
			}
		})
	}
}
