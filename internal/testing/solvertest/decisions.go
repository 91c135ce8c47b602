package solvertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elastalloc/elastalloc/solver"
)

// BusySnapshot returns a snapshot with jobs of 5 sizes and different lengths, most of which are running.
func BusySnapshot(jobs, nodes int) *solver.Snapshot {
	random := rand.New(rand.NewPCG(1, uint64(jobs)))
	s := &solver.Snapshot{TotalNodes: nodes}
	free := nodes
	for i := range jobs {
		job := solver.NewJob(fmt.Sprint("job-", i), time.Duration(float64(10*time.Minute)*(1+100*random.ExpFloat64())))
		job.Scaling.DoublingEfficiency = 0.6 + 0.35*random.Float64()
		job.RestartTime = time.Minute
		if size := 1 << random.IntN(3); random.Float64() < 0.8 && size <= free {
			job.CurrentNodes, job.TrainingTime = size, time.Hour
			free -= size
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

// IgnoreDurations returns options for comparing decisions without fields that depend on the clock.
func IgnoreDurations() cmp.Options {
	return cmp.Options{
		cmpopts.IgnoreFields(solver.Report{}, "SolveTime"), cmpopts.IgnoreFields(solver.Attempt{}, "Duration", "Detail"),
	}
}

// InvalidPaths returns the paths of the violations of a *solver.InvalidError, nil if err is nil. It
// fails the test if err has another type or if a description is missing.
func InvalidPaths(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *solver.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %T %v; must be *solver.InvalidError", err, err)
	}
	var paths []string
	for _, v := range invalid.Violations {
		if v.Description == "" {
			t.Errorf("%s has no description", v.Path)
		}
		paths = append(paths, v.Path)
	}
	return paths
}

// ReportCPU reports the CPU time per operation of a benchmark, which depends less on other load than
// elapsed time.
func ReportCPU(b *testing.B) {
	b.Helper()
	cpuTime := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	start := cpuTime()
	b.Cleanup(func() { b.ReportMetric((cpuTime()-start).Seconds()*1000/float64(b.N), "cpu-ms/op") })
}
