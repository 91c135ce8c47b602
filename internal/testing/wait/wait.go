// Package wait lets tests wait for conditions.
package wait

import (
	"testing"
	"time"
)

const (
	// Patience is how long a test waits: far longer than anything takes, so that only
	// what hangs fails, even on a busy machine.
	Patience = 3 * time.Minute

	// The first pauses between two looks are short, for what comes at once.
	shortestPause = time.Millisecond
	longestPause  = 50 * time.Millisecond
)

// Until waits until something is true, and fails the test if that takes longer than
// Patience.
func Until(tb testing.TB, what string, isTrue func() bool) {
	tb.Helper()
	For(tb, what, func() (bool, string) { return isTrue(), "it is not so" })
}

// For waits until a condition holds. If that takes longer than Patience, it fails the test
// with the state that the condition gave last.
func For(tb testing.TB, what string, condition func() (holds bool, state string)) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		holds, state := condition()
		if holds {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not after %v; %s", what, Patience, state)
		}
		time.Sleep(pause)
	}
}
