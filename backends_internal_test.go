package elastalloc

import "testing"

// TestSpecs checks that every spec creates the backend of its name.
func TestSpecs(t *testing.T) {
	for _, s := range specs() {
		if got := s.create(s.program).Name(); got != s.name {
			t.Errorf("the spec of %s creates the backend %s", s.name, got)
		}
	}
}
