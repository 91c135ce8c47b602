// Package greedy implements the rule-based allocator that the paper compares with (section
// "Greedy Resource Allocator"). It keeps as many nodes busy as it can, ranks jobs by their
// training time, ignores remaining ETAs and does not look ahead. It is the baseline of every
// decision, and the last fallback if no search returns a plan.
//
// In addition to the paper, it allocates legal sizes only, and supports current sizes that are not
// legal and pools that have shrunk.
package greedy

import (
	"context"
	"errors"
	"math"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Allocator decides by the paper's rules for scaling. It implements problem.Backend and keeps no
// state.
type Allocator struct{}

// New returns a greedy allocator.
func New() *Allocator { return &Allocator{} }

// Name returns solver.BackendGreedy.
func (*Allocator) Name() solver.BackendName { return solver.BackendGreedy }

// errPoolTooSmall cannot happen to a problem that admission made.
var errPoolTooSmall = errors.New("greedy: the smallest sizes of the running jobs exceed the pool or the limit of a group")

// Solve returns the plan of the paper's four cases. Each job keeps its nodes until it completes. An
// admitted queued job may keep waiting, so the plan is legal for p.WithWaiting. Solve takes
// O(n log n) time in the number of jobs, tens of milliseconds for 100,000 jobs, and ignores ctx. It
// proves no bound.
func (*Allocator) Solve(_ context.Context, p *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
	a := newAllocation(p)
	a.shrink()
	if a.room.Exceeded() {
		return problem.Result{}, errPoolTooSmall
	}
	a.applyCases()

	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for i, option := range a.allocated {
		for t := range plan[i] {
			plan[i][t] = option
		}
	}
	p.ReleaseFinished(plan)
	return problem.Result{Plan: plan, Bound: math.Inf(1), Limit: solver.LimitNone, Heuristic: true}, nil
}
