// Package instances reads the random instances in `examples/random-snapshots.tar.gz`.
package instances

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Instance is a randomly generated snapshot.
type Instance struct {
	Name     string
	Snapshot *solver.Snapshot // with defaults set
	// Objective is the optimum that HiGHS has certified.
	Objective float64
}

// Load returns the instances with at most maxJobs jobs, sorted by name.
func Load(tb testing.TB, maxJobs int) []Instance {
	tb.Helper()
	files := unpack(tb)
	var optima map[string]struct{ Objective float64 }
	if err := json.Unmarshal(files["random-snapshots/optima.json"], &optima); err != nil {
		tb.Fatal(err)
	}
	delete(files, "random-snapshots/optima.json")
	var loaded []Instance
	for _, name := range slices.Sorted(maps.Keys(files)) {
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal(files[name], request); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		converted, err := apiconv.FromAllocateRequest(request, math.MaxInt)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		s := converted.Snapshot.WithDefaults()
		optimum, known := optima[s.ID]
		if !known {
			tb.Fatalf("instance %s has no certified optimum", s.ID)
		}
		if len(s.Jobs) <= maxJobs {
			loaded = append(loaded, Instance{Name: s.ID, Snapshot: s, Objective: optimum.Objective})
		}
	}
	if len(loaded) == 0 {
		tb.Fatalf("no instance of at most %d jobs", maxJobs)
	}
	return loaded
}

// unpack returns the files of the archive by name.
func unpack(tb testing.TB) map[string][]byte {
	tb.Helper()
	_, file, _, _ := runtime.Caller(0)
	disk, err := os.Open(filepath.Join(filepath.Dir(file), "..", "..", "..", "examples", "random-snapshots.tar.gz"))
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
