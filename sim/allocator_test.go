package sim

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// realAllocator is an allocator with the embedded backends. The root package cannot be imported, because
// it imports package sim.
type realAllocator struct{ chain *chain.Chain }

func newAllocator() realAllocator {
	return realAllocator{chain.New(chain.Config{
		Backends: []problem.Backend{exact.New()}, Greedy: greedy.New(), Prover: exact.New(),
	})}
}

// Allocate makes decisions that are audited.
func (a realAllocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	return audittest.Allocate(ctx, s, o.WithDefaults(), a.chain.Allocate)
}

func (realAllocator) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return report.DecideNow(s, greedy.FillIdle(s)), nil
}

// allocatorFunc is an allocator that calls a function for every decision.
type allocatorFunc func(*solver.Snapshot) (solver.Decision, error)

func (f allocatorFunc) Allocate(_ context.Context, s *solver.Snapshot, _ solver.Options) (solver.Decision, error) {
	return f(s)
}

func (f allocatorFunc) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return f(s)
}

// policy returns the policy with the given name.
func policy(t rapid.TB, name string) Policy {
	t.Helper()
	p, err := FindPolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// job returns a job that takes as long as its estimate.
func job(id string, submit, demand time.Duration) WorkloadJob {
	return WorkloadJob{
		ID: id, Submit: submit, Demand: demand, RequestedNodes: 1, UserEstimate: demand, Fate: OutcomeCompleted, Work: demand,
	}
}

// run simulates a workload with the real allocator.
func run(t rapid.TB, p Policy, config Config, jobs ...WorkloadJob) *Result {
	t.Helper()
	result, err := Run(context.Background(), Workload{Name: "test", Jobs: jobs}, p, config, newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// syntheticTrace returns a synthetic trace.
func syntheticTrace(t rapid.TB, kind SyntheticKind, seed uint64) Trace {
	t.Helper()
	trace, err := Synthetic(kind, seed)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}
