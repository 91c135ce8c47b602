package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// machines describes a pool of machines in blocks. A unit is a GPU or, with 1 unit per machine, a machine.
// Jobs have 1 to 64 units, powers of two up to 16 times the smallest, in one piece or, half of them on
// machines of several units, in pieces of one machine.
type machines struct {
	count, units, jobs int
	// block is the number of machines per block, 0 for one block.
	block int
	// damaged is the share of the machines that lack 1 to units-1 units.
	damaged float64
	seed    uint64
}

// snapshot generates it. All jobs are new.
func (d machines) snapshot() *solver.Snapshot {
	r := rand.New(rand.NewPCG(d.seed, uint64(d.count)))
	free := make([]int, d.count)
	s := new(solver.Snapshot)
	for n := range free {
		if free[n] = d.units; r.Float64() < d.damaged {
			free[n] -= 1 + r.IntN(d.units-1)
		}
		s.TotalNodes += free[n]
	}
	block := d.block
	if block == 0 {
		block = d.count
	}
	least := s.TotalNodes
	for size := 2; size <= min(64, d.units*block); size *= 2 { // Each limit is the room for pieces of the size.
		nodes := 0
		for first := 0; first < d.count; first += block {
			whole := 0
			for _, units := range free[first:min(d.count, first+block)] {
				if size <= d.units {
					nodes += units / size * size
				} else if units == d.units {
					whole += units
				}
			}
			nodes += whole / size * size
		}
		if nodes < least {
			s.SizeLimits, least = append(s.SizeLimits, solver.SizeLimit{Size: size, Nodes: nodes}), nodes
		}
	}
	for i := range d.jobs {
		s.Jobs = append(s.Jobs, d.job(r, i))
	}
	return s
}

func (d machines) job(r *rand.Rand, i int) solver.Job {
	job := solver.NewJob(fmt.Sprint(i), time.Duration(math.Exp(9+1.5*r.NormFloat64())*float64(time.Second)))
	job.MinNodes = 1 << r.IntN(3)
	job.MaxNodes = 16 * job.MinNodes
	job.RestartTime = time.Duration(25+225*r.Float64()) * time.Second
	job.Scaling.DoublingEfficiency = 0.7 + 0.25*r.Float64()
	if d.units > 1 && r.IntN(2) == 0 {
		job.PieceNodes = d.units
	}
	return job
}

// warm returns the snapshot at the next decision, in which 6% of the jobs are new.
func (d machines) warm(tb testing.TB, s *solver.Snapshot) *solver.Snapshot {
	tb.Helper()
	p := problem.NewProblemFor(s, typedOptions())
	result, err := exact.New().Solve(tb.Context(), p, problem.SolveOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	r := rand.New(rand.NewPCG(d.seed, 1))
	for n := range p.Jobs {
		job := &s.Jobs[p.Jobs[n].Index]
		job.CurrentNodes, job.TrainingTime = int(result.Plan[n][0].Nodes), time.Hour
		if r.Float64() < 0.06 {
			*job = d.job(r, p.Jobs[n].Index)
		}
	}
	return s
}

// TestSweepsWithinSizeLimits proves hyperparameter sweeps of up to 2,000 jobs. Their bound at node prices
// has a gap, and without branching on the number of jobs per size they are not proven.
func TestSweepsWithinSizeLimits(t *testing.T) {
	for _, d := range []struct {
		machines
		kinds int
	}{
		{machines{count: 432, units: 8, jobs: 300, damaged: 0.3, seed: 22}, 3},
		{machines{count: 900, units: 8, jobs: 1000, damaged: 0.3, seed: 24}, 5},
		{machines{count: 4608, units: 1, jobs: 1000, block: 18, seed: 28}, 4},
		{machines{count: 972, units: 8, jobs: 2000, damaged: 0.3, seed: 1}, 2},
		{machines{count: 7776, units: 1, jobs: 2000, block: 18, seed: 6}, 2},
	} {
		p := problem.NewProblemFor(sweepOf(d.snapshot(), d.kinds), typedOptions())
		result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if gap := solver.RelativeGap(p.Objective(result.Plan), result.Bound); result.Limit != solver.LimitNone || gap > solver.OptimalGap {
			t.Errorf("%d jobs of %d kinds: limit %s, gap %g", d.jobs, d.kinds, result.Limit, gap)
		}
	}
}

// TestSweepsAgreeWithExternalSolvers compares hyperparameter sweeps with HiGHS and CBC. In a third of them,
// kinds have equal values at all sizes, and in a third, half of the jobs are running.
func TestSweepsAgreeWithExternalSolvers(t *testing.T) {
	oracles := []problem.Backend{
		external.HiGHS(solvertest.Program(t, solver.BackendHiGHS)), external.CBC(solvertest.Program(t, solver.BackendCBC)),
	}
	for seed := range testtier.Conformance.Examples(6, 200) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		d := machines{count: 4 + r.IntN(20), units: 8, jobs: 6 + r.IntN(40), damaged: r.Float64(), seed: uint64(seed)}
		s := sweepOf(d.snapshot(), 1+r.IntN(5))
		for i := range s.Jobs {
			switch job := &s.Jobs[i]; {
			case seed%3 == 1:
				*job = s.Jobs[0]
				job.ID, job.Weight = fmt.Sprint(i), new(float64(1+i%2))
			case seed%3 == 2 && i%2 == 0:
				job.CurrentNodes, job.TrainingTime = job.MinNodes, time.Hour
			}
		}
		p := problem.NewProblemFor(s, typedOptions())
		result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
		if err != nil || result.Limit != solver.LimitNone {
			t.Fatalf("seed %d: limit %s, error %v", seed, result.Limit, err)
		}
		for _, oracle := range oracles {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			theirs, err := oracle.Solve(ctx, p, problem.SolveOptions{Formulation: solver.FormulationOneHot})
			cancel()
			if err != nil || theirs.Claim == nil {
				t.Logf("seed %d: %s has no result: %v", seed, oracle.Name(), err)
				continue
			}
			ours, other := p.Objective(result.Plan), p.Objective(theirs.Plan)
			if off := 1e-9 * math.Abs(ours); other > ours+off || theirs.Claim.Optimal && other < ours-1e-6*math.Abs(ours) {
				t.Errorf("seed %d: objective %.12g; %s has %.12g", seed, ours, oracle.Name(), other)
			}
		}
	}
}

// BenchmarkSizeLimits proves decisions on pools with 2 to 7 rows: all jobs new, most of them running, and
// hyperparameter sweeps of 1 to 5 kinds of jobs, new or running with 6% new jobs of other kinds. It reports CPU time,
// the share proven, the largest gap, and the share in which a size limit has a price.
func BenchmarkSizeLimits(b *testing.B) {
	for _, d := range []struct {
		machines
		decisions int
	}{
		{machines{count: 72, units: 8, jobs: 50, damaged: 0.3}, 40},
		{machines{count: 504, units: 1, jobs: 50, block: 18}, 40},
		{machines{count: 432, units: 8, jobs: 300, damaged: 0.3}, 40},
		{machines{count: 2304, units: 1, jobs: 300, block: 18}, 40},
		{machines{count: 900, units: 8, jobs: 1000, damaged: 0.3}, 20},
		{machines{count: 4608, units: 1, jobs: 1000, block: 18}, 20},
		{machines{count: 972, units: 8, jobs: 2000, damaged: 0.3}, 20},
		{machines{count: 7776, units: 1, jobs: 2000, block: 18}, 20},
	} {
		for _, state := range []string{"new", "running", "sweep", "running sweep"} {
			b.Run(fmt.Sprintf("jobs=%d/units=%dx%d/block=%d/damaged=%g/%s", d.jobs, d.count, d.units, d.block, d.damaged, state),
				func(b *testing.B) { d.benchmark(b, state, d.decisions) })
		}
	}
}

// benchmark proves decisions on pools with the seeds from 0.
func (d machines) benchmark(b *testing.B, state string, decisions int) {
	b.Helper()
	var times []time.Duration
	proven, gap, limits, binding := 0, 0.0, 0, 0
	for b.Loop() {
		for n := range decisions {
			d.seed = uint64(n)
			s := d.snapshot()
			switch state {
			case "running":
				s = d.warm(b, s)
			case "sweep":
				s = sweepOf(s, 1+n%5)
			case "running sweep":
				s = d.warm(b, sweepOf(s, 1+n%5))
			}
			p := problem.NewProblemFor(s, typedOptions())
			took, open := prove(cpuLimit{b.Context(), b, cpuTime(b) + 10*time.Second}, b, syscall.RUSAGE_SELF, exact.New(), p)
			_, prices, _ := exact.New().Bound(b.Context(), p)
			if slices.ContainsFunc(p.Rows, func(row solver.Row) bool { return row.Limit >= 0 && prices[slices.Index(p.Rows, row)] > 0 }) {
				binding++
			}
			if times, gap, limits = append(times, took), max(gap, open), max(limits, len(s.SizeLimits)); open <= solver.OptimalGap {
				proven++
			}
		}
	}
	b.ReportMetric(float64(1+limits), "rows-max")
	b.ReportMetric(float64(binding)/float64(len(times)), "binding")
	b.ReportMetric(float64(proven)/float64(len(times)), "proven")
	b.ReportMetric(gap, "gap-max")
	b.ReportMetric(middle(times), "ms-median")
	b.ReportMetric(slices.Max(times).Seconds()*1e3, "ms-max")
}
