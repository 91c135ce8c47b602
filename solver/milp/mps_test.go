package milp

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

var update = flag.Bool("update", false, "write the golden files anew")

// twoJobs returns the problem of the golden files: a running job of weight 2 that can have
// 1 or 2 nodes and complete within the horizon, and a queued job that needs 30 s to start.
func twoJobs() *problem.Problem {
	running := solver.NewJob("running", 600*time.Second)
	running.CurrentNodes, running.MaxNodes, running.Weight = 2, 2, new(2.0)
	queued := solver.NewJob("queued", time.Hour)
	queued.MaxNodes, queued.ResizeDelay = 4, 30*time.Second
	return problem.NewProblem(&solver.Snapshot{
		TotalNodes: 4,
		Horizon:    solver.Horizon{Step: solver.DefaultStep, Steps: 2},
		Jobs:       []solver.Job{running, queued},
	}, solver.AdmissionOptimized)
}

func TestGolden(t *testing.T) {
	for _, formulation := range formulations() {
		t.Run(string(formulation), func(t *testing.T) {
			m, err := Build(twoJobs(), formulation)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := m.WriteMPS(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "two-jobs."+string(formulation)+".mps")
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("the file changed; `go test ./solver/milp -update` updates it (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoJobs checks that the file of a problem without jobs is valid and has one plan. CBC reports the
// status optimal for it, and HiGHS the status empty.
func TestNoJobs(t *testing.T) {
	p := &problem.Problem{Capacity: []int{3, 3}, Steps: 2}
	for _, formulation := range formulations() {
		m, f := newFile(t, p, formulation)
		if m.Columns() != 0 || len(f.columns) != 0 || len(f.rows) != p.Steps {
			t.Errorf("%s: %d columns, %d rows in the file", formulation, len(f.columns), len(f.rows))
		}
		plan, err := m.Plan(nil)
		if err != nil || len(plan) != 0 || p.Check(plan) != nil {
			t.Errorf("%s: Plan() = %v, %v", formulation, plan, err)
		}
	}
}

func TestWriteMPSErrors(t *testing.T) {
	m, err := Build(twoJobs(), solver.FormulationPaper)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk is full")
	if err := m.WriteMPS(failing{full}); !errors.Is(err, full) {
		t.Errorf("WriteMPS(): %v; want it to wrap %v", err, full)
	}
}

// failing is a writer that returns an error.
type failing struct{ err error }

// Write returns the error.
func (f failing) Write([]byte) (int, error) { return 0, f.err }
