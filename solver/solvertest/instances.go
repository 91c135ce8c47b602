package solvertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

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

// Instance is a snapshot that is drawn at random.
type Instance struct {
	Name     string
	Snapshot *solver.Snapshot
	// Objective is the optimum as HiGHS has certified it.
	Objective float64
}

// Instances returns the instances of examples/drawn.tar.gz of at most the given number of
// jobs, by name.
func Instances(tb testing.TB, mostJobs int) []Instance {
	tb.Helper()
	files := drawn(tb)
	var optima map[string]struct {
		Objective float64
		From      string
	}
	decode(tb, "drawn/optima.json", files["drawn/optima.json"], &optima)
	delete(files, "drawn/optima.json")
	var instances []Instance
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s := readSnapshot(tb, name, files[name])
		if len(s.Jobs) > mostJobs {
			continue
		}
		optimum, known := optima[s.ID]
		if !known {
			tb.Fatalf("instance %s has no certified optimum", s.ID)
		}
		instances = append(instances, Instance{Name: s.ID, Snapshot: s, Objective: optimum.Objective})
	}
	if len(instances) == 0 {
		tb.Fatalf("no instance of at most %d jobs", mostJobs)
	}
	return instances
}

// drawn returns the files of examples/drawn.tar.gz by name.
func drawn(tb testing.TB) map[string][]byte {
	tb.Helper()
	disk, err := os.Open(filepath.Join(moduleRoot(tb), "examples", "drawn.tar.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer disk.Close()
	unzipped, err := gzip.NewReader(disk)
	if err != nil {
		tb.Fatal(err)
	}
	files := make(map[string][]byte)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			tb.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			tb.Fatal(err)
		}
	}
}

// readSnapshot reads the fields that the instances use out of an
// AllocateRequest in protojson. The conversion proper is the server's.
func readSnapshot(tb testing.TB, name string, text []byte) *solver.Snapshot {
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
	decode(tb, name, text, &request)
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

// decode reads JSON of which it must know every field.
func decode(tb testing.TB, name string, text []byte, to any) {
	tb.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
}
