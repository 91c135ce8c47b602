// Package explain explains the nodes of jobs: the reason for the size, the loss that every other size
// would cause, and the smallest changes that would give the job more nodes. It computes losses and
// changes with further decisions of a Decider.
package explain

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/internal/parallel"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Decider makes decisions with checked plans, as *chain.Chain does.
type Decider interface {
	// Allocate decides a valid snapshot.
	Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error)
	// Solve finds the best plan for a problem, and a proven bound.
	Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error)
}

// Input is a decision to explain.
type Input struct {
	// Snapshot is the valid snapshot without frozen jobs, and All has the frozen jobs too. Options have their
	// defaults.
	Snapshot *solver.Snapshot
	All      *solver.Snapshot
	Options  solver.Options
	// Decision is the decision for all jobs. Frozen are the jobs that are not in Snapshot.
	Decision solver.Decision
	Frozen   solver.FrozenJobs
}

// Jobs explains the nodes of the jobs with the given ids, or of all jobs if there are none. If ctx is
// done early, losses are estimated from prices and changes are missing.
func Jobs(ctx context.Context, decider Decider, d Input, ids []string) ([]solver.JobExplanation, error) {
	e, err := newExplainer(ctx, decider, d)
	if err != nil {
		return nil, err
	}
	selected := make(map[string]bool, len(ids))
	for _, id := range ids {
		selected[id] = true
	}
	position := 0 // among the jobs that are not frozen
	var reasons []*reason
	for i := range d.Decision.Allocations {
		n := -1
		if !d.Frozen.Contains(i) {
			n = position
			position++
		}
		if a := &d.Decision.Allocations[i]; len(ids) == 0 || selected[a.JobID] {
			r := e.newReason(n, a)
			r.bad = len(d.Frozen.Violations(i)) > 0
			reasons = append(reasons, r)
		}
	}
	// Losses take less time than remedies, so they are computed first for all jobs.
	err = parallel.Do(ctx, d.Options.AcquireWorker, len(reasons),
		func(ctx context.Context, i int) error { return e.findLosses(ctx, reasons[i]) })
	for i := 0; i < len(reasons) && err == nil && ctx.Err() == nil && !d.Options.NoRemedies; i++ {
		err = e.findRemedies(ctx, reasons[i])
	}
	if err := ignoreIfDone(ctx, err); err != nil {
		return nil, err
	}
	var explanations []solver.JobExplanation
	for _, r := range reasons {
		explanations = append(explanations, e.describe(r))
	}
	return explanations, nil
}

type explainer struct {
	decider     Decider
	snapshot    *solver.Snapshot // without frozen jobs
	all         *solver.Snapshot
	frozenNodes map[string]int // nodes of frozen jobs by type; the key is "" without node types
	options     solver.Options // for decisions on changed snapshots
	problem     *problem.Problem
	admitted    []int // index in the problem by job of the snapshot, or -1
	plan        problem.Plan
	// best is the largest known objective. proven reports that it is the optimum.
	best   float64
	proven bool
	// nodePrices are the prices of nodes, by row if the problem has rows. groupPrices are the prices of
	// the limits of groups.
	nodePrices, groupPrices []float64
	headroom                *problem.Headroom // if every job has its smallest size
	// waitingForBudget are the jobs of the snapshot with WaitRestartBudget.
	waitingForBudget []int
	// pools has the options of all jobs in decisions on pools of other sizes.
	pools map[pool][]solver.Option
}

func newExplainer(ctx context.Context, decider Decider, d Input) (*explainer, error) {
	e := &explainer{
		decider: decider, snapshot: d.Snapshot, all: d.All, frozenNodes: make(map[string]int),
		options: d.Options, problem: problem.NewProblemFor(d.Snapshot, d.Options),
		admitted: slices.Repeat([]int{-1}, len(d.Snapshot.Jobs)), pools: make(map[pool][]solver.Option),
	}
	for _, group := range d.Decision.Report.Groups {
		e.groupPrices = append(e.groupPrices, group.Price)
	}
	e.nodePrices = d.Decision.Report.Prices(e.problem.Rows)
	var planned problem.Plan // of the jobs that are not frozen
	for i := range d.Decision.Allocations {
		a := &d.Decision.Allocations[i]
		if a.WaitReason == solver.WaitRestartBudget {
			e.waitingForBudget = append(e.waitingForBudget, len(planned))
		}
		switch {
		case d.Frozen.Contains(i):
			e.frozenNodes[a.NodeType] += a.Nodes
		case d.Snapshot.Typed():
			planned = append(planned, []solver.Option{d.Snapshot.Option(a.NodeType, a.Nodes)})
		default:
			planned = append(planned, solver.Nodes(a.PlannedNodes...))
		}
	}
	e.plan = make(problem.Plan, len(e.problem.Jobs))
	for n := range e.problem.Jobs {
		index := e.problem.Jobs[n].Index
		e.admitted[index] = n
		e.plan[n] = planned[index]
	}
	if e.problem.Check(e.plan) != nil {
		e.problem = e.problem.WithWaiting() // Greedy may leave admitted jobs waiting.
	}
	e.headroom = e.problem.HeadroomAtMinimum()
	e.best, e.proven = e.problem.Objective(e.plan), d.Decision.Report.Reason == solver.ReasonOptimal
	if !e.proven && ctx.Err() == nil {
		result, err := decider.Solve(ctx, e.problem, problem.SolveOptions{Incumbent: e.plan})
		if err != nil {
			return nil, err
		}
		e.best = max(e.best, e.problem.Objective(result.Plan))
		e.proven = isProven(e.best, result)
		if result.NodePrices != nil {
			e.nodePrices = result.NodePrices
		}
	}
	e.options.NoBound = true
	return e, nil
}

// isProven reports whether the objective of a result is proven to be the optimum.
func isProven(objective float64, result problem.Result) bool {
	return solver.RelativeGap(objective, result.Bound) <= solver.OptimalGap
}

// reason is the explanation of a job.
type reason struct {
	allocation *solver.Allocation
	// job is the index in the snapshot without frozen jobs, -1 if the job is frozen. admitted is the
	// index in the problem, -1 if the job is not admitted.
	job, admitted int
	bad           bool          // The job is frozen because of invalid fields.
	option        solver.Option // of the decision
	sizes         []sizeReason
	remedies      []solver.Remedy
}

// sizeReason is the explanation of a size.
type sizeReason struct {
	solver.SizeOption
	option solver.Option
	// faster reports that the option is more than the decided one: more nodes or, with node types, a
	// higher speed.
	faster bool
	// gain is the increase of the job's own value. change is the cost of the change, which gain includes.
	gain, change float64
}

// newReason returns the reason of a job with losses that are estimated from prices.
func (e *explainer) newReason(job int, a *solver.Allocation) *reason {
	r := &reason{allocation: a, job: job, admitted: -1}
	if job < 0 {
		return r
	}
	r.option = e.snapshot.Option(a.NodeType, a.Nodes)
	if r.admitted = e.admitted[job]; r.admitted < 0 {
		return r
	}
	admitted, plan := &e.problem.Jobs[r.admitted], e.plan[r.admitted]
	value := admitted.Value(plan)
	for n, k := range admitted.Options {
		if k != r.option && !e.fits(r.admitted, n) {
			continue
		}
		size := sizeReason{
			SizeOption: solver.SizeOption{Nodes: int(k.Nodes), NodeType: e.snapshot.TypeOf(k), Proven: k == r.option && e.proven},
			option:     k, faster: e.isMore(job, r.option, k),
		}
		if k != r.option {
			row := slices.Clone(plan)
			row[0] = k
			size.gain = admitted.Value(row) - value
			size.change = changeCost(admitted, row)
			size.Loss = max(0, e.cost(admitted, r.option, k)-size.gain)
		}
		r.sizes = append(r.sizes, size)
	}
	return r
}

// isMore reports whether an option is more than another one for a job of the snapshot: more nodes or,
// with node types, a higher speed.
func (e *explainer) isMore(job int, than, option solver.Option) bool {
	if !e.snapshot.Typed() || than.IsZero() {
		return option.Nodes > than.Nodes
	}
	return !option.IsZero() && e.snapshot.Speed(job, option) > e.snapshot.Speed(job, than)
}

// cost returns the cost for other jobs, at the prices of nodes, if a job changes from one option to another.
func (e *explainer) cost(admitted *problem.AdmittedJob, from, to solver.Option) float64 {
	price, before := e.nodePrice(admitted, to), e.nodePrice(admitted, from)
	if price == before {
		return price * float64(to.Nodes-from.Nodes)
	}
	return price*float64(to.Nodes) - before*float64(from.Nodes)
}

// nodePrice returns the mean price of the nodes of an option of a job: the sum of the prices of all rows and
// groups in which they count.
func (e *explainer) nodePrice(admitted *problem.AdmittedJob, option solver.Option) float64 {
	if option.IsZero() {
		return 0
	}
	price := e.capacityPrice(option) + e.groupPrice(admitted)
	if len(e.nodePrices) > 0 && len(e.nodePrices) == len(e.problem.Rows) {
		for _, row := range e.problem.Rows.Counting(option, admitted.PieceNodes) {
			if row.Limit >= 0 {
				share := float64(row.Count(option, admitted.PieceNodes)) / float64(option.Nodes)
				price += share * e.nodePrices[slices.Index(e.problem.Rows, row)]
			}
		}
	}
	return price
}

// capacityPrice returns the price of a node of the pool or of the type of an option, 0 if it is unknown.
func (e *explainer) capacityPrice(option solver.Option) float64 {
	if len(e.nodePrices) == 0 {
		return 0
	}
	return e.nodePrices[max(0, slices.IndexFunc(e.problem.Rows, func(row solver.Row) bool { return row.Type == int(option.Type) }))]
}

// groupPrice returns the price of a node in the limits of a job's groups.
func (e *explainer) groupPrice(admitted *problem.AdmittedJob) float64 {
	price := 0.0
	if len(e.problem.Groups) > 0 && len(e.groupPrices) == len(e.problem.Groups) {
		for g := admitted.Group; g >= 0; g = e.problem.Groups[g].Parent {
			price += e.groupPrices[g]
		}
	}
	return price
}

// findLosses computes the loss of each size of a job from a decision in which the job has that size.
func (e *explainer) findLosses(ctx context.Context, r *reason) error {
	for n := 0; n < len(r.sizes) && ctx.Err() == nil; n++ {
		size := &r.sizes[n]
		if size.option == r.option {
			continue
		}
		position := slices.Index(e.problem.Jobs[r.admitted].Options, size.option)
		plan, legal := planWithSize(e.problem, e.plan, r.admitted, position)
		if !legal && e.problem.Rows != nil {
			plan, legal = planStartingWith(e.problem, r.admitted, size.option)
		}
		if !legal {
			continue
		}
		feasible := e.problem.Objective(plan)
		// The penalty exceeds the loss of the size, but not by orders of magnitude, so that the bound
		// keeps its precision.
		penalty := 2*(e.best-feasible) + 1e-6*cmp.Or(max(math.Abs(e.best), math.Abs(feasible)), 1)
		pinned := pin(e.problem, r.admitted, position, penalty)
		result, err := e.decider.Solve(ctx, pinned, problem.SolveOptions{Incumbent: plan})
		if err != nil {
			return err
		}
		if got := result.Plan[r.admitted][0]; got != size.option {
			continue // The penalty is smaller than the rounding error of values that cancel.
		}
		value := e.problem.Objective(result.Plan)
		size.Loss = max(0, e.best-value)
		size.Proven = e.proven && result.Bound-value <= max(e.tolerance(), solver.OptimalGap*math.Abs(value))
		admitted := &e.problem.Jobs[r.admitted]
		size.gain = admitted.Value(result.Plan[r.admitted]) - admitted.Value(e.plan[r.admitted])
		size.change = changeCost(admitted, result.Plan[r.admitted])
	}
	return nil
}

// ignoreIfDone returns err, or nil if ctx is done.
func ignoreIfDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = nil
	}
	return err
}
