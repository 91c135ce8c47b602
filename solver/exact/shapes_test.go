package exact_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/instances"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// shape describes a snapshot of groups of equal jobs, as a sweep over settings makes
// them: the jobs of a group have the same work and speeds.
type shape struct {
	jobs, nodes, steps, groups int
	sizes                      int  // uneven sizes with a speed table; 0: the default sizes
	running                    bool // half of the jobs have nodes and a ResizeDelay
	admission                  solver.Admission
	seed                       uint64
}

func (s shape) String() string {
	return fmt.Sprintf("jobs=%d/nodes=%d/steps=%d/groups=%d/sizes=%d/running=%t/%s/seed=%d",
		s.jobs, s.nodes, s.steps, s.groups, s.sizes, s.running, s.admission, s.seed)
}

// problem returns the problem of the random snapshot.
func (s shape) problem() *problem.Problem {
	r := rand.New(rand.NewPCG(s.seed, uint64(s.jobs)))
	snapshot := &solver.Snapshot{TotalNodes: s.nodes, Horizon: solver.Horizon{Step: solver.DefaultStep, Steps: s.steps}}
	kinds := make([]solver.Job, s.groups)
	for g := range kinds {
		// About as much work as the group's share of the pool serves in the horizon.
		serves := float64(s.steps) * 300 * math.Pow(float64(s.nodes)/float64(s.jobs), 0.7)
		kinds[g] = solver.NewJob("", time.Duration(serves*math.Exp(0.5*r.NormFloat64())*float64(time.Second)))
		if s.sizes == 0 {
			continue
		}
		nodes := 0
		for range s.sizes {
			nodes += 1 + r.IntN(3)
			kinds[g].AllowedNodes = append(kinds[g].AllowedNodes, nodes)
			kinds[g].Scaling.Speeds = append(kinds[g].Scaling.Speeds, math.Pow(float64(nodes), 0.6+0.4*r.Float64()))
		}
		kinds[g].MinNodes, kinds[g].MaxNodes = kinds[g].AllowedNodes[0], nodes
	}
	for i := range s.jobs {
		job := kinds[i%s.groups]
		job.ID = fmt.Sprint(i)
		if s.running && r.IntN(2) == 0 {
			job.CurrentNodes, job.ResizeDelay = 1+r.IntN(8), 15*time.Second
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return problem.NewProblem(snapshot, s.admission)
}

// shapes are sweeps of all kinds.
func shapes() []shape {
	fifo, optimized, preemptive := solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive
	return []shape{
		{jobs: 32, nodes: 160, steps: 5, groups: 1, admission: fifo},
		{jobs: 32, nodes: 160, steps: 5, groups: 1, running: true, admission: preemptive},
		{jobs: 15, nodes: 75, steps: 5, groups: 1, running: true, admission: fifo},
		{jobs: 18, nodes: 90, steps: 12, groups: 1, running: true, admission: preemptive},
		{jobs: 31, nodes: 93, steps: 8, groups: 1, running: true, admission: optimized},
		{jobs: 13, nodes: 65, steps: 24, groups: 1, running: true, admission: fifo},
		{jobs: 2, nodes: 10, steps: 24, groups: 1, sizes: 4, running: true, admission: optimized},
		{jobs: 7, nodes: 10, steps: 24, groups: 1, running: true, admission: optimized},
		{jobs: 30, nodes: 90, steps: 12, groups: 1, admission: fifo},
		{jobs: 3, nodes: 15, steps: 24, groups: 3, sizes: 8, admission: optimized},
		{jobs: 28, nodes: 224, steps: 5, groups: 1, sizes: 16, admission: fifo},
		{jobs: 24, nodes: 48, steps: 5, groups: 1, sizes: 4, running: true, admission: preemptive},
		{jobs: 22, nodes: 44, steps: 12, groups: 2, sizes: 4, admission: fifo},
		{jobs: 24, nodes: 72, steps: 8, groups: 2, sizes: 4, admission: optimized},
		{jobs: 16, nodes: 48, steps: 8, groups: 2, sizes: 6, running: true, admission: preemptive},
		{jobs: 18, nodes: 36, steps: 8, groups: 3, running: true, admission: preemptive},
		{jobs: 40, nodes: 160, steps: 5, groups: 2, sizes: 5, admission: fifo},
		{jobs: 60, nodes: 180, steps: 5, groups: 3, sizes: 5, running: true, admission: fifo},
		{jobs: 36, nodes: 90, steps: 5, groups: 2, sizes: 6, admission: fifo},
		{jobs: 12, nodes: 48, steps: 12, groups: 4, sizes: 5, admission: fifo},
		{jobs: 20, nodes: 100, steps: 5, groups: 4, sizes: 6, admission: fifo},
	}
}

// BenchmarkShapes runs sweeps within the default budget of 900 ms and reports the gap
// that is left, 0 where the optimum is proven.
func BenchmarkShapes(b *testing.B) {
	for _, s := range shapes() {
		p := s.problem()
		b.Run(s.String(), func(b *testing.B) { benchmarkBudget(b, p, 900*time.Millisecond) })
	}
}

// BenchmarkSizePrices counts the proofs within the work of about 1 s, with prices per
// size and without: of sweeps, the hard end, snapshots of a trace, and the random instances.
func BenchmarkSizePrices(b *testing.B) {
	sets := make(map[string][]*problem.Problem)
	for _, s := range shapes() {
		sets["sweeps"] = append(sets["sweeps"], s.problem())
	}
	for _, d := range hardEnd() {
		set := fmt.Sprintf("hard end, %d steps", d.steps)
		sets[set] = append(sets[set], d.problem())
	}
	for seed := range uint64(60) {
		sets["trace"] = append(sets["trace"], midTrace(seed))
	}
	for _, instance := range instances.Load(b, 300) {
		sets["drawn"] = append(sets["drawn"], problem.NewProblem(instance.Snapshot, solver.AdmissionFIFO))
	}
	for name, problems := range sets {
		b.Run(name, func(b *testing.B) {
			variants := map[string]func() *exact.Solver{"": exact.New, "-without": exact.NewWithoutSizePrices}
			proven, gap := map[string]int{}, map[string]float64{}
			for b.Loop() {
				for what, backend := range variants {
					more, largest := proofs(b, backend, problems)
					proven[what] += more
					gap[what] = max(gap[what], largest)
				}
			}
			for what := range variants {
				b.ReportMetric(float64(proven[what])/float64(b.N), "proven"+what)
				b.ReportMetric(gap[what], "worst-gap"+what)
			}
			b.ReportMetric(float64(len(problems)), "snapshots")
		})
	}
}

// proofs returns how many of the problems a new backend proves within the work of about 1 s, and the largest gap.
func proofs(b *testing.B, backend func() *exact.Solver, problems []*problem.Problem) (proven int, gap float64) {
	b.Helper()
	for _, p := range problems {
		result, err := backend().Solve(&countdown{Context: b.Context(), left: 2000}, p, problem.SolveOptions{})
		if err != nil {
			b.Fatal(err)
		}
		open := solver.RelativeGap(p.Objective(result.Plan), result.Bound)
		if open <= solver.OptimalGap {
			proven++
		}
		gap = max(gap, open)
	}
	return proven, gap
}
