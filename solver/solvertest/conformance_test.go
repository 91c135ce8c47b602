package solvertest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/cbc"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/highs"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the suite on every backend of this repository.
func TestConformance(t *testing.T) {
	newCBC := func(tb testing.TB) solver.Backend {
		tb.Helper()
		return cbc.New(solvertest.Program(tb, solver.BackendCBC))
	}
	newHiGHS := func(tb testing.TB) solver.Backend {
		tb.Helper()
		return highs.New(solvertest.Program(tb, solver.BackendHiGHS))
	}
	suites := []struct {
		name  string
		suite solvertest.Suite
	}{
		{"exact", solvertest.Suite{
			New:       func(testing.TB) solver.Backend { return exact.New() },
			Optimises: true, Proves: true, Examples: 300, SharedJobs: 100, Patience: 2 * time.Second,
		}},
		{"greedy", solvertest.Suite{
			New:       func(testing.TB) solver.Backend { return greedy.New() },
			Heuristic: true, Examples: 300, SharedJobs: 100, Patience: time.Second,
		}},
		{"highs one-hot", solvertest.Suite{
			New: newHiGHS, Formulation: solver.FormulationOneHot,
			Optimises: true, Claims: true, Examples: 60, SharedJobs: 100, Patience: 3 * time.Second,
		}},
		{"highs paper", solvertest.Suite{
			New: newHiGHS, Formulation: solver.FormulationPaper,
			Optimises: true, Claims: true, Examples: 60, SharedJobs: 10, Patience: 5 * time.Second,
		}},
		{"cbc one-hot", solvertest.Suite{
			New: newCBC, Formulation: solver.FormulationOneHot,
			Optimises: true, Claims: true, Examples: 60, SharedJobs: 100, Patience: 2 * time.Second,
		}},
		{"cbc paper", solvertest.Suite{
			New: newCBC, Formulation: solver.FormulationPaper,
			Optimises: true, Claims: true, Examples: 60, SharedJobs: 10, Patience: 5 * time.Second,
		}},
	}
	for _, test := range suites {
		t.Run(test.name, func(t *testing.T) { solvertest.Run(t, test.suite) })
	}
}
