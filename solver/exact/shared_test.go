package exact

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

func loadShared(t testing.TB, name string) *solver.Snapshot {
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Snapshot struct {
			ID         string `json:"id"`
			TotalNodes int    `json:"totalNodes"`
			Jobs       []struct {
				ID           string
				RemainingETA string `json:"remainingEta"`
			}
		}
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	s := &solver.Snapshot{ID: f.Snapshot.ID, TotalNodes: f.Snapshot.TotalNodes, Horizon: solver.DefaultHorizon()}
	for _, j := range f.Snapshot.Jobs {
		d, err := time.ParseDuration(j.RemainingETA)
		if err != nil {
			t.Fatal(err)
		}
		s.Jobs = append(s.Jobs, solver.NewJob(j.ID, d))
	}
	return s
}

func TestShared(t *testing.T) {
	dir := "../../../shared/instances"
	var certified map[string]struct{ Objective float64 }
	raw, err := os.ReadFile(filepath.Join(dir, "certified.json"))
	if err != nil {
		t.Skip(err)
	}
	if err := json.Unmarshal(raw, &certified); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, os.Getenv("GLOB")+"*_*.json"))
	for _, f := range files {
		s := loadShared(t, f)
		p := solver.NewProblem(s, solver.AdmissionFIFO)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		begin := time.Now()
		r, _ := New().Solve(ctx, p, solver.SolveOptions{})
		took := time.Since(begin)
		cancel()
		if err := p.Check(r.Plan); err != nil {
			t.Errorf("%s: %v", s.ID, err)
		}
		obj := p.Objective(r.Plan)
		want := certified[s.ID].Objective
		flag := ""
		if solver.RelativeGap(obj, r.Bound) > 1e-9 {
			flag = "OPEN"
		}
		if obj-want > 1e-8 || want-obj > 1e-8 {
			flag += " DIFF"
		}
		fmt.Printf("%-32s %8.1fms obj %.9f cert %.9f gap %.2g %s %s %s\n", s.ID, float64(took.Microseconds())/1000, obj, want, solver.RelativeGap(obj, r.Bound), r.Limit, r.Detail, flag)
	}
}
