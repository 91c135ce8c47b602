package solvertest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the suite on every backend of this repository: in the quick tier
// with fewer snapshots, and with the random instances only for backends that solve them
// in milliseconds.
func TestConformance(t *testing.T) {
	newCBC := func(tb testing.TB) problem.Backend {
		tb.Helper()
		return external.CBC(solvertest.Program(tb, solver.BackendCBC))
	}
	newHiGHS := func(tb testing.TB) problem.Backend {
		tb.Helper()
		return external.HiGHS(solvertest.Program(tb, solver.BackendHiGHS))
	}
	examples := testtier.Conformance.Examples
	suites := []struct {
		name  string
		suite solvertest.Suite
	}{
		{"exact", solvertest.Suite{
			New: func(testing.TB) problem.Backend { return exact.New() },
			// Two or three jobs over 24 steps, and values that cancel down to their rounding.
			Optimizes: true, Proves: true, Examples: examples(150, 20_000),
			TypedExamples: examples(150, 500), Open: []int{19919}, InstanceJobs: 100, Timeout: time.Minute,
		}},
		{"greedy", solvertest.Suite{
			New:       func(testing.TB) problem.Backend { return greedy.New() },
			Heuristic: true, Examples: examples(150, 20_000), TypedExamples: examples(150, 500), InstanceJobs: 100, Timeout: time.Minute,
		}},
		{"highs one-hot", solvertest.Suite{
			New: newHiGHS, Formulation: solver.FormulationOneHot,
			Optimizes: true, Claims: true, Examples: examples(24, 400),
			TypedExamples: examples(24, 500), InstanceJobs: examples(0, 100), Timeout: 5 * time.Second,
		}},
		{"highs paper", solvertest.Suite{
			New: newHiGHS, Formulation: solver.FormulationPaper,
			Optimizes: true, Claims: true, Examples: examples(24, 400), TypedExamples: 3, InstanceJobs: examples(0, 10), Timeout: 20 * time.Second,
		}},
		{"cbc one-hot", solvertest.Suite{
			New: newCBC, Formulation: solver.FormulationOneHot,
			// CBC 2.10.8 calls some problems infeasible, and ends one at half of what its best plan is worth.
			Optimizes: true, Claims: true, Examples: examples(24, 400), TypedExamples: examples(24, 500),
			MayMiss: []int{367}, MayErr: []int{0, 76}, InstanceJobs: examples(0, 100), Timeout: 3 * time.Second,
		}},
		{"cbc paper", solvertest.Suite{
			New: newCBC, Formulation: solver.FormulationPaper,
			Optimizes: true, Claims: true, Examples: examples(24, 400), TypedExamples: 3,
			MayErr: []int{76}, InstanceJobs: examples(0, 10), Timeout: 20 * time.Second,
		}},
	}
	for _, test := range suites {
		t.Run(test.name, func(t *testing.T) { solvertest.Run(t, test.suite) })
	}
}
