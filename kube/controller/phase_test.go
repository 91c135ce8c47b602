package controller

import "testing"

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
