package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// randomCase describes a random snapshot.
type randomCase struct {
	jobs, nodes, steps int
	// sizes is the number of explicit legal sizes per job. Such a job has uneven sizes with a speed
	// table that is not concave, a weight, current nodes and a delay. 0 means jobs with default sizes
	// and none of these features.
	sizes     int
	admission solver.Admission
	seed      uint64
}

func (d randomCase) String() string {
	return fmt.Sprintf("jobs=%d/nodes=%d/steps=%d/sizes=%d/%s/seed=%d", d.jobs, d.nodes, d.steps, d.sizes, d.admission, d.seed)
}

// problem generates the snapshot. Remaining ETAs are log-normal around a few steps, so that many jobs
// can complete within the horizon.
func (d randomCase) problem() *problem.Problem {
	r := rand.New(rand.NewPCG(d.seed, 0))
	s := &solver.Snapshot{
		TotalNodes: d.nodes,
		Horizon:    solver.Horizon{Step: solver.DefaultStep, Steps: d.steps},
	}
	for i := range d.jobs {
		eta := time.Duration(300 * math.Exp(2*r.NormFloat64()+2) * float64(time.Second))
		job := solver.NewJob(fmt.Sprint(i), max(eta, time.Millisecond))
		if d.sizes > 0 {
			nodes := 0
			for range d.sizes {
				nodes += 1 + r.IntN(4)
				job.AllowedNodes = append(job.AllowedNodes, nodes)
				job.Scaling.Speeds = append(job.Scaling.Speeds, math.Pow(float64(nodes), 0.6+0.4*r.Float64()))
			}
			job.MaxNodes = nodes
			job.Weight = new(math.Exp(r.NormFloat64()))
			job.ResizeDelay = 15 * time.Second
			if r.IntN(2) == 0 {
				job.CurrentNodes = job.AllowedNodes[r.IntN(d.sizes)]
			}
		}
		s.Jobs = append(s.Jobs, job)
	}
	return problem.NewProblem(s, d.admission)
}

// TestAnytime interrupts searches: whenever ctx is done, there is a legal plan and a bound, and the
// limit of the result is LimitTime.
func TestAnytime(t *testing.T) {
	for _, d := range []randomCase{
		{jobs: 1000, nodes: 4000, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 20_000, nodes: 30_000, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 20, nodes: 70, steps: 12, sizes: 8, admission: solver.AdmissionPreemptive},
		{jobs: 100, nodes: 400, steps: 12, sizes: 8, admission: solver.AdmissionOptimized},
		{jobs: 50, nodes: 300, steps: solver.MaxSteps, sizes: solver.MaxSizes, admission: solver.AdmissionPreemptive},
	} {
		p := d.problem()
		for _, budget := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond} {
			t.Run(fmt.Sprintf("%v/%v", d, budget), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), budget)
				defer cancel()
				result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
				if err != nil {
					t.Fatal(err)
				}
				objective := checked(t, p, result)
				if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap && result.Limit != solver.LimitTime {
					t.Errorf("gap %g open, but limit %s", gap, result.Limit)
				}
			})
		}
	}
}

// TestRelativeGap requests less than an optimality proof.
func TestRelativeGap(t *testing.T) {
	p := randomCase{jobs: 300, nodes: 1000, steps: 5, admission: solver.AdmissionFIFO}.problem()
	for _, limit := range []float64{0.5, 1e-2, 1e-4} {
		result, objective := solve(t, p, problem.SolveOptions{RelativeGap: limit})
		gap := solver.RelativeGap(objective, result.Bound)
		if gap > limit {
			t.Errorf("gap %g; must be at most %g", gap, limit)
		}
		if gap > solver.OptimalGap && result.Limit != solver.LimitGap {
			t.Errorf("gap %g with limit %s; want %s", gap, result.Limit, solver.LimitGap)
		}
	}
}

// BenchmarkSolve measures the time of the proof by size, and reports the gap.
func BenchmarkSolve(b *testing.B) {
	for _, d := range []randomCase{
		{jobs: 10, nodes: 70, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 40, nodes: 150, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 100, nodes: 400, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 1000, nodes: 4000, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 20, nodes: 200, steps: 12, sizes: 8, admission: solver.AdmissionFIFO},
		{jobs: 200, nodes: 800, steps: 12, sizes: 8, admission: admissions[0]},
		{jobs: 3000, nodes: 9000, steps: 5, sizes: 8, admission: admissions[2], seed: 2},
	} {
		p := d.problem()
		b.Run(d.String(), func(b *testing.B) {
			var result problem.Result
			for b.Loop() {
				var err error
				if result, err = exact.New().Solve(context.Background(), p, problem.SolveOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(solver.RelativeGap(p.Objective(result.Plan), result.Bound), "gap")
		})
	}
}

// BenchmarkBound measures the time of the bound.
func BenchmarkBound(b *testing.B) {
	for _, jobs := range []int{100, 1000, 10_000} {
		p := randomCase{jobs: jobs, nodes: 4 * jobs, steps: 5, admission: solver.AdmissionFIFO}.problem()
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			for b.Loop() {
				exact.New().Bound(context.Background(), p)
			}
		})
	}
}

// BenchmarkGrowth measures the time of a proof with a relative gap of 1e-4 by the number of jobs, and
// reports the gap and the memory of the process.
func BenchmarkGrowth(b *testing.B) {
	for _, jobs := range []int{100, 1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			p := randomCase{jobs: jobs, nodes: 4 * jobs, steps: 5, admission: solver.AdmissionFIFO}.problem()
			// Return the memory of generating the problem to the system.
			debug.FreeOSMemory()
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
				b.Logf("no peak of memory here: %v", err)
			}
			var result problem.Result
			for b.Loop() {
				var err error
				if result, err = exact.New().Solve(context.Background(), p, problem.SolveOptions{RelativeGap: 1e-4}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(solver.RelativeGap(p.Objective(result.Plan), result.Bound), "gap")
			status, _ := os.ReadFile("/proc/self/status")
			if _, peak, found := strings.Cut(string(status), "VmHWM:"); found {
				var kilobytes float64
				if _, err := fmt.Sscan(peak, &kilobytes); err == nil {
					b.ReportMetric(kilobytes*1024/1e6, "MB")
				}
			}
		})
	}
}

// hardEnd returns the hardest snapshots: few jobs, long horizons, many uneven sizes, tables that are
// not concave, weights, and size 0, with three seeds and three admissions per shape.
func hardEnd() []randomCase {
	var all []randomCase
	for _, d := range []randomCase{
		{jobs: 10, nodes: 70, steps: 12, sizes: 8},
		{jobs: 10, nodes: 100, steps: 12, sizes: 8},
		{jobs: 16, nodes: 60, steps: 8, sizes: 10},
		{jobs: 20, nodes: 70, steps: 12, sizes: 8},
		{jobs: 20, nodes: 200, steps: 12, sizes: 8},
		{jobs: 11, nodes: 60, steps: solver.MaxSteps, sizes: solver.MaxSizes},
		{jobs: 50, nodes: 300, steps: solver.MaxSteps, sizes: solver.MaxSizes},
	} {
		for _, d.admission = range admissions {
			for d.seed = range 3 {
				all = append(all, d)
			}
		}
	}
	return all
}

// BenchmarkHardEnd solves these snapshots within the default budget of 900 ms. It reports the remaining
// gap, 0 if the optimum is proven.
func BenchmarkHardEnd(b *testing.B) {
	for _, d := range hardEnd() {
		p := d.problem()
		b.Run(d.String(), func(b *testing.B) { benchmarkBudget(b, p, 900*time.Millisecond) })
	}
}

// BenchmarkBudget interrupts searches for 1000 jobs and reports the remaining gap. Its time per
// operation is the budget plus the overrun.
func BenchmarkBudget(b *testing.B) {
	p := randomCase{jobs: 1000, nodes: 4000, steps: 5, admission: solver.AdmissionFIFO}.problem()
	for _, budget := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(budget.String(), func(b *testing.B) { benchmarkBudget(b, p, budget) })
	}
}

func benchmarkBudget(b *testing.B, p *problem.Problem, budget time.Duration) {
	b.Helper()
	var result problem.Result
	for b.Loop() {
		ctx, cancel := context.WithTimeout(context.Background(), budget)
		var err error
		if result, err = exact.New().Solve(ctx, p, problem.SolveOptions{}); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
	gap := solver.RelativeGap(p.Objective(result.Plan), result.Bound)
	if gap <= solver.OptimalGap {
		gap = 0
	}
	b.ReportMetric(gap, "gap")
}

// TestNearlyEqualJobs proves decisions for a hyperparameter sweep: jobs that differ by a few percent
// and take several steps even on their largest size, together with running jobs. Prices decide no job,
// because all jobs are equally good.
func TestNearlyEqualJobs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	s := &solver.Snapshot{TotalNodes: 150, Horizon: solver.DefaultHorizon()}
	for i := range 25 {
		eta := time.Duration(7400+r.IntN(300)) * time.Second
		if i < 8 {
			eta = time.Duration(700*math.Exp(2*r.Float64())) * time.Second
		}
		job := solver.NewJob(fmt.Sprint(i), eta)
		if i < 9 {
			job.CurrentNodes = 16
		}
		s.Jobs = append(s.Jobs, job)
	}
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	result, objective := solve(t, p, problem.SolveOptions{})
	if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap {
		t.Errorf("not proven: gap %g, %s", gap, result.Detail)
	}
}
