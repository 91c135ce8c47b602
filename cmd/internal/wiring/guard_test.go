package wiring

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// TestGuard checks who gets a breaker.
func TestGuard(t *testing.T) {
	backends, err := Backends(t.Context(), []string{"exact", "cbc", "highs"}, nowhere())
	if err != nil {
		t.Fatal(err)
	}
	guarded := Guard(backends, DefaultBudget, nil)
	for i, want := range []struct {
		name         solver.BackendName
		breaker, up  bool
		missingStays bool
	}{
		{name: solver.BackendExact},
		{name: solver.BackendCBC, breaker: true, missingStays: true},
		{name: solver.BackendHiGHS, breaker: true, missingStays: true},
	} {
		got := guarded[i]
		if got.Name() != want.name || (got.Breaker != nil) != want.breaker || (got.Missing != nil) != want.missingStays {
			t.Errorf("backend %d is %+v; want %+v", i, got, want)
		}
		if want.breaker && got.Breaker.State().Up {
			t.Errorf("%s is up without its program", got.Name())
		}
		if backends[i].Breaker != nil {
			t.Errorf("%s has a breaker before it is guarded", got.Name())
		}
	}
}

// TestLiarRests checks that the chain tells the breaker of claims that are refuted.
func TestLiarRests(t *testing.T) {
	backends := Guard([]Backend{{Backend: liar{}, program: liar{}}}, time.Minute, nil)
	snapshot := &solver.Snapshot{
		TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{solver.NewJob("a", time.Hour)},
	}
	options := solver.DefaultOptions()
	options.Backend = solver.BackendCBC
	for range chain.DefaultFailures {
		if _, err := Chain(backends, time.Minute).Allocate(t.Context(), snapshot, options); err != nil {
			t.Fatal(err)
		}
	}
	if state := backends[0].Breaker.State(); state.Up || state.Failures != chain.DefaultFailures {
		t.Errorf("state %+v; want it to rest", state)
	}
}

// TestProgramInstalledLater checks that a backend comes back once its program is
// there, by a decision of its own.
func TestProgramInstalledLater(t *testing.T) {
	installed, err := exec.LookPath(solvertest.Program(t, solver.BackendCBC))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "cbc")
		backends, err := Backends(t.Context(), []string{"cbc", "exact"}, Programs{CBC: program})
		if err != nil {
			t.Fatal(err)
		}
		var changes []bool
		backends = Guard(backends, DefaultBudget, func(name solver.BackendName, state chain.BackendState) {
			if name != solver.BackendCBC {
				t.Errorf("%s changed", name)
			}
			changes = append(changes, state.Up)
		})
		decide := func(want solver.Outcome) {
			t.Helper()
			snapshot := &solver.Snapshot{
				TotalNodes: 8, Horizon: solver.DefaultHorizon(),
				Jobs: []solver.Job{solver.NewJob("a", time.Hour), solver.NewJob("b", 3*time.Hour)},
			}
			options := solver.DefaultOptions()
			options.Backend = solver.BackendCBC
			// A context without a deadline and no budget: the clock of the bubble stands
			// while the program runs.
			decision, err := Chain(backends, 0).Allocate(context.Background(), snapshot, options)
			if err != nil {
				t.Fatal(err)
			}
			if attempt := decision.Report.Attempts[0]; attempt.Backend != solver.BackendCBC || attempt.Outcome != want {
				t.Errorf("attempt %+v; want %s", attempt, want)
			}
		}
		decide(solver.OutcomeUnavailable)
		time.Sleep(chain.DefaultRest)
		decide(solver.OutcomeUnavailable) // The trial: it is still missing.
		if err := os.Symlink(installed, program); err != nil {
			t.Fatal(err)
		}
		decide(solver.OutcomeUnavailable) // It rests for longer now.
		time.Sleep(2 * chain.DefaultRest)
		decide(solver.OutcomeAnswered)
		if diff := cmp.Diff([]bool{false, true}, changes); diff != "" {
			t.Errorf("changes to up (-want +got):\n%s", diff)
		}
	})
}
