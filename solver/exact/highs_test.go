package exact_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

var (
	hardDraws = flag.Int("draws", 200, "snapshots of BenchmarkAgainstHiGHS")
	hardLimit = flag.Duration("limit", 2*time.Second, "CPU time of each backend of BenchmarkAgainstHiGHS")
	hardSeed  = flag.Uint64("seed", 1, "seed of the first of them")
)

// drawHard returns a random snapshot that is hard for one of the two solvers. The seed selects its type.
func drawHard(seed uint64) shape {
	r := rand.New(rand.NewPCG(seed, 1))
	s := shape{running: r.IntN(2) == 0, admission: admissions[r.IntN(len(admissions))], seed: seed, groups: 1}
	uneven := func() { s.sizes = 4 + r.IntN(5) }
	switch seed % 5 {
	case 0: // a hyperparameter sweep
		s.jobs, s.steps = 10+r.IntN(31), []int{5, 8, 12, 24}[r.IntN(4)]
	case 1: // a few jobs over the longest horizon
		s.jobs, s.steps = 2+r.IntN(6), solver.MaxSteps
		s.groups = 1 + r.IntN(s.jobs)
		uneven()
	case 2: // jobs of a few kinds
		s.jobs, s.steps, s.groups = 14+r.IntN(31), 5+r.IntN(8), 2+r.IntN(3)
	case 3: // uneven sizes
		s.jobs, s.steps, s.groups = 30+r.IntN(11), 5+r.IntN(4), 1+r.IntN(4)
		uneven()
	default: // long horizons
		s.jobs, s.steps, s.groups = 6+r.IntN(15), []int{12, 24}[r.IntN(2)], 1+r.IntN(6)
	}
	if s.sizes == 0 && r.IntN(2) == 0 {
		uneven()
	}
	s.nodes = int(float64(s.jobs) * (1.5 + 4*r.Float64()))
	return s
}

// BenchmarkAgainstHiGHS lets both solvers prove random snapshots that are hard for one of them, one after another and
// within a limit of CPU time. It lists the snapshots on which exact takes more CPU time, in descending order of the
// ratio. The CPU time of HiGHS is the time of its process, without the time to write the model.
func BenchmarkAgainstHiGHS(b *testing.B) {
	oracle := external.HiGHS(limited(b, solvertest.Program(b, solver.BackendHiGHS), *hardLimit))
	type row struct {
		shape
		ours, theirs time.Duration
		open         float64
	}
	var slower []row
	proven, theirs := 0, 0
	for b.Loop() {
		for n := range *hardDraws {
			r := row{shape: drawHard(*hardSeed + uint64(n))}
			p := r.problem()
			var left float64
			r.ours, r.open = prove(cpuLimit{b.Context(), b, cpuTime(b) + *hardLimit}, b, syscall.RUSAGE_SELF, exact.New(), p)
			r.theirs, left = prove(b.Context(), b, syscall.RUSAGE_CHILDREN, oracle, p)
			if r.open <= solver.OptimalGap {
				proven++
			}
			if left > solver.OptimalGap {
				continue
			}
			if theirs++; r.open > solver.OptimalGap || r.theirs < r.ours {
				slower = append(slower, r)
			}
		}
	}
	slices.SortStableFunc(slower, func(a, b row) int {
		return cmp.Compare(b.ours.Seconds()/b.theirs.Seconds(), a.ours.Seconds()/a.theirs.Seconds())
	})
	for _, r := range slower {
		b.Logf("%5.1f times: exact %5d ms, gap %.1e, HiGHS %5d ms: %v", r.ours.Seconds()/r.theirs.Seconds(),
			r.ours.Milliseconds(), r.open, r.theirs.Milliseconds(), r.shape)
	}
	b.ReportMetric(float64(len(slower)), "slower")
	b.ReportMetric(float64(proven), "proven")
	b.ReportMetric(float64(theirs), "proven-by-HiGHS")
}

// limited returns a program that runs another one in at most a limit of CPU time, in whole seconds.
func limited(b *testing.B, program string, limit time.Duration) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -t %d\nexec '%s' \"$@\"\n", int(math.Ceil(limit.Seconds())), program)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		b.Fatal(err)
	}
	return path
}

// cpuLimit is a context that ends when this process has used CPU time.
type cpuLimit struct {
	context.Context
	b   *testing.B
	end time.Duration
}

// Err returns context.DeadlineExceeded after the limit.
func (c cpuLimit) Err() error {
	if cpuTime(c.b) > c.end {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// prove returns the CPU time that a backend takes for p, here or in its children, and the
// gap that it leaves. A child that used up its limit has an error and no plan.
func prove(ctx context.Context, b *testing.B, who int, backend problem.Backend, p *problem.Problem) (time.Duration, float64) {
	b.Helper()
	runtime.GC()
	start := cpuTimeOf(b, who)
	result, err := backend.Solve(ctx, p, problem.SolveOptions{Formulation: solver.FormulationOneHot})
	if err != nil && who == syscall.RUSAGE_SELF {
		b.Fatal(err)
	}
	took := cpuTimeOf(b, who) - start
	switch {
	case result.Plan == nil:
		return took, 1
	case result.Claim != nil && result.Claim.Optimal:
		return took, 0 // It gives no bound that we would believe.
	}
	return took, solver.RelativeGap(p.Objective(result.Plan), result.Bound)
}
