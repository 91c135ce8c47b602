package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// midTrace returns a random snapshot as in the middle of a trace: about 20 jobs with
// the default sizes on a pool of 90 or 130 nodes, some about to complete, two long jobs,
// and a batch of nearly identical jobs.
func midTrace(seed uint64) *problem.Problem {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &solver.Snapshot{TotalNodes: []int{90, 130}[seed%2], Horizon: solver.DefaultHorizon()}
	for i := range 20 + int(seed%3) {
		eta := 7000 + r.IntN(600) // of a batch
		switch {
		case i < 2:
			eta = 25_000 + r.IntN(50_000)
		case i < 10:
			eta = 300 + r.IntN(6000)
		}
		job := solver.NewJob(fmt.Sprint(i), time.Duration(eta)*time.Second)
		if i > 2 {
			job.CurrentNodes = 4 << r.IntN(3)
		}
		s.Jobs = append(s.Jobs, job)
	}
	return problem.NewProblem(s, solver.AdmissionFIFO)
}

// TestWorkOfAProof limits what proofs of everyday snapshots may cost, counted in
// questions about time, each after the same work: the hardest took 144 when this was
// written, most take a few dozens.
func TestWorkOfAProof(t *testing.T) {
	total, most := 0, 0
	for seed := range uint64(testtier.Conformance.Examples(20, 60)) {
		ctx := &countdown{Context: context.Background(), left: 2_000}
		p := midTrace(seed)
		result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if objective := checked(t, p, result); result.Limit != solver.LimitNone {
			t.Errorf("seed %d: limit %s, gap %g", seed, result.Limit, solver.RelativeGap(objective, result.Bound))
		}
		total, most = total+ctx.checks, max(most, ctx.checks)
	}
	t.Logf("%d checks, at most %d of one proof", total, most)
}

// TestWorkOfManyJobs does so for 100,000 jobs, whose search takes more memory than that of few.
func TestWorkOfManyJobs(t *testing.T) {
	jobs := testtier.Conformance.Examples(20_000, 100_000)
	r := rand.New(rand.NewPCG(0, 1))
	s := &solver.Snapshot{TotalNodes: 4 * jobs, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		job := solver.NewJob(fmt.Sprint(i), time.Duration(3600*math.Exp(2*r.NormFloat64())+1)*time.Second)
		if r.IntN(4) > 0 {
			job.CurrentNodes = 1 << r.IntN(4)
		}
		s.Jobs = append(s.Jobs, job)
	}
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	ctx := &countdown{Context: context.Background(), left: 10_000}
	result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if gap := solver.RelativeGap(checked(t, p, result), result.Bound); gap > solver.OptimalGap {
		t.Errorf("limit %s, gap %g", result.Limit, gap)
	}
	t.Logf("%d checks", ctx.checks)
}

// TestWorkOfFullPools does so for many jobs that compete for few nodes. The search for prices
// starts where its master is flat, so that Newton's steps are far longer than the trust region.
func TestWorkOfFullPools(t *testing.T) {
	for _, d := range []randomCase{
		{jobs: 3000, nodes: 4500, steps: 5, admission: solver.AdmissionFIFO},
		{jobs: 10_000, nodes: 15_000, steps: 5, admission: solver.AdmissionFIFO},
	} {
		ctx := &countdown{Context: context.Background(), left: 500}
		p := d.problem()
		result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if gap := solver.RelativeGap(checked(t, p, result), result.Bound); gap > solver.OptimalGap || ctx.left < 0 {
			t.Errorf("%v: limit %s, gap %g", d, result.Limit, gap)
		}
		t.Logf("%v: %d checks", d, ctx.checks)
	}
}

// TestWorkOfTies limits what goes on once a plan counts as optimal: here thousands of plans are
// within a ten-billionth of it.
func TestWorkOfTies(t *testing.T) {
	job := func(demand, gain float64, sizes []int, work ...float64) problem.AdmittedJob {
		return problem.AdmittedJob{
			Demand: demand, Options: solver.Nodes(sizes...), FirstStepWork: work, StepWork: work, Gain: slices.Repeat([]float64{gain}, 13),
		}
	}
	p := &problem.Problem{Capacity: slices.Repeat([]int{12}, 13), Steps: 13, Jobs: []problem.AdmittedJob{
		job(3300, 1e9, []int{0, 3, 5, 7, 10, 11, 13}, 0, 1200, 900, 300, 1800, 300, 900),
		job(1800, 1, []int{0, 1, 2, 4, 5, 6, 8}, 0, 300, 300, 300, 1200, 1200, 1200),
	}}
	p.Jobs[1].Current.Nodes = 4
	ctx := &countdown{Context: context.Background(), left: 2_000}
	result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gap := solver.RelativeGap(checked(t, p, result), result.Bound)
	if result.Limit != solver.LimitNone || gap > solver.OptimalGap {
		t.Errorf("limit %s, gap %g", result.Limit, gap)
	}
	t.Logf("%d checks", ctx.checks)
}

// TestWorkOfSweeps does so for sweeps.
func TestWorkOfSweeps(t *testing.T) {
	if testing.Short() {
		t.Skip("what a search does is the same under the race detector")
	}
	most := 0
	for n := 0; n < len(shapes()); n += testtier.Conformance.Examples(4, 1) {
		ctx := &countdown{Context: context.Background(), left: 2_000}
		s := shapes()[n]
		p := s.problem()
		result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		gap := solver.RelativeGap(checked(t, p, result), result.Bound)
		if result.Limit != solver.LimitNone {
			t.Errorf("%v: limit %s, gap %g", s, result.Limit, gap)
		}
		most = max(most, ctx.checks)
	}
	t.Logf("at most %d checks of one proof", most)
}

// TestWorkWithTypeLimits limits the work of a proof for 40 teams, of which 12 have a limit on a node type. Without tables for
// these limits, it took more than ten times as many checks.
func TestWorkWithTypeLimits(t *testing.T) {
	d := cluster{jobs: 1000, types: 3, teams: 40, damaged: 0.2, typeLimits: 0.3, seed: 4}
	p := problem.NewProblemFor(d.snapshot(), typedOptions())
	ctx := &countdown{Context: context.Background(), left: 500}
	result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if objective := checked(t, p, result); result.Limit != solver.LimitNone {
		t.Errorf("limit %s, gap %g", result.Limit, solver.RelativeGap(objective, result.Bound))
	}
	t.Logf("%d checks", ctx.checks)
}
