// Package elastalloc decides how many nodes each elastic deep-learning training job
// of a shared pool gets, with a proof of how good the decision is.
//
// An Allocator takes a snapshot of the pool and its jobs and returns the nodes of
// every job. It keeps no state between decisions: the same snapshot and options give
// the same allocations unless a time limit cut the search short. The model is that of
// Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs
// on Cloud"; package solver defines it.
//
// Use this package to decide in process, the Go client of package client to ask an
// elastalloc server.
package elastalloc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/explain"
	"github.com/elastalloc/elastalloc/internal/forecast"
	"github.com/elastalloc/elastalloc/internal/whatif"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/decision"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// DefaultBudget is the time budget of a decision whose options set none.
const DefaultBudget = 900 * time.Millisecond

// NoBudget as Options.DefaultBudget means no default: a decision whose options set no
// budget is limited by its context alone.
const NoBudget time.Duration = -1

// Options configure an Allocator. The zero value decides with the embedded exact
// backend.
type Options struct {
	// Backends are asked in this order, after the one that a decision's options name;
	// Specs lists all that exist. Greedy is the last resort of every allocator: it may
	// be named last or left out. Nil means DefaultBackends, an empty list greedy alone.
	Backends []solver.BackendName
	// Programs are the executables of external backends, paths or names on the PATH.
	// Spec.Program is the default.
	Programs map[solver.BackendName]string
	// DefaultBudget is the time budget of a decision whose options set none: 0 means
	// the constant of that name, NoBudget none.
	DefaultBudget time.Duration
	// MaxJobs is the maximum number of jobs per snapshot; 0 means
	// solver.DefaultMaxJobs.
	MaxJobs int
	// Middleware, where set, wraps every backend, for example to trace its searches. A
	// backend that is not asked because it keeps failing does not reach it.
	Middleware func(solver.Backend) solver.Backend
	// ProverMiddleware, where set, wraps the prover that verifies what external
	// backends claim and bounds what has no bound.
	ProverMiddleware func(solver.Prover) solver.Prover
	// NoBreakers makes every decision ask external backends however often they failed
	// before; it is meant for measurements. Otherwise a backend that keeps failing is
	// not asked for a while.
	NoBreakers bool
	// OnBackendChange, where set, is called each time that a backend's breaker opens or
	// closes: one call at a time, in order. It must not call the allocator.
	OnBackendChange func(solver.BackendName, chain.BackendState)
}

// Allocator makes decisions. It is safe for concurrent use.
type Allocator struct {
	chain    *chain.Chain
	backends []Backend
	known    []solver.BackendName
	maxJobs  int
	budget   time.Duration // of a decision whose options set none; 0 is none
}

// New returns an allocator. It asks every external backend for its version; a missing
// program is not an error, see Backend.Missing. The error says what is wrong with the
// options.
func New(options Options) (*Allocator, error) {
	names := options.Backends
	if names == nil {
		names = DefaultBackends()
	}
	names, err := fallbackOrder(names)
	if err != nil {
		return nil, err
	}
	if options.MaxJobs < 0 {
		return nil, fmt.Errorf("maximum number of jobs is %d; want at least 0", options.MaxJobs)
	}
	a := &Allocator{
		known: BackendNames(), maxJobs: cmp.Or(options.MaxJobs, solver.DefaultMaxJobs),
		budget: max(0, cmp.Or(options.DefaultBudget, DefaultBudget)),
	}
	config := chain.Config{
		Greedy:        options.wrap(greedy.New()),
		Prover:        exact.New(),
		DefaultBudget: a.budget,
	}
	if options.ProverMiddleware != nil {
		config.Prover = options.ProverMiddleware(config.Prover)
	}
	for _, name := range names {
		backend := options.build(name)
		config.Backends = append(config.Backends, backend.asked)
		a.backends = append(a.backends, backend)
	}
	a.chain = chain.New(config)
	return a, nil
}

// Allocate decides how many nodes each job of a snapshot gets. It fills in the
// defaults of unset fields and modifies neither argument.
//
// The error is a *solver.InvalidError that names every bad field, context.Canceled if ctx
// was cancelled, context.DeadlineExceeded if not even greedy answered before its deadline,
// and otherwise a bug of this module. More jobs than nodes, a pool that shrank and a time
// limit are not errors. With an error, what Report.Contradiction says still holds.
func (a *Allocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	r, err := a.valid(s, o, nil)
	if err != nil {
		return solver.Decision{}, err
	}
	return a.decide(ctx, r)
}

// decide decides a valid request.
func (a *Allocator) decide(ctx context.Context, r *request) (solver.Decision, error) {
	d, err := a.chain.Allocate(ctx, r.snapshot, r.options)
	if err != nil {
		return d, err
	}
	d = decision.Restore(r.held, d, r.options.Horizon(r.snapshot).Steps)
	d.Report.Warnings = append(d.Report.Warnings, decision.Warnings(r.snapshot, &r.options, &d)...)
	return d, nil
}

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
	r, err := a.valid(s, o, func(s *solver.Snapshot) []solver.Violation { return s.Unknown(jobIDs) })
	if err != nil {
		return solver.Explanation{}, err
	}
	limited, cancel := a.limit(ctx, r.options)
	defer cancel()
	d, err := a.decide(ctx, r)
	if err != nil {
		return solver.Explanation{Decision: d}, err
	}
	r.options.Hurry = nil //nolint:fatcontext // limited ends with it.
	decider := &noting{Chain: a.chain, contradiction: d.Report.Contradiction}
	jobs, err := explain.Jobs(limited, decider, explain.Decided{Snapshot: r.snapshot, All: r.all, Options: r.options, Decision: d, Held: r.held}, jobIDs)
	d.Report.Contradiction = decider.contradiction
	return solver.Explanation{Decision: d, Jobs: jobs}, cmp.Or(err, ctx.Err())
}

// WhatIf decides a snapshot and variations of it, each as Allocate alone would; the searches
// of the variations start from the prices of the snapshot's own decision. The time budget is
// for each decision. What is left until the deadline of ctx is shared equally among the
// decisions that are still to make, so that one that takes long leaves time for the others.
//
// The error of one scenario is in its result and leaves the others alone. The errors of
// the call are those of Allocate on the snapshot itself.
func (a *Allocator) WhatIf(
	ctx context.Context, s *solver.Snapshot, o solver.Options, scenarios []solver.Scenario,
) (solver.WhatIf, error) {
	return whatif.Decide(ctx, a, s, o, scenarios)
}

// Forecast simulates the cluster from a snapshot on, to the second, as package sim
// describes: it decides again and again as the options say. The time
// budget is for the whole: what it ends is returned as far as it was simulated. Samples run
// side by side on all processors, or on as many as solver.Options.Lend grants.
//
// Jobs that are held because they have bad fields keep their nodes and do not end. Errors
// are those of Allocate.
func (a *Allocator) Forecast(
	ctx context.Context, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions,
) (solver.Forecast, error) {
	r, err := a.valid(s, o, func(s *solver.Snapshot) []solver.Violation {
		f = f.WithDefaults(s, &o)
		return f.Validate()
	})
	if err != nil {
		return solver.Forecast{}, err
	}
	limited, cancel := a.limit(ctx, r.options)
	defer cancel()
	r.options.Hurry = nil //nolint:fatcontext // limited ends with it.
	decider := &noting{Chain: a.chain}
	future, err := forecast.Jobs(limited, decider, r.snapshot, r.options, f, a.budget)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return solver.Forecast{Contradiction: decider.contradiction}, err
	}
	future.Contradiction = decider.contradiction
	return decision.RestoreForecast(r.held, future), nil
}

// FillIdle applies the paper's rule for regular times, between two decisions: running
// jobs keep their nodes, and each queued job in order takes its largest legal size that
// the idle nodes allow, stopping at the first that does not fit now. A job whose
// smallest size exceeds the pool is passed over. Where the pool shrank below what the
// running jobs hold, those listed last lose their nodes until the rest fits, and no job is
// started. Nothing is optimised: of the report only IdleNodes and Warnings are set. Errors
// are those of Allocate.
func (a *Allocator) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	r, err := a.valid(s, solver.FillIdleOptions(), nil)
	if err != nil {
		return solver.Decision{}, err
	}
	if err := ctx.Err(); err != nil {
		return solver.Decision{}, err
	}
	return solver.DecideNow(r.snapshot, greedy.FillIdle(r.snapshot)), nil
}

// request is a valid request for decisions, with its defaults.
type request struct {
	snapshot *solver.Snapshot // without held jobs
	all      *solver.Snapshot
	held     snapshot.Held
	options  solver.Options
}

// valid returns the valid request that a snapshot and options make, or an error that names
// all bad fields: theirs and those that check, where it is set, finds.
func (a *Allocator) valid(
	s *solver.Snapshot, o solver.Options, check func(*solver.Snapshot) []solver.Violation,
) (*request, error) {
	if s == nil {
		return nil, snapshot.Invalid("snapshot", "is missing")
	}
	all := s.WithDefaults()
	r := &request{snapshot: all, all: all, options: o.WithDefaults()}
	if r.options.BadJobs == solver.BadJobsHold && len(all.Jobs) <= a.maxJobs {
		r.snapshot, r.held = all.Hold()
	}
	bad := solver.Validate(r.snapshot, r.options, a.maxJobs, a.known)
	if check != nil {
		bad = append(bad, check(all)...)
	}
	if len(bad) > 0 {
		return nil, &solver.InvalidError{Violations: bad}
	}
	return r, nil
}

// limit limits ctx to the time budget of a call that makes many decisions, and leaves its
// answer time to travel before the caller's own deadline. It ends, too, when the call is to
// be hurried.
func (a *Allocator) limit(ctx context.Context, o solver.Options) (context.Context, context.CancelFunc) {
	ctx, cancel := a.limitTime(ctx, o)
	if o.Hurry == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(o.Hurry, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// limitTime limits ctx to the time budget and to less than its own deadline.
func (a *Allocator) limitTime(ctx context.Context, o solver.Options) (context.Context, context.CancelFunc) {
	budget := cmp.Or(o.TimeBudget, a.budget)
	if deadline, limited := ctx.Deadline(); limited {
		left := time.Until(deadline)
		left -= min(left/10, 50*time.Millisecond)
		budget = min(cmp.Or(budget, left), left)
	} else if budget == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, budget)
}

// MaxJobs returns the maximum number of jobs per snapshot.
func (a *Allocator) MaxJobs() int { return a.maxJobs }

// Backends returns the backends of the allocator in the order in which they are asked,
// greedy last.
func (a *Allocator) Backends() []Backend {
	return append(slices.Clone(a.backends), Backend{Spec: mustFind(solver.BackendGreedy)})
}
