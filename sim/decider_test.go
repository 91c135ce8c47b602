package sim

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/greedy"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
)

// newDecider returns the server's allocator in this process.
func newDecider() Decider {
	return server.NewAllocator(server.AllocatorConfig{Chain: chain.New(chain.Config{
		Backends: []solver.Backend{exact.New()},
		Greedy:   greedy.New(),
		FillIdle: greedy.FillIdle,
		Bound:    exact.Bound,
	})})
}

// deciderFunc decides by a function.
type deciderFunc func(*elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)

func (f deciderFunc) Allocate(
	_ context.Context, request *elastallocv1.AllocateRequest,
) (*elastallocv1.AllocateResponse, error) {
	return f(request)
}

// policy returns the policy of a name.
func policy(t rapid.TB, name string) Policy {
	t.Helper()
	p, err := FindPolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// job returns a job that does what the allocator is told.
func job(id string, submit, demand time.Duration) WorkloadJob {
	return WorkloadJob{
		ID: id, Submit: submit, Demand: demand, Asked: 1, ToldETA: demand, Fate: OutcomeCompleted, Work: demand,
	}
}

// run simulates a workload with the server's allocator.
func run(t rapid.TB, p Policy, config Config, jobs ...WorkloadJob) *Result {
	t.Helper()
	result, err := Run(context.Background(), Workload{Name: "test", Jobs: jobs}, p, config, newDecider())
	if err != nil {
		t.Fatal(err)
	}
	return result
}
