// Package wait lets tests wait for conditions.
package wait

import (
	"testing"
	"time"
)

const (
	// Timeout is the maximum time that a test waits. It is much longer than any condition takes, so
	// that tests fail only if something hangs, even on a busy machine.
	Timeout = 3 * time.Minute

	// The pause between two checks grows from minPause to maxPause.
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// Until waits until a condition is true. It fails the test after Timeout. what describes the condition.
func Until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	For(tb, what, func() (bool, string) { return condition(), "condition is false" })
}

// For is Until for a condition that also returns a state, which is part of the failure.
func For(tb testing.TB, what string, condition func() (ok bool, state string)) {
	tb.Helper()
	deadline := time.Now().Add(Timeout)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		ok, state := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v: %s", what, Timeout, state)
		}
		time.Sleep(pause)
	}
}
