package exact_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// stretches is a context that measures the CPU time of one thread between two questions
// about time, and ends after a budget of it.
type stretches struct {
	context.Context
	began, last, budget, longest time.Duration
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Err records the time since its last call.
func (s *stretches) Err() error {
	now := threadTime()
	s.longest = max(s.longest, now-s.last)
	s.last = now
	if now-s.began > s.budget {
		return context.DeadlineExceeded
	}
	return nil
}

// BenchmarkStretch reports the longest stretch without a question about time of a
// search and of a bound with a budget of 900 ms of CPU, and how long the plan takes to be
// read off afterwards. The collector is off: its work is charged to whatever allocates.
func BenchmarkStretch(b *testing.B) {
	for _, d := range []randomCase{
		{jobs: 50, nodes: 300, steps: 24, sizes: 32, seed: 1, admission: solver.AdmissionOptimized},
		{jobs: 10_000, nodes: 40_000, steps: 24, sizes: 32, seed: 1, admission: solver.AdmissionPreemptive},
		{jobs: 100_000, nodes: 400_000, steps: 5, sizes: 4, seed: 1, admission: solver.AdmissionFIFO},
		{jobs: 100_000, nodes: 400_000, steps: 24, sizes: 32, seed: 1, admission: solver.AdmissionFIFO},
	} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			p := d.problem()
			var search, bound, after time.Duration
			for b.Loop() {
				runtime.GC()
				percent := debug.SetGCPercent(-1)
				now := threadTime()
				c := &stretches{Context: context.Background(), began: now, last: now, budget: 900 * time.Millisecond}
				if _, err := exact.New().Solve(c, p, problem.SolveOptions{}); err != nil {
					b.Fatal(err)
				}
				search, after = max(search, c.longest), max(after, threadTime()-c.last)
				now = threadTime()
				c = &stretches{Context: context.Background(), began: now, last: now, budget: 900 * time.Millisecond}
				exact.New().Bound(c, p)
				bound = max(bound, c.longest)
				debug.SetGCPercent(percent)
			}
			b.ReportMetric(float64(search.Microseconds())/1e3, "ms-search")
			b.ReportMetric(float64(bound.Microseconds())/1e3, "ms-bound")
			b.ReportMetric(float64(after.Microseconds())/1e3, "ms-after")
		})
	}
}
