package controller

import (
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/kube/config"
)

// TestPhase lists the phase and the trigger for all 16 conditions.
func TestPhase(t *testing.T) {
	t.Parallel()
	const failed, decided, applying, stuck = 8, 4, 2, 1
	want := [16]phase{
		0: phaseStarting, stuck: phaseStarting,
		applying: phaseAdopting, applying | stuck: phaseAdopting,
		decided: phaseSteady, decided | stuck: phaseStuck,
		decided | applying: phaseSteady, decided | applying | stuck: phaseStuck,
	}
	triggers := map[phase]string{
		phaseStarting: triggerStart, phaseAdopting: triggerStart,
		phaseRetrying: triggerRetry, phaseStuck: triggerStuck, phaseSteady: triggerCadence,
	}
	for n := range want {
		if n&failed != 0 {
			want[n] = phaseRetrying
		}
		c := condition{failed: n&failed != 0, decided: n&decided != 0, applying: n&applying != 0, stuck: n&stuck != 0}
		if got := c.phase(); got != want[n] || got.trigger() != triggers[want[n]] {
			t.Errorf("%+v: %s with the trigger %q; must be %s with %q", c, got, got.trigger(), want[n], triggers[want[n]])
		}
	}
}

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
		l := &Loop{pool: config.Pool{Cadence: 300 * time.Second}, started: at(60), last: at(80), failures: test.failures}
		if got := l.due(test.to, at(90), test.expires); !got.Equal(test.want) {
			t.Errorf("%s: due at %v; must be at %v", name, got.Sub(start), test.want.Sub(start))
		}
	}
}
