// Package greedy is the rule-based allocator that the paper compares with
// (section "Greedy Resource Allocator"): it keeps as many nodes busy as it can,
// ranks jobs by how long they have trained, and neither knows a remaining ETA nor
// looks ahead. It is the reference of every decision's gain and the last resort
// where no search has an answer.
//
// Beyond the paper, it gives legal sizes only, as the optimal allocator does, and
// copes with current sizes that are not legal and with a pool that shrank.
package greedy

import (
	"context"
	"errors"
	"math"

	"github.com/elastalloc/elastalloc/solver/problem"
)

// Allocator is the greedy allocator at a scaling moment. It implements
// problem.Backend and holds no state.
type Allocator struct{}

// New returns a greedy allocator.
func New() *Allocator { return &Allocator{} }

// Name returns problem.BackendGreedy.
func (*Allocator) Name() problem.BackendName { return problem.BackendGreedy }

// errPoolTooSmall cannot happen to a problem that admission made.
var errPoolTooSmall = errors.New("greedy: the smallest sizes of the running jobs exceed the pool or the limit of a group")

// Solve returns the plan of the paper's four cases: the nodes they give, held
// until the job finishes. It may leave an admitted queued job waiting, so the plan
// is one of p.WithWaiting. It takes O(n log n) time in the number of jobs, tens of
// milliseconds for 100,000, and does not look at ctx. It proves no bound.
func (*Allocator) Solve(_ context.Context, p *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
	m := newMoment(p)
	m.shrink()
	if m.room.Exceeded() {
		return problem.Result{}, errPoolTooSmall
	}
	m.allocate()

	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for i, option := range m.held {
		for t := range plan[i] {
			plan[i][t] = option
		}
	}
	p.ReleaseFinished(plan)
	return problem.Result{Plan: plan, Bound: math.Inf(1), Limit: problem.LimitNone, Heuristic: true}, nil
}
