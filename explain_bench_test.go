package elastalloc_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// busy returns a pool in the middle of its day: jobs of 5 sizes and different lengths, most of
// which train.
func busy(jobs, nodes int) *solver.Snapshot {
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

// reportCPU reports the time of processors that each operation of a benchmark takes, for on a
// busy machine the clock says little.
func reportCPU(b *testing.B) {
	b.Helper()
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := used()
	b.Cleanup(func() { b.ReportMetric((used()-before).Seconds()*1000/float64(b.N), "cpu-ms/op") })
}

// BenchmarkExplain explains all of 40 jobs and one of 1,000, with remedies.
func BenchmarkExplain(b *testing.B) {
	a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		b.Fatal(err)
	}
	for _, objective := range []solver.Objective{solver.ObjectiveTotalTime, solver.ObjectiveProgress} {
		for _, size := range []struct {
			jobs, nodes int
			asked       []string
		}{{40, 70, nil}, {1000, 4000, []string{"job-17"}}} {
			b.Run(fmt.Sprintf("%s/%d-jobs", objective, size.jobs), func(b *testing.B) {
				s := busy(size.jobs, size.nodes)
				reportCPU(b)
				for b.Loop() {
					explanation, err := a.Explain(b.Context(), s, solver.Options{Objective: objective}, size.asked)
					if err != nil || len(explanation.Jobs) == 0 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkForecast simulates 100 jobs on 70 nodes to their end.
func BenchmarkForecast(b *testing.B) {
	a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		b.Fatal(err)
	}
	for _, objective := range []solver.Objective{solver.ObjectiveTotalTime, solver.ObjectiveProgress} {
		for _, samples := range []int{1, 20} {
			b.Run(fmt.Sprintf("%s/%d-samples", objective, samples), func(b *testing.B) {
				s := busy(100, 70)
				reportCPU(b)
				f := solver.ForecastOptions{}
				if samples > 1 {
					f.ETAError = 0.2
				}
				for b.Loop() {
					forecast, err := a.Forecast(b.Context(), s, solver.Options{Objective: objective}, f)
					if err != nil || !forecast.Complete {
						b.Fatal(err)
					}
					b.ReportMetric(float64(forecast.Decisions), "decisions")
				}
			})
		}
	}
}

// mayEnd returns a busy pool whose jobs may end within the horizon of an objective of progress,
// where the prices of nodes are hardest to find, and sizes that the pool could have.
func mayEnd(jobs int) (*solver.Snapshot, []solver.Scenario) {
	s := busy(jobs, 4*jobs)
	for i := range s.Jobs {
		s.Jobs[i].RemainingETA /= 20
	}
	var scenarios []solver.Scenario
	for n := range 8 {
		scenarios = append(scenarios, solver.Scenario{TotalNodes: new(s.TotalNodes + (n+1)*jobs/40)})
	}
	return s, scenarios
}

// BenchmarkWhatIf decides 8 sizes of a pool of 1,000 jobs in one call, where the searches start
// from the prices of the first, and one by one.
func BenchmarkWhatIf(b *testing.B) {
	a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		b.Fatal(err)
	}
	s, scenarios := mayEnd(1000)
	b.Run("one-call", func(b *testing.B) {
		reportCPU(b)
		for b.Loop() {
			if _, err := a.WhatIf(b.Context(), s, solver.Options{}, scenarios); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one-by-one", func(b *testing.B) {
		reportCPU(b)
		for b.Loop() {
			for n := range len(scenarios) + 1 {
				varied := *s
				if n > 0 {
					varied.TotalNodes = *scenarios[n-1].TotalNodes
				}
				if _, err := a.Allocate(b.Context(), &varied, solver.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
