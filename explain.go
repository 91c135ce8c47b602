package elastalloc

import (
	"context"
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
)

// Explain decides as Allocate does and says of the jobs with the given ids, all if none are
// given, why each gets its nodes, what every other size would cost, and the smallest
// changes that would give it more. Costs and changes are found by deciding again, the costs
// by the exact backend, whichever backend decided. The time budget is for the whole: if it
// ends early, costs are estimated and changes missing. Costs are worked out on all
// processors, or on as many as solver.Options.Lend grants.
//
// Errors are those of Allocate; an id that the snapshot does not have is a bad field.
func (a *Allocator) Explain(
	ctx context.Context, s *solver.Snapshot, o solver.Options, jobIDs []string,
) (solver.Explanation, error) {
	if s == nil {
		return solver.Explanation{}, invalid("snapshot", "is missing")
	}
	all, o := s.WithDefaults(), o.WithDefaults()
	asked, bad := askedFor(all, jobIDs)
	good, held, err := a.valid(all, o)
	if err := also(err, bad); err != nil {
		return solver.Explanation{}, err
	}
	limited, cancel := a.limit(ctx, o)
	defer cancel()
	decision, err := a.Allocate(ctx, all, o)
	if err != nil {
		return solver.Explanation{}, err
	}
	o.Hurry = nil // The context ends when it is closed.
	e, err := newExplainer(limited, a, good, o, withoutHeld(decision, held))
	if err != nil {
		return solver.Explanation{}, err
	}
	explanation := solver.Explanation{Decision: decision}
	position := 0 // among those that are not held
	var reasons []*reason
	for i := range all.Jobs {
		n := -1
		if !held.Has(i) {
			n = position
			position++
		}
		if asked[i] {
			reasons = append(reasons, e.newReason(n, &decision.Allocations[i]))
		}
	}
	// First what is cheap, of all; then, as long as there is time, what is not.
	err = inParallel(limited, o.Lend, len(reasons), func(ctx context.Context, i int) error { return e.search(ctx, reasons[i]) })
	for i := 0; i < len(reasons) && err == nil && limited.Err() == nil && !o.NoRemedies; i++ {
		err = e.remedy(limited, reasons[i])
	}
	if err := unlessOver(limited, err); err != nil {
		return solver.Explanation{}, err
	}
	if err := ctx.Err(); err != nil {
		return solver.Explanation{}, err
	}
	for _, r := range reasons {
		explanation.Jobs = append(explanation.Jobs, e.describe(r))
	}
	return explanation, nil
}

// askedFor marks the jobs of a snapshot that are asked for, and names ids that are none of
// its jobs'.
func askedFor(s *solver.Snapshot, ids []string) (asked []bool, bad []solver.Violation) {
	asked = make([]bool, len(s.Jobs))
	at := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		at[s.Jobs[i].ID] = i
		asked[i] = len(ids) == 0
	}
	for n, id := range ids {
		if i, known := at[id]; known {
			asked[i] = true
		} else if len(bad) < solver.MaxViolations {
			bad = append(bad, solver.Violation{
				Path: fmt.Sprintf("job_ids[%d]", n), Description: fmt.Sprintf("is %q; want a job of the snapshot", id),
			})
		}
	}
	return asked, bad
}

// withoutHeld returns the allocations of the jobs that are not held.
func withoutHeld(d solver.Decision, held solver.Held) solver.Decision {
	others := d
	others.Allocations = nil
	for i := range d.Allocations {
		if !held.Has(i) {
			others.Allocations = append(others.Allocations, d.Allocations[i])
		}
	}
	return others
}

// explainer finds the reasons of one decision.
type explainer struct {
	allocator *Allocator
	exact     *exact.Solver
	greedy    solver.Backend
	snapshot  *solver.Snapshot // without held jobs
	options   solver.Options
	problem   *solver.Problem
	admitted  []int // by job of the snapshot its position in the problem, or -1
	plan      solver.Plan
	// best is the most that a plan is known to be worth, proven that it is the most there is.
	best   float64
	proven bool
	// prices are those of nodes, and groups those of the limits of the groups.
	prices, groups []float64
	room           *solver.Room // where every job holds its smallest size
	// pools are the nodes of every job that decisions on pools of other sizes gave.
	pools map[int][]int
}

// newExplainer returns what finds the reasons of a decision on a valid snapshot.
func newExplainer(
	ctx context.Context, a *Allocator, s *solver.Snapshot, o solver.Options, d solver.Decision,
) (*explainer, error) {
	e := &explainer{
		allocator: a, exact: exact.New(), greedy: greedy.New(), snapshot: s, options: o, problem: solver.NewProblemFor(s, o),
		admitted: slices.Repeat([]int{-1}, len(s.Jobs)), prices: d.Report.NodePrices, pools: make(map[int][]int),
	}
	for _, group := range d.Report.Groups {
		e.groups = append(e.groups, group.Price)
	}
	e.plan = make(solver.Plan, len(e.problem.Jobs))
	for n := range e.problem.Jobs {
		index := e.problem.Jobs[n].Index
		e.admitted[index] = n
		e.plan[n] = d.Allocations[index].PlannedNodes
	}
	if e.problem.Check(e.plan) != nil {
		e.problem = e.problem.WithWaiting() // Greedy leaves waiting whom the model would admit.
	}
	e.room = e.problem.SmallestRoom()
	e.best, e.proven = e.problem.Objective(e.plan), d.Report.Reason == solver.ReasonOptimal
	if !e.proven && ctx.Err() == nil {
		result, err := e.exact.Solve(ctx, e.problem, solver.SolveOptions{Incumbent: e.plan, PriceHint: e.prices})
		if err != nil {
			return nil, err
		}
		e.best = max(e.best, e.problem.Objective(result.Plan))
		e.proven = isProven(e.best, result)
		if result.NodePrices != nil {
			e.prices = result.NodePrices
		}
	}
	return e, nil
}

// isProven reports whether the objective of a result's plan is proven to be the most.
func isProven(objective float64, result solver.Result) bool {
	return solver.RelativeGap(objective, result.Bound) <= solver.OptimalGap
}

// reason is what is known of why a job gets its nodes.
type reason struct {
	allocation *solver.Allocation
	// job is its position in the snapshot without held jobs, -1 for one that is held, and
	// admitted that in the problem, -1 for one that has no part in it.
	job, admitted int
	sizes         []sizeReason
	remedies      []solver.Remedy
}

// sizeReason is what is known of a size.
type sizeReason struct {
	solver.SizeOption
	// gain is what the job itself would be worth more, and change what of that a change
	// that cost nothing would add.
	gain, change float64
}

// newReason returns what the prices say of a job.
func (e *explainer) newReason(job int, a *solver.Allocation) *reason {
	r := &reason{allocation: a, job: job, admitted: -1}
	if job < 0 {
		return r
	}
	if r.admitted = e.admitted[job]; r.admitted < 0 {
		return r
	}
	admitted, plan := &e.problem.Jobs[r.admitted], e.plan[r.admitted]
	free, price := e.room.For(admitted.Group), e.price(admitted)
	worth := admitted.Value(plan)
	for _, k := range admitted.Sizes {
		if k-admitted.Sizes[0] > free {
			break
		}
		size := sizeReason{SizeOption: solver.SizeOption{Nodes: k, Proven: k == a.Nodes && e.proven}}
		if k != a.Nodes {
			row := slices.Clone(plan)
			row[0] = k
			size.gain = admitted.Value(row) - worth
			size.change = admitted.CostOfChange(row)
			size.Loss = max(0, price*float64(k-a.Nodes)-size.gain)
		}
		r.sizes = append(r.sizes, size)
	}
	return r
}

// price returns what one more node now is worth to others than a job, in the pool and in
// the groups that it counts towards.
func (e *explainer) price(admitted *solver.AdmittedJob) float64 {
	return e.poolPrice() + e.groupPrice(admitted)
}

// poolPrice returns what one more node of the pool is worth now, 0 where that is not known.
func (e *explainer) poolPrice() float64 {
	if len(e.prices) == 0 {
		return 0
	}
	return e.prices[0]
}

// groupPrice returns what one more node of the limits of a job's groups is worth.
func (e *explainer) groupPrice(admitted *solver.AdmittedJob) float64 {
	price := 0.0
	if len(e.problem.Groups) > 0 && len(e.groups) == len(e.problem.Groups) {
		for g := admitted.Group; g >= 0; g = e.problem.Groups[g].Parent {
			price += e.groups[g]
		}
	}
	return price
}

// search finds out what each size of a job costs, by deciding again with the job at it.
func (e *explainer) search(ctx context.Context, r *reason) error {
	for n := 0; n < len(r.sizes) && ctx.Err() == nil; n++ {
		size := &r.sizes[n]
		if size.Nodes == r.allocation.Nodes {
			continue
		}
		position := slices.Index(e.problem.Jobs[r.admitted].Sizes, size.Nodes)
		plan, legal := e.problem.Repin(e.plan, r.admitted, position)
		if !legal {
			continue
		}
		least := e.problem.Objective(plan)
		penalty := 2*(e.best-least) + 1e-6*max(1, e.best, -e.best)
		pinned := e.problem.Pin(r.admitted, position, penalty)
		result, err := e.exact.Solve(ctx, pinned, solver.SolveOptions{Incumbent: plan, PriceHint: e.prices})
		if err != nil {
			return err
		}
		if result.Plan[r.admitted][0] != size.Nodes {
			return fmt.Errorf("job %d has %d nodes; want the %d it was pinned to", r.job, result.Plan[r.admitted][0], size.Nodes)
		}
		worth := e.problem.Objective(result.Plan)
		size.Loss = max(0, e.best-worth)
		size.Proven = e.proven && result.Bound-worth <= solver.OptimalGap*max(e.best, -e.best, worth, -worth)
		admitted := &e.problem.Jobs[r.admitted]
		size.gain = admitted.Value(result.Plan[r.admitted]) - admitted.Value(e.plan[r.admitted])
		size.change = admitted.CostOfChange(result.Plan[r.admitted])
	}
	return nil
}

// unlessOver returns an error, or nil where it is only that time is up.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = nil
	}
	return err
}
