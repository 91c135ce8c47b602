package solvertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// SharedDir returns the folder of shared instances and traces that stands beside
// the checkout as ../shared, and skips the test where there is none.
func SharedDir(tb testing.TB) string {
	tb.Helper()
	shared := filepath.Join(moduleRoot(tb), "..", "shared")
	if info, err := os.Stat(shared); err != nil || !info.IsDir() {
		tb.Skip("the folder ../shared beside the checkout is absent")
	}
	return shared
}

// moduleRoot returns the folder with go.mod that the test's folder is in.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatalf("finding the module root: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("finding the module root: no go.mod above the test's directory")
		}
		dir = parent
	}
}

// Instance is one of the shared instances.
type Instance struct {
	Name     string
	Snapshot *solver.Snapshot
	// Objective is the certified optimum.
	Objective float64
}

// Instances returns the shared instances of at most the given number of jobs, by
// name, with their certified optima, and skips the test where there are none.
func Instances(tb testing.TB, mostJobs int) []Instance {
	tb.Helper()
	dir := filepath.Join(SharedDir(tb), "instances")
	var certified map[string]struct {
		Objective float64 `json:"objective"`
	}
	readJSON(tb, filepath.Join(dir, "certified.json"), &certified)
	names, err := filepath.Glob(filepath.Join(dir, "*_I*.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var instances []Instance
	for _, name := range names {
		s := readSnapshot(tb, name)
		if len(s.Jobs) > mostJobs {
			continue
		}
		optimum, known := certified[s.ID]
		if !known {
			tb.Fatalf("instance %s has no certified optimum", s.ID)
		}
		instances = append(instances, Instance{Name: s.ID, Snapshot: s, Objective: optimum.Objective})
	}
	if len(instances) == 0 {
		tb.Fatalf("there are no instances in %s", dir)
	}
	return instances
}

// readSnapshot reads the fields that the shared instances use out of an
// AllocateRequest in protojson. The conversion proper is the server's.
func readSnapshot(tb testing.TB, name string) *solver.Snapshot {
	tb.Helper()
	var request struct {
		Snapshot struct {
			ID         string `json:"id"`
			TotalNodes int    `json:"totalNodes"`
			Horizon    *struct {
				Step  string `json:"step"`
				Steps int    `json:"steps"`
			} `json:"horizon"`
			Jobs []struct {
				ID           string `json:"id"`
				RemainingETA string `json:"remainingEta"`
				MinNodes     int    `json:"minNodes"`
				MaxNodes     int    `json:"maxNodes"`
				CurrentNodes int    `json:"currentNodes"`
			} `json:"jobs"`
		} `json:"snapshot"`
	}
	readStrictly(tb, name, &request)
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		return d
	}
	in := request.Snapshot
	s := &solver.Snapshot{ID: in.ID, TotalNodes: in.TotalNodes, Horizon: solver.DefaultHorizon()}
	if in.Horizon != nil {
		s.Horizon = solver.Horizon{Step: duration(in.Horizon.Step), Steps: in.Horizon.Steps}
	}
	for _, j := range in.Jobs {
		job := solver.NewJob(j.ID, duration(j.RemainingETA))
		job.CurrentNodes = j.CurrentNodes
		if j.MinNodes != 0 {
			job.MinNodes = j.MinNodes
		}
		if j.MaxNodes != 0 {
			job.MaxNodes = j.MaxNodes
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

func readJSON(tb testing.TB, name string, to any) {
	tb.Helper()
	decode(tb, name, to, func(*json.Decoder) {})
}

// readStrictly reads a file of which it must know every field.
func readStrictly(tb testing.TB, name string, to any) {
	tb.Helper()
	decode(tb, name, to, (*json.Decoder).DisallowUnknownFields)
}

func decode(tb testing.TB, name string, to any, set func(*json.Decoder)) {
	tb.Helper()
	file, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	set(decoder)
	if err := decoder.Decode(to); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
}
