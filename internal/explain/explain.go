// Package explain says why jobs get the nodes that they get, what every other size would
// cost, and the smallest changes that would give a job more. It decides nothing itself, but
// asks a Decider.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/internal/parallel"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Decider makes the decisions that explanations rest on, as *chain.Chain does: every plan
// is checked.
type Decider interface {
	// Allocate decides on a valid snapshot.
	Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error)
	// Solve finds the best plan for a problem, and a proven bound.
	Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error)
}

// Decided is a decision to explain.
type Decided struct {
	// Snapshot is valid and without held jobs, All is with them, and Options have their defaults.
	Snapshot *solver.Snapshot
	All      *solver.Snapshot
	Options  solver.Options
	// Decision is that on all jobs, of which Held are not in Snapshot.
	Decision solver.Decision
	Held     snapshot.FrozenJobs
}

// Jobs explains the nodes of the jobs with the given ids, of all if none are given. Where ctx
// ends early, costs are estimated and changes missing.
func Jobs(ctx context.Context, decider Decider, d Decided, ids []string) ([]solver.JobExplanation, error) {
	e, err := newExplainer(ctx, decider, d)
	if err != nil {
		return nil, err
	}
	asked := make(map[string]bool, len(ids))
	for _, id := range ids {
		asked[id] = true
	}
	position := 0 // among those that are not held
	var reasons []*reason
	for i := range d.Decision.Allocations {
		n := -1
		if !d.Held.Contains(i) {
			n = position
			position++
		}
		if a := &d.Decision.Allocations[i]; len(ids) == 0 || asked[a.JobID] {
			reasons = append(reasons, e.newReason(n, a))
		}
	}
	// First what is cheap, for all jobs; then the rest, while there is time.
	err = parallel.Do(ctx, d.Options.AcquireWorker, len(reasons), func(ctx context.Context, i int) error { return e.search(ctx, reasons[i]) })
	for i := 0; i < len(reasons) && err == nil && ctx.Err() == nil && !d.Options.NoRemedies; i++ {
		err = e.remedy(ctx, reasons[i])
	}
	if err := unlessOver(ctx, err); err != nil {
		return nil, err
	}
	var explanations []solver.JobExplanation
	for _, r := range reasons {
		explanations = append(explanations, e.describe(r))
	}
	return explanations, nil
}

type explainer struct {
	decider  Decider
	snapshot *solver.Snapshot // without held jobs
	all      *solver.Snapshot
	kept     map[string]int // nodes of each type that held jobs keep, "" where the nodes are alike
	options  solver.Options // of decisions on other snapshots
	problem  *solver.Problem
	admitted []int // by job of the snapshot its position in the problem, or -1
	plan     solver.Plan
	// best is the most that a plan is known to be worth; proven says that no plan is worth more.
	best   float64
	proven bool
	// prices are those of nodes, by row if the problem has rows, and groups those of the limits of the
	// groups.
	prices, groups []float64
	room           *problem.Headroom // where every job holds its smallest size
	// pools are the options of every job that decisions on pools of other sizes gave.
	pools map[pool][]solver.Option
}

func newExplainer(ctx context.Context, decider Decider, d Decided) (*explainer, error) {
	e := &explainer{
		decider: decider, snapshot: d.Snapshot, all: d.All, kept: make(map[string]int),
		options: d.Options, problem: solver.NewProblemFor(d.Snapshot, d.Options),
		admitted: slices.Repeat([]int{-1}, len(d.Snapshot.Jobs)), pools: make(map[pool][]solver.Option),
	}
	for _, group := range d.Decision.Report.Groups {
		e.groups = append(e.groups, group.Price)
	}
	e.prices = d.Decision.Report.Prices(e.problem.Rows)
	var planned solver.Plan // of the jobs that are not held
	for i := range d.Decision.Allocations {
		if a := &d.Decision.Allocations[i]; d.Held.Contains(i) {
			e.kept[a.NodeType] += a.Nodes
		} else if d.Snapshot.Typed() {
			planned = append(planned, []solver.Option{d.Snapshot.Option(a.NodeType, a.Nodes)})
		} else {
			planned = append(planned, solver.Nodes(a.PlannedNodes...))
		}
	}
	e.plan = make(solver.Plan, len(e.problem.Jobs))
	for n := range e.problem.Jobs {
		index := e.problem.Jobs[n].Index
		e.admitted[index] = n
		e.plan[n] = planned[index]
	}
	if e.problem.Check(e.plan) != nil {
		e.problem = e.problem.WithWaiting() // Greedy leaves jobs waiting that the model admits.
	}
	e.room = e.problem.HeadroomAtMinimum()
	e.best, e.proven = e.problem.Objective(e.plan), d.Decision.Report.Reason == solver.ReasonOptimal
	if !e.proven && ctx.Err() == nil {
		result, err := decider.Solve(ctx, e.problem, solver.SolveOptions{Incumbent: e.plan})
		if err != nil {
			return nil, err
		}
		e.best = max(e.best, e.problem.Objective(result.Plan))
		e.proven = isProven(e.best, result)
		if result.NodePrices != nil {
			e.prices = result.NodePrices
		}
	}
	e.options.NoBound = true
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
	option        solver.Option // what it gets
	sizes         []sizeReason
	remedies      []solver.Remedy
}

// sizeReason is what is known of a size.
type sizeReason struct {
	solver.SizeOption
	option solver.Option
	// faster says that it is more than what the job gets: of several types, that it trains
	// faster.
	faster bool
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
	r.option = e.snapshot.Option(a.NodeType, a.Nodes)
	if r.admitted = e.admitted[job]; r.admitted < 0 {
		return r
	}
	admitted, plan := &e.problem.Jobs[r.admitted], e.plan[r.admitted]
	worth := admitted.Value(plan)
	for n, k := range admitted.Options {
		if k != r.option && !e.fits(r.admitted, n) {
			continue
		}
		size := sizeReason{
			SizeOption: solver.SizeOption{Nodes: int(k.Nodes), NodeType: e.snapshot.TypeOf(k), Proven: k == r.option && e.proven},
			option:     k, faster: e.more(job, r.option, k),
		}
		if k != r.option {
			row := slices.Clone(plan)
			row[0] = k
			size.gain = admitted.Value(row) - worth
			size.change = costOfChange(admitted, row)
			size.Loss = max(0, e.cost(admitted, r.option, k)-size.gain)
		}
		r.sizes = append(r.sizes, size)
	}
	return r
}

// more reports whether an option is more than another one for a job of the snapshot: more
// nodes or, of several types, a higher speed.
func (e *explainer) more(job int, than, option solver.Option) bool {
	if !e.snapshot.Typed() || than.IsZero() {
		return option.Nodes > than.Nodes
	}
	return !option.IsZero() && e.snapshot.Speed(job, option) > e.snapshot.Speed(job, than)
}

// cost returns what it costs others that a job goes from one option to another, at the prices
// of nodes.
func (e *explainer) cost(admitted *solver.AdmittedJob, from, to solver.Option) float64 {
	price, before := e.nodePrice(admitted, to), e.nodePrice(admitted, from)
	if price == before {
		return price * float64(to.Nodes-from.Nodes)
	}
	return price*float64(to.Nodes) - before*float64(from.Nodes)
}

// nodePrice returns what a node of an option of a job is worth: the sum of the prices of all rows and
// groups that count it.
func (e *explainer) nodePrice(admitted *solver.AdmittedJob, option solver.Option) float64 {
	if option.IsZero() {
		return 0
	}
	price := e.capacityPrice(option) + e.groupPrice(admitted)
	if len(e.prices) == len(e.problem.Rows) {
		for _, row := range e.problem.Rows.Counting(option, admitted.PieceNodes) {
			if row.Limit >= 0 {
				price += e.prices[slices.Index(e.problem.Rows, row)]
			}
		}
	}
	return price
}

// capacityPrice returns what one more node of the pool, or of the type of an option, is worth now, 0
// where that is not known.
func (e *explainer) capacityPrice(option solver.Option) float64 {
	if len(e.prices) == 0 {
		return 0
	}
	return e.prices[max(0, slices.IndexFunc(e.problem.Rows, func(row snapshot.Row) bool { return row.Type == int(option.Type) }))]
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
		if size.option == r.option {
			continue
		}
		position := slices.Index(e.problem.Jobs[r.admitted].Options, size.option)
		plan, legal := repin(e.problem, e.plan, r.admitted, position)
		if !legal && e.problem.Rows != nil {
			plan, legal = startWith(e.problem, r.admitted, size.option)
		}
		if !legal {
			continue
		}
		least := e.problem.Objective(plan)
		// More than the size costs, and of the magnitude of the rest, lest it costs the bound
		// its digits.
		penalty := 2*(e.best-least) + 1e-6*cmp.Or(max(math.Abs(e.best), math.Abs(least)), 1)
		pinned := pin(e.problem, r.admitted, position, penalty)
		result, err := e.decider.Solve(ctx, pinned, solver.SolveOptions{Incumbent: plan})
		if err != nil {
			return err
		}
		got := result.Plan[r.admitted][0]
		if got != size.option && e.problem.Rows != nil {
			continue // The penalty is less than the rounding of values that cancel out.
		}
		if got != size.option {
			return fmt.Errorf("job %d has %d nodes; want the %d it was pinned to", r.job, got.Nodes, size.Nodes)
		}
		worth := e.problem.Objective(result.Plan)
		size.Loss = max(0, e.best-worth)
		size.Proven = e.proven && result.Bound-worth <= max(e.nothing(), solver.OptimalGap*math.Abs(worth))
		admitted := &e.problem.Jobs[r.admitted]
		size.gain = admitted.Value(result.Plan[r.admitted]) - admitted.Value(e.plan[r.admitted])
		size.change = costOfChange(admitted, result.Plan[r.admitted])
	}
	return nil
}

// unlessOver returns an error, but nil if time is up.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = nil
	}
	return err
}
