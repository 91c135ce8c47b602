package controller

import (
	"testing"
	"time"
)

// TestDue checks the time of the next decision in each phase, and that it is never later than a cadence.
func TestDue(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		to       phase
		failures int
		expires  time.Time
		want     time.Time
	}{
		"starting":                      {phaseStarting, 0, at(0), at(90)},
		"adopting":                      {phaseAdopting, 0, at(900), at(60 + 300)},
		"adopting until it expires":     {phaseAdopting, 0, at(100), at(100)},
		"retrying":                      {phaseRetrying, 1, at(0), at(80 + 2)},
		"retrying after three failures": {phaseRetrying, 3, at(0), at(80 + 8)},
		"retrying for long":             {phaseRetrying, 1e6, at(0), at(80 + 300)},
		"stuck":                         {phaseStuck, 0, at(85), at(90)},
		"steady":                        {phaseSteady, 0, at(85), at(80 + 300)},
	} {
		s := &schedule{cadence: 300 * time.Second, started: at(60), attempted: at(80), failures: test.failures}
		if got := s.due(test.to, at(90), test.expires); !got.Equal(test.want) {
			t.Errorf("%s: due at %v; must be at %v", name, got.Sub(start), test.want.Sub(start))
		}
	}
}
