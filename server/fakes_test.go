package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// fakeBackend is a backend whose answers a test chooses.
type fakeBackend struct {
	name  solver.BackendName
	solve func(context.Context, *solver.Problem) (solver.Result, error)
}

func (b fakeBackend) Name() solver.BackendName { return b.name }

func (b fakeBackend) Solve(ctx context.Context, p *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
	return b.solve(ctx, p)
}

// smallest plans the smallest training size for every job.
func smallest(_ context.Context, p *solver.Problem) (solver.Result, error) {
	plan := solver.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for t := range plan[i] {
			plan[i][t] = p.Jobs[i].SmallestTrainingSize()
		}
	}
	return solver.Result{Plan: plan, Bound: everythingDone(p), Limit: solver.LimitNone}, nil
}

// everythingDone bounds every plan: all jobs finished in the first step.
func everythingDone(p *solver.Problem) float64 {
	bound := 0.0
	for i := range p.Jobs {
		for _, gain := range p.Jobs[i].Gain {
			bound += gain
		}
	}
	return bound
}

// fakeChain returns a chain over one exact backend that solves as given and a
// greedy one that plans the smallest sizes.
func fakeChain(solve func(context.Context, *solver.Problem) (solver.Result, error)) *chain.Chain {
	return chain.New(fakeChainConfig(solve))
}

func fakeChainConfig(solve func(context.Context, *solver.Problem) (solver.Result, error)) chain.Config {
	return chain.Config{
		Backends: []solver.Backend{fakeBackend{name: solver.BackendExact, solve: solve}},
		Greedy: fakeBackend{name: solver.BackendGreedy, solve: func(ctx context.Context, p *solver.Problem) (solver.Result, error) {
			result, err := smallest(ctx, p)
			result.Heuristic = true
			return result, err
		}},
		FillIdle: func(s *solver.Snapshot) []int {
			nodes := make([]int, len(s.Jobs))
			for i := range s.Jobs {
				nodes[i] = s.Jobs[i].CurrentNodes
			}
			return nodes
		},
		Bound:         func(_ context.Context, p *solver.Problem) float64 { return everythingDone(p) },
		DefaultBudget: time.Minute,
	}
}

// smallRequest is a good request: one running job, one queued job.
func smallRequest() *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			Id: "small", TotalNodes: 8,
			Jobs: []*elastallocv1.Job{
				{Id: "running", RemainingEta: durationpb.New(time.Hour), CurrentNodes: 2},
				{Id: "queued", RemainingEta: durationpb.New(10 * time.Minute)},
			},
		},
		Options: &elastallocv1.AllocateOptions{IncludePlan: true},
	}
}
