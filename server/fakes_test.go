package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// fakeBackend is a backend whose results a test defines.
type fakeBackend struct {
	name  solver.BackendName
	solve func(context.Context, *problem.Problem) (problem.Result, error)
}

func (b fakeBackend) Name() solver.BackendName { return b.name }

func (b fakeBackend) Solve(ctx context.Context, p *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
	return b.solve(ctx, p)
}

// smallest returns a plan with the smallest training size for every job.
func smallest(_ context.Context, p *problem.Problem) (problem.Result, error) {
	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for t := range plan[i] {
			plan[i][t] = solver.NewOption(0, p.Jobs[i].SmallestSize())
		}
	}
	return problem.Result{Plan: plan, Bound: everythingDone(p), Limit: solver.LimitNone}, nil
}

// everythingDone returns an upper bound on every plan: all jobs complete in the first step.
func everythingDone(p *problem.Problem) float64 {
	bound := 0.0
	for i := range p.Jobs {
		for _, gain := range p.Jobs[i].Gain {
			bound += gain
		}
	}
	return bound
}

// decider is an allocator over a chain. FillIdle panics on a snapshot named panic. Methods that are not
// implemented panic on every snapshot.
type decider struct {
	apiconv.Allocator
	chain *chain.Chain
}

func (d decider) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	s, o = s.WithDefaults(), o.WithDefaults()
	if bad := solver.Validate(s, o, d.MaxJobs(), []solver.BackendName{o.Backend}); len(bad) > 0 {
		return solver.Decision{}, &solver.InvalidError{Violations: bad}
	}
	return d.chain.Allocate(ctx, s, o)
}

func (d decider) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	if s.ID == "panic" {
		panic("secret of the house")
	}
	s = s.WithDefaults()
	nodes := make([]int, len(s.Jobs))
	for i := range s.Jobs {
		nodes[i] = s.Jobs[i].CurrentNodes
	}
	return report.DecideNow(s, solver.Nodes(nodes...)), nil
}

func (d decider) WhatIf(ctx context.Context, s *solver.Snapshot, o solver.Options, _ []solver.Scenario) (solver.WhatIf, error) {
	base, err := d.Allocate(ctx, s, o)
	return solver.WhatIf{Base: base}, err
}

func (d decider) Explain(ctx context.Context, s *solver.Snapshot, o solver.Options, _ []string) (solver.Explanation, error) {
	decision, err := d.Allocate(ctx, s, o)
	return solver.Explanation{Decision: decision}, err
}

func (d decider) Forecast(ctx context.Context, s *solver.Snapshot, o solver.Options, _ solver.ForecastOptions) (solver.Forecast, error) {
	decision, err := d.Allocate(ctx, s, o)
	return solver.Forecast{Contradiction: decision.Report.Contradiction}, err
}

func (decider) MaxJobs() int { return 1000 }

// fakeAllocator returns an allocator with a given exact backend, and a greedy backend that plans the smallest
// sizes.
func fakeAllocator(solve func(context.Context, *problem.Problem) (problem.Result, error)) decider {
	return decider{chain: chain.New(fakeChainConfig(solve))}
}

// fakeProver bounds every plan, and does not solve problems.
type fakeProver struct{ fakeBackend }

func (fakeProver) Bound(_ context.Context, p *problem.Problem) (float64, []float64, string) {
	return everythingDone(p), nil, ""
}

func fakeChainConfig(solve func(context.Context, *problem.Problem) (problem.Result, error)) chain.Config {
	return chain.Config{
		Backends: []problem.Backend{fakeBackend{name: solver.BackendExact, solve: solve}},
		Greedy: fakeBackend{name: solver.BackendGreedy, solve: func(ctx context.Context, p *problem.Problem) (problem.Result, error) {
			result, err := smallest(ctx, p)
			result.Heuristic = true
			return result, err
		}},
		Prover: fakeProver{fakeBackend{"prover", func(context.Context, *problem.Problem) (problem.Result, error) {
			return problem.Result{}, solver.ErrUnavailable
		}}},
		DefaultBudget: time.Minute,
	}
}

// searchRequest is a valid request of a method that is rejected if there is no slot for a search.
func searchRequest() *elastallocv1.WhatIfRequest {
	small := smallRequest()
	return &elastallocv1.WhatIfRequest{Snapshot: small.GetSnapshot(), Options: small.GetOptions()}
}

// smallRequest is a valid request with a running and a queued job.
func smallRequest() *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			Id: "small", TotalNodes: 8,
			Jobs: []*elastallocv1.Job{
				{Id: "running", RemainingEta: durationpb.New(time.Hour), CurrentNodes: 2},
				{Id: "queued", RemainingEta: durationpb.New(10 * time.Minute)},
			},
		},
		Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, IncludePlan: true},
	}
}
