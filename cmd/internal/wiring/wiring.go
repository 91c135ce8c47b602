// Package wiring puts backends and chains together, for every program that
// decides. It is the one place that names concrete backends.
package wiring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/cbc"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/highs"
)

const (
	// DefaultBudget is the decision budget of a request that names none.
	DefaultBudget = 900 * time.Millisecond

	// probeTimeout is how long an external program has to say its version.
	probeTimeout = 5 * time.Second
)

// Programs names the executables of the external solvers, each a path or a name on
// the PATH.
type Programs struct{ CBC, HiGHS string }

// DefaultPrograms returns the programs where nobody names others.
func DefaultPrograms() Programs {
	return Programs{CBC: cbc.DefaultProgram, HiGHS: highs.DefaultProgram}
}

// Backend is a backend and what was found out about it at the start.
type Backend struct {
	solver.Backend
	// Version is that of its external program; an embedded backend has none.
	Version string
	// Missing says why it cannot be asked, and is nil where it can. It wraps
	// solver.ErrUnavailable, and Solve returns it.
	Missing error
	// Breaker rests the backend while it keeps failing; nil where nothing does.
	Breaker *chain.Breaker

	// program is the backend on an external program, whether that is missing or not;
	// nil for an embedded one.
	program solver.Backend
}

// DefaultBackends are the backends asked, in order, where the caller names none.
func DefaultBackends() []string { return []string{string(solver.BackendExact)} }

// Backends returns the backends of the given names, in the order in which they
// fall back to the next. Greedy is the last resort of every chain, so it may only
// be named last and is not among them.
func Backends(ctx context.Context, names []string, programs Programs) ([]Backend, error) {
	const resort = string(solver.BackendGreedy)
	if i := slices.Index(names, resort); i >= 0 && i < len(names)-1 {
		return nil, fmt.Errorf("backend %q always answers; name it last or not at all", resort)
	} else if i >= 0 {
		names = names[:i]
	}
	return Contenders(ctx, names, programs)
}

// Contenders returns the backends of the given names, in any order and greedy
// among them, for each to be asked alone.
func Contenders(ctx context.Context, names []string, programs Programs) ([]Backend, error) {
	if err := check(names); err != nil {
		return nil, err
	}
	backends := make([]Backend, len(names))
	for i, name := range names {
		switch solver.BackendName(name) {
		case solver.BackendExact:
			backends[i] = Backend{Backend: traced(exact.New())}
		case solver.BackendCBC:
			backends[i] = probe(ctx, cbc.New(programs.CBC))
		case solver.BackendHiGHS:
			backends[i] = probe(ctx, highs.New(programs.HiGHS))
		case solver.BackendGreedy:
			backends[i] = Backend{Backend: traced(greedy.New())}
		}
	}
	return backends, nil
}

// check returns an error for a name that no backend has or that stands twice.
func check(names []string) error {
	known := []string{
		string(solver.BackendExact), string(solver.BackendCBC), string(solver.BackendHiGHS), string(solver.BackendGreedy),
	}
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no backend %q; want some of %s", name, strings.Join(known, ", "))
		case slices.Contains(names[:i], name):
			return fmt.Errorf("backend %q is named twice", name)
		}
	}
	return nil
}

// external is a backend that needs a program of its own.
type external interface {
	solver.Backend
	Probe(ctx context.Context) (version string, err error)
}

// probe asks a backend's program for its version, so that a missing one is known
// from the start and costs no decision any time.
func probe(ctx context.Context, backend external) Backend {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	version, err := backend.Probe(ctx)
	if err == nil {
		return Backend{Backend: traced(backend), Version: version, program: traced(backend)}
	}
	if !errors.Is(err, solver.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", solver.ErrUnavailable, err)
	}
	return Backend{Backend: traced(missing{backend.Name(), err}), Missing: err, program: traced(backend)}
}

// missing stands for a backend whose program is missing.
type missing struct {
	name solver.BackendName
	err  error
}

// Name returns the name of the backend.
func (m missing) Name() solver.BackendName { return m.name }

// Solve returns why the backend cannot be asked.
func (m missing) Solve(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
	return solver.Result{}, m.err
}

// Chain returns the chain that asks the backends in order, then greedy.
func Chain(backends []Backend, budget time.Duration) *chain.Chain {
	config := base()
	config.DefaultBudget = budget
	for _, backend := range backends {
		config.Backends = append(config.Backends, backend.Backend)
	}
	return chain.New(config)
}

// Alone returns the chain that asks one backend and greedy after it, for decisions
// without a budget: the backend has all of limit for itself, and what judges its
// plan has as much again.
func Alone(backend Backend, limit time.Duration) *chain.Chain {
	config := base()
	config.Backends = []solver.Backend{limited{backend.Backend, limit}}
	config.Judge = limited{config.Judge, limit}
	bound := config.Bound
	config.Bound = func(ctx context.Context, p *solver.Problem) float64 {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return bound(ctx, p)
	}
	return chain.New(config)
}

// base returns what all chains have in common.
func base() chain.Config {
	return chain.Config{
		Greedy:   traced(greedy.New()),
		FillIdle: greedy.FillIdle,
		Bound:    tracedBound(exact.Bound),
		Judge:    tracedJudge(exact.New()),
	}
}

// limited is a backend whose every search has a limit of time.
type limited struct {
	solver.Backend
	limit time.Duration
}

// Solve returns the best plan found within the limit.
func (l limited) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.Backend.Solve(ctx, p, options)
}
