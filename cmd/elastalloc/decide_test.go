package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// TestWarnOfBackend checks that there is a warning if the requested backend has no result, and none if its plan was
// replaced by an equally good plan.
func TestWarnOfBackend(t *testing.T) {
	options := &elastallocv1.AllocateOptions{Backend: elastallocv1.Backend_BACKEND_HIGHS}
	for _, test := range []struct {
		outcome      elastallocv1.Outcome
		detail, want string
	}{
		{elastallocv1.Outcome_OUTCOME_UNAVAILABLE, "no program", "x: warning: decided by exact, not by highs: no program\n"},
		{elastallocv1.Outcome_OUTCOME_INVALID_PLAN, "Optimal; refuted: the claimed optimum is 1",
			"x: warning: decided by exact, not by highs: Optimal; refuted: the claimed optimum is 1\n"},
		{elastallocv1.Outcome_OUTCOME_TIMED_OUT, "", "x: warning: decided by exact, not by highs: timed out\n"},
		{elastallocv1.Outcome_OUTCOME_ANSWERED, "HiGHS 1.10.0 reports: Optimal, objective 0", ""},
	} {
		var stderr strings.Builder
		command := &cobra.Command{Use: "x"}
		command.SetErr(&stderr)
		warnOfBackend(command, options, &elastallocv1.SolveReport{
			Backend: elastallocv1.Backend_BACKEND_EXACT,
			Attempts: []*elastallocv1.Attempt{
				{Backend: elastallocv1.Backend_BACKEND_HIGHS, Outcome: test.outcome, Detail: test.detail},
				{Backend: elastallocv1.Backend_BACKEND_EXACT, Outcome: elastallocv1.Outcome_OUTCOME_ANSWERED},
			},
		})
		if stderr.String() != test.want {
			t.Errorf("%v, %q: %q; want %q", test.outcome, test.detail, stderr.String(), test.want)
		}
	}
}

// TestNoWeights checks that there is no warning about a solver if all plans have the same value.
func TestNoWeights(t *testing.T) {
	const request = `{"snapshot": {"totalNodes": 4,
		"jobs": [{"id": "a", "remainingEta": "3600s", "weight": 0}, {"id": "b", "remainingEta": "60s", "weight": 0}]}}`
	for _, backend := range []solver.BackendName{solver.BackendHiGHS, solver.BackendCBC} {
		t.Run(string(backend), func(t *testing.T) {
			program := solvertest.Program(t, backend)
			args := []string{"allocate", "-f", "-", "--budget=1m", "--backend", string(backend), "--" + string(backend), program}
			if _, stderr, status := runWith(t, nil, request, args...); status != 0 || stderr != "" {
				t.Errorf("exit status %d, stderr %q", status, stderr)
			}
		})
	}
}
