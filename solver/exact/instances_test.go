package exact_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// sharedSnapshot reads an allocation snapshot in the API's JSON, as far as the
// shared instances use it.
func sharedSnapshot(t testing.TB, file string) *solver.Snapshot {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Snapshot struct {
			ID         string
			TotalNodes int
			Horizon    struct {
				Step  string
				Steps int
			}
			Jobs []struct {
				ID                 string
				RemainingETA       string
				MinNodes, MaxNodes int
			}
		}
	}
	if err := json.Unmarshal(raw, &request); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return d
	}
	from := request.Snapshot
	s := &solver.Snapshot{
		ID: from.ID, TotalNodes: from.TotalNodes,
		Horizon: solver.Horizon{Step: duration(from.Horizon.Step), Steps: from.Horizon.Steps},
	}
	for _, j := range from.Jobs {
		job := solver.NewJob(j.ID, duration(j.RemainingETA))
		job.MinNodes, job.MaxNodes = j.MinNodes, j.MaxNodes
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

// sharedInstances returns the files of the shared instances.
func sharedInstances(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(solvertest.SharedDir(t), "instances", "*_*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no shared instances: %v", err)
	}
	return files
}

// TestSharedInstances proves every shared instance and compares it with the
// optimum that an independent solver certified.
func TestSharedInstances(t *testing.T) {
	files := sharedInstances(t)
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(files[0]), "certified.json"))
	if err != nil {
		t.Fatal(err)
	}
	var certified map[string]struct{ Objective float64 }
	if err := json.Unmarshal(raw, &certified); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			p := solver.NewProblem(sharedSnapshot(t, file), solver.AdmissionFIFO)
			result, objective := solve(t, p, solver.SolveOptions{})
			if want := certified[name].Objective; objective < want-1e-8 || objective > want+1e-8 {
				t.Errorf("objective %.10f, certified %.10f", objective, want)
			}
			if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap || result.Limit != solver.LimitNone {
				t.Errorf("not proven: gap %g, limit %s", gap, result.Limit)
			}
		})
	}
}

// BenchmarkSharedInstances times the proof of every shared instance.
func BenchmarkSharedInstances(b *testing.B) {
	for _, file := range sharedInstances(b) {
		p := solver.NewProblem(sharedSnapshot(b, file), solver.AdmissionFIFO)
		b.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(b *testing.B) {
			for b.Loop() {
				if _, err := exact.New().Solve(context.Background(), p, solver.SolveOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
