package subprocess

import (
	"context"
	"testing"
	"time"
)

func TestNewClock(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	if got := newClock(t.Context(), now, time.Second); got != (clock{}) {
		t.Errorf("newClock() = %+v without a deadline; want none", got)
	}
	for _, test := range []struct {
		name          string
		left, writing time.Duration
		kill, limit   time.Duration
	}{
		{"reading takes as long as writing", 1000 * ms, 80 * ms, 900 * ms, 720 * ms},
		{"but gets no more than a quarter", 1000 * ms, 800 * ms, 750 * ms, 600 * ms},
		{"nor does the grace", 40 * ms, 0, 30 * ms, 24 * ms},
		{"nothing left", 0, 10 * ms, 0, 0},
		{"less than that", -10 * ms, 10 * ms, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithDeadline(t.Context(), now.Add(test.left))
			defer cancel()
			got := newClock(ctx, now, test.writing)
			if kill := got.kill.Sub(now); kill != test.kill || got.limit != test.limit {
				t.Errorf("killed after %v, limited to %v; want %v and %v", kill, got.limit, test.kill, test.limit)
			}
		})
	}
}
