package audittest

import (
	"context"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// Allocator is an allocator with the embedded backends, whose decisions are verified. Tests of package sim use it,
// because the root package imports sim.
type Allocator struct{ chain *chain.Chain }

// NewAllocator returns an Allocator.
func NewAllocator() Allocator {
	return Allocator{chain.New(chain.Config{
		Backends: []problem.Backend{exact.New()}, Greedy: greedy.New(), Prover: exact.New(),
	})}
}

// Allocate makes a decision and verifies it, see the function Allocate.
func (a Allocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	return Allocate(ctx, s, o.WithDefaults(), a.chain.Allocate)
}

// FillIdle allocates idle nodes.
func (Allocator) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return report.DecideNow(s, greedy.FillIdle(s)), nil
}
