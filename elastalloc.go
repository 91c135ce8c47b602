// Package elastalloc decides how many nodes each elastic deep-learning training job
// of a shared pool gets, with a proof of how good the decision is.
//
// An Allocator takes a snapshot of the pool and its jobs and returns the nodes of
// every job. It keeps no state between decisions: the same snapshot and options give
// the same allocations unless a time limit cut the search short. The model is that of
// Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs
// on Cloud"; package solver defines it.
//
// Use this package to decide in process, and package client to call an elastalloc server.
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
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// DefaultBudget is the time budget of a decision whose options set none.
const DefaultBudget = 900 * time.Millisecond

// NoBudget as Options.DefaultBudget means no default: a decision whose options set no
// budget is limited by its context alone.
const NoBudget time.Duration = -1

// Options configure an Allocator. The zero value decides with the embedded exact
// backend.
type Options struct {
	// Backends are the backends to call, in this order, after the backend that the options of a
	// decision name. BackendNames lists all backends. Greedy is the last fallback of every allocator: it may
	// be named last or left out. Nil means DefaultBackends, an empty list greedy alone.
	Backends []solver.BackendName
	// Programs are the executables of external backends, paths or names on the PATH.
	// DefaultPrograms are the defaults.
	Programs map[solver.BackendName]string
	// DefaultBudget is the time budget of a decision whose options set none: 0 means
	// the constant of that name, NoBudget none.
	DefaultBudget time.Duration
	// MaxJobs is the maximum number of jobs per snapshot; 0 means
	// solver.DefaultMaxJobs.
	MaxJobs int
	// Middleware wraps every backend, for example to trace its searches. It may be nil. While the
	// circuit breaker of a backend is open, calls do not reach it.
	Middleware func(problem.Backend) problem.Backend
	// ProverMiddleware wraps the prover, which verifies the claims of external backends and computes
	// missing bounds. It may be nil.
	ProverMiddleware func(problem.Prover) problem.Prover
	// NoBreakers disables the circuit breakers of external backends, for measurements. With a
	// breaker, a backend that keeps failing is skipped for some time.
	NoBreakers bool
	// OnBackendChange is called each time that the circuit breaker of a backend opens or closes, one
	// call at a time, in order. It must not call the allocator. It may be nil.
	OnBackendChange func(solver.BackendName, chain.BackendState)
}

// Allocator makes decisions. It is safe for concurrent use.
type Allocator struct {
	chain    *chain.Chain
	backends []Backend
	known    []solver.BackendName
	maxJobs  int
	budget   time.Duration // of a decision whose options set none; 0 means none
}

// New returns an allocator. It probes the version of every external backend. A missing program is not
// an error, see Backend.Missing. The error names the invalid option.
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
		return nil, fmt.Errorf("maximum number of jobs is %d; must be at least 0", options.MaxJobs)
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
		config.Backends = append(config.Backends, backend.wrapped)
		a.backends = append(a.backends, backend)
	}
	a.chain = chain.New(config)
	return a, nil
}

// Allocate decides how many nodes each job of a snapshot gets. It fills in the
// defaults of unset fields and modifies neither argument.
//
// The error is a *solver.InvalidError that names every bad field, context.Canceled if ctx was
// canceled, context.DeadlineExceeded if even greedy did not finish before the deadline, or otherwise
// a bug of this module. More jobs than nodes, a pool that has shrunk and a time limit are not errors.
// Report.Contradiction is valid also with an error.
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
	d = report.RestoreFrozen(r.held, d, r.options.Horizon(r.snapshot).Steps)
	d.Report.Warnings = append(d.Report.Warnings, report.Warnings(r.snapshot, &r.options, &d)...)
	return d, nil
}

// Explain decides as Allocate does. For the jobs with the given ids, or all jobs without ids, it
// returns the reason for the size, the cost of every other size, and the smallest changes that would
// increase the size. It finds costs and changes by further decisions, and costs always with the exact
// backend. The time budget covers the whole call: if it expires, costs are estimates and changes may
// be missing. Costs are computed on all processors, or on as many as solver.Options.AcquireWorker grants.
//
// The errors are those of Allocate. An unknown id is a bad field.
func (a *Allocator) Explain(
	ctx context.Context, s *solver.Snapshot, o solver.Options, jobIDs []string,
) (solver.Explanation, error) {
	r, err := a.valid(s, o, func(s *solver.Snapshot) []solver.Violation { return s.UnknownJobs(jobIDs) })
	if err != nil {
		return solver.Explanation{}, err
	}
	limited, cancel := a.limit(ctx, r.options)
	defer cancel()
	d, err := a.decide(ctx, r)
	if err != nil {
		return solver.Explanation{Decision: d}, err
	}
	r.options.Interrupt = nil //nolint:fatcontext // limited ends with it.
	decider := &recordingChain{Chain: a.chain, contradiction: d.Report.Contradiction}
	jobs, err := explain.Jobs(limited, decider,
		explain.Input{Snapshot: r.snapshot, All: r.all, Options: r.options, Decision: d, Frozen: r.held}, jobIDs)
	d.Report.Contradiction = decider.contradiction
	return solver.Explanation{Decision: d, Jobs: jobs}, cmp.Or(err, ctx.Err())
}

// WhatIf decides a snapshot and variations of it, each as Allocate would. The time budget applies to each
// decision. The remaining time until the deadline of ctx is divided equally among the remaining
// decisions.
//
// The error of a scenario is in its result and does not affect other scenarios. The errors of the
// call are those of Allocate on the snapshot itself.
func (a *Allocator) WhatIf(
	ctx context.Context, s *solver.Snapshot, o solver.Options, scenarios []solver.Scenario,
) (solver.WhatIf, error) {
	return whatif.Decide(ctx, a, s, o, scenarios)
}

// Forecast simulates the cluster from a snapshot on, with a resolution of a second, as package sim
// describes. It makes decisions with the given options. The time budget covers the whole call: if it
// expires, the result is partial. Samples run in parallel on all processors, or on as many as
// solver.Options.AcquireWorker grants.
//
// Frozen jobs keep their nodes and do not complete. The errors
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
	r.options.Interrupt = nil //nolint:fatcontext // limited ends with it.
	decider := &recordingChain{Chain: a.chain}
	future, err := forecast.Jobs(limited, decider, r.snapshot, r.options, f, a.budget)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return solver.Forecast{Contradiction: decider.contradiction}, err
	}
	future.Contradiction = decider.contradiction
	return report.RestoreFrozenForecast(r.held, future), nil
}

// FillIdle applies the paper's rule for regular times, between two decisions. Running jobs keep their
// nodes. Each queued job, in order, gets its largest legal size that the idle nodes allow, up to the
// first job that does not fit now. A job whose smallest size exceeds the pool is skipped. If the pool
// has fewer nodes than the running jobs occupy, running jobs that do not fit together with those
// before them lose their nodes, and no job is started. FillIdle does not optimize: of the report only
// IdleNodes and Warnings are set. The errors are those of Allocate.
func (a *Allocator) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	r, err := a.valid(s, solver.DefaultOptions(), nil)
	if err != nil {
		return solver.Decision{}, err
	}
	if err := ctx.Err(); err != nil {
		return solver.Decision{}, err
	}
	return report.RestoreFrozen(r.held, report.DecideNow(r.snapshot, greedy.FillIdle(r.snapshot)), 0), nil
}

// request is a valid request for decisions, with its defaults.
type request struct {
	snapshot *solver.Snapshot // without frozen jobs
	all      *solver.Snapshot
	held     solver.FrozenJobs
	options  solver.Options
}

// valid returns the request of a snapshot and options, or an error that names all their bad fields
// and those that check returns. check may be nil.
func (a *Allocator) valid(
	s *solver.Snapshot, o solver.Options, check func(*solver.Snapshot) []solver.Violation,
) (*request, error) {
	if s == nil {
		return nil, solver.Invalid("snapshot", "is missing")
	}
	all := s.WithDefaults()
	r := &request{snapshot: all, all: all, options: o.WithDefaults()}
	if len(all.Jobs) <= a.maxJobs {
		r.snapshot, r.held = all.Freeze(r.options.BadJobs == solver.BadJobsHold)
		r.all = r.held.Snapshot()
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

// limit limits ctx to the time budget of a call that makes many decisions, and reserves time to send
// the response before the deadline of the caller. It also expires when Options.Interrupt does.
func (a *Allocator) limit(ctx context.Context, o solver.Options) (context.Context, context.CancelFunc) {
	ctx, cancel := a.limitTime(ctx, o)
	if o.Interrupt == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(o.Interrupt, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// limitTime limits ctx to the time budget, and to less than its own deadline.
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

// Backends returns the backends of the allocator in the order in which it calls them, greedy last.
func (a *Allocator) Backends() []Backend {
	return append(slices.Clone(a.backends), Backend{Name: solver.BackendGreedy})
}
