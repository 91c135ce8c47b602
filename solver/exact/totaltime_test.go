package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// totalTimeProblem returns a random problem with OBJECTIVE_TOTAL_TIME: some jobs are
// queued and new, some paused, most running, with ETAs over four orders of magnitude.
// Mixed jobs have weights, efficiencies, minimums and restarts of their own.
func totalTimeProblem(jobs, nodes int, seed uint64, mixed bool) *problem.Problem {
	return problem.NewProblemFor(totalTimeSnapshot(jobs, nodes, seed, mixed), totalTimeOptions())
}

func totalTimeOptions() solver.Options {
	return solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
}

func totalTimeSnapshot(jobs, nodes int, seed uint64, mixed bool) *solver.Snapshot {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	free := nodes
	for i := range jobs {
		eta := time.Duration(3600 * math.Exp(1.7*r.NormFloat64()+1) * float64(time.Second))
		job := solver.NewJob(fmt.Sprint(i), max(eta, time.Second))
		if mixed {
			job.Weight = new([]float64{1, 2, 4, 8}[r.IntN(4)])
			job.Scaling.DoublingEfficiency = 0.6 + 0.35*r.Float64()
			job.MinNodes = []int{1, 1, 1, 2, 4}[r.IntN(5)]
			job.RestartTime = time.Duration(r.IntN(180)) * time.Second
		}
		job.WaitingTime = time.Duration(r.IntN(7200)) * time.Second
		switch sizes := job.LegalSizes(); r.IntN(8) {
		case 0: // new
		case 1:
			job.TrainingTime = time.Hour
		default:
			job.TrainingTime = time.Hour
			if size := sizes[r.IntN(len(sizes))]; size <= free {
				job.CurrentNodes, free = size, free-size
			}
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

// bySteppingThrough solves a problem of one step by the plain dynamic program over jobs
// and nodes, and returns the optimum.
func bySteppingThrough(p *problem.Problem) float64 {
	best := make([]float64, p.Capacity[0]+1)
	next := make([]float64, len(best))
	for i := range p.Jobs {
		job := &p.Jobs[i]
		for nodes := range next {
			next[nodes] = math.Inf(-1)
			for n, k := range job.Options {
				if left := nodes - int(k.Nodes); left >= 0 {
					next[nodes] = max(next[nodes], best[left]+job.OptionValue[n])
				}
			}
		}
		best, next = next, best
	}
	return best[len(best)-1]
}

// TestTotalTime proves decisions with OBJECTIVE_TOTAL_TIME for many numbers of jobs, and compares them with a
// simple dynamic program.
func TestTotalTime(t *testing.T) {
	for _, d := range []struct{ jobs, nodes, seeds int }{
		{1, 16, 20}, {5, 9, 200}, {12, 24, 200}, {40, 70, 200}, {100, 190, 50}, {300, 150, 20}, {1000, 4000, 2},
	} {
		for seed := range max(2, testtier.Conformance.Examples(d.seeds/20, d.seeds)) {
			for _, mixed := range []bool{false, true} {
				s := totalTimeSnapshot(d.jobs, d.nodes, uint64(seed), mixed)
				p := problem.NewProblemFor(s, totalTimeOptions())
				result, objective := solve(t, p, problem.SolveOptions{})
				if err := audittest.Result(t.Context(), s, totalTimeOptions(), p, result); err != nil {
					t.Error(err)
				}
				want := bySteppingThrough(p)
				if result.Limit != solver.LimitNone || solver.RelativeGap(objective, result.Bound) > solver.OptimalGap {
					t.Fatalf("%d jobs, %d nodes, seed %d: %v of %v, limit %s", d.jobs, d.nodes, seed, objective, result.Bound, result.Limit)
				}
				if math.Abs(objective-want) > 1e-9*math.Abs(want) {
					t.Fatalf("%d jobs, %d nodes, seed %d: %.12g; the dynamic program has %.12g", d.jobs, d.nodes, seed, objective, want)
				}
			}
		}
	}
}

// BenchmarkTotalTime measures decisions with OBJECTIVE_TOTAL_TIME by number of jobs, and the simple dynamic
// program on the same problems.
func BenchmarkTotalTime(b *testing.B) {
	for _, d := range []struct{ jobs, nodes int }{{40, 70}, {1000, 4000}, {100_000, 400_000}} {
		for _, mixed := range []bool{false, true} {
			var problems []*problem.Problem
			for seed := range max(1, min(50, 5000/d.jobs)) {
				problems = append(problems, totalTimeProblem(d.jobs, d.nodes, uint64(seed), mixed))
			}
			name := fmt.Sprintf("jobs=%d/nodes=%d/mixed=%t", d.jobs, d.nodes, mixed)
			b.Run(name+"/exact", func(b *testing.B) {
				before := cpuTime(b)
				for n := 0; b.Loop(); n++ {
					if _, err := exact.New().Solve(context.Background(), problems[n%len(problems)], problem.SolveOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
			if d.jobs > 1000 {
				continue // It takes minutes.
			}
			b.Run(name+"/dynamic-program", func(b *testing.B) {
				before := cpuTime(b)
				for n := 0; b.Loop(); n++ {
					bySteppingThrough(problems[n%len(problems)])
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// cpuTime returns the processor time of this process so far, which a busy machine hardly
// changes.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	return cpuTimeOf(b, syscall.RUSAGE_SELF)
}

// cpuTimeOf returns that of this process or of the programs it ran.
func cpuTimeOf(b *testing.B, who int) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
