package subprocess

import (
	"context"
	"testing"
	"time"
)

func TestNewTimeLimits(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	if got := newTimeLimits(t.Context(), now, time.Second); got != (timeLimits{}) {
		t.Errorf("newTimeLimits() = %+v without a deadline; want no limits", got)
	}
	for _, test := range []struct {
		name               string
		remaining, writing time.Duration
		kill, solver       time.Duration
	}{
		{"reading takes as long as writing", 1000 * ms, 80 * ms, 900 * ms, 720 * ms},
		{"reading gets at most a quarter", 1000 * ms, 800 * ms, 750 * ms, 600 * ms},
		{"the kill delay counts toward the quarter", 40 * ms, 0, 30 * ms, 24 * ms},
		{"no time", 0, 10 * ms, 0, 0},
		{"a deadline in the past", -10 * ms, 10 * ms, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithDeadline(t.Context(), now.Add(test.remaining))
			defer cancel()
			got := newTimeLimits(ctx, now, test.writing)
			if kill := got.kill.Sub(now); kill != test.kill || got.solver != test.solver {
				t.Errorf("kill after %v, solver limit %v; want %v and %v", kill, got.solver, test.kill, test.solver)
			}
		})
	}
}
