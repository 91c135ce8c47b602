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
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
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
// limit are not errors.
func (a *Allocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	o = o.WithDefaults()
	s, held, err := a.valid(s, o)
	if err != nil {
		return solver.Decision{}, err
	}
	decision, err := a.chain.Allocate(ctx, s, o)
	if err != nil {
		return solver.Decision{}, err
	}
	decision = held.Restore(decision, o.Horizon(s).Steps)
	decision.Report.Warnings = append(decision.Report.Warnings, o.Warnings()...)
	return decision, nil
}

// FillIdle applies the paper's rule for regular times, between two decisions: running
// jobs keep their nodes, and each queued job in order takes its largest legal size that
// the idle nodes allow, stopping at the first that does not fit now. A job whose
// smallest size exceeds the pool is passed over. Where the pool shrank below what the
// running jobs hold, those listed last lose their nodes until the rest fits, and no job is
// started. Nothing is optimised: of the report only IdleNodes and Warnings are set. Errors
// are those of Allocate.
func (a *Allocator) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	s, _, err := a.valid(s, solver.FillIdleOptions())
	if err != nil {
		return solver.Decision{}, err
	}
	if err := ctx.Err(); err != nil {
		return solver.Decision{}, err
	}
	return solver.DecideNow(s, greedy.FillIdle(s)), nil
}

// valid returns a snapshot with its defaults and without the jobs that are held because
// they have bad fields, or an error that names all bad fields and those of the options.
func (a *Allocator) valid(s *solver.Snapshot, o solver.Options) (*solver.Snapshot, solver.Held, error) {
	if s == nil {
		return nil, solver.Held{}, invalid("snapshot", "is missing")
	}
	s = s.WithDefaults()
	var held solver.Held
	if o.BadJobs == solver.BadJobsHold && len(s.Jobs) <= a.maxJobs {
		s, held = s.Hold()
	}
	if bad := solver.Validate(s, o, a.maxJobs, a.known); len(bad) > 0 {
		return nil, solver.Held{}, &solver.InvalidError{Violations: bad}
	}
	return s, held, nil
}

// limit limits ctx to the time budget of a call that makes many decisions, and leaves its
// answer time to travel before the caller's own deadline. It ends, too, when the call is to
// be hurried.
func (a *Allocator) limit(ctx context.Context, o solver.Options) (context.Context, context.CancelFunc) {
	ctx, cancel := a.limitTime(ctx, o)
	if o.Hurry != nil {
		go func() {
			select {
			case <-o.Hurry:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
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

// also adds bad fields to those of an error, which may be nil.
func also(err error, bad []solver.Violation) error {
	var invalid *solver.InvalidError
	if len(bad) == 0 || err != nil && !errors.As(err, &invalid) {
		return err
	}
	if invalid != nil {
		bad = append(slices.Clone(invalid.Violations), bad...)
	}
	return &solver.InvalidError{Violations: bad}
}

// MaxJobs returns the maximum number of jobs per snapshot.
func (a *Allocator) MaxJobs() int { return a.maxJobs }

// Backends returns the backends of the allocator in the order in which they are asked,
// greedy last.
func (a *Allocator) Backends() []Backend {
	resort := Backend{Spec: mustFind(solver.BackendGreedy)}
	return append(append([]Backend{}, a.backends...), resort)
}
