package main

import (
	"strings"
	"testing"
)

// TestDuplicateJobs shows decisions in which several jobs with one id have one allocation.
func TestDuplicateJobs(t *testing.T) {
	t.Parallel()
	const request = `{"snapshot": {"totalNodes": 16, "jobs": [
		{"id": "a", "currentNodes": 2, "remainingEta": "3600s"}, {"id": "b", "remainingEta": "3600s"},
		{"id": "a", "currentNodes": 6, "remainingEta": "7200s"}, {"id": "c", "remainingEta": "3600s"}]}, "options": {"badJobs": "BAD_JOBS_HOLD"}}`
	for _, command := range []string{"allocate", "explain", "forecast", "whatif --nodes 20"} {
		stdout, stderr, status := runWith(t, nil, request, append(strings.Fields(command), "-f", "-")...)
		if status != 0 || stdout == "" {
			t.Errorf("%s: exit status %d, %q, %q", command, status, stdout, stderr)
		}
		if command == "allocate" && !strings.Contains(stdout, "6 → 6") {
			t.Errorf("the job does not keep its 6 nodes:\n%s", stdout)
		}
	}
}
