//go:build unix

package faults

import "testing"

// becomes polls until something is true, and fails the test if it does not become so.
func becomes(t *testing.T, what string, isTrue func() bool) {
	t.Helper()
	eventually(t, what, func() (bool, string) { return isTrue(), "it is not so" })
}
