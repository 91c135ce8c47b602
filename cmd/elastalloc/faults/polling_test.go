//go:build unix

package faults

import (
	"testing"
	"time"
)

// eventually polls until a condition holds, and fails the test where it does not
// come to hold.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const limit = 20 * time.Second
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(limit)
	for !holds() {
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("after %v there is still not %s", limit, what)
		}
	}
}
