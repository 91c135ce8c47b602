package elastalloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// spec describes a backend. Flags, names in the API and environment variables follow from it. A new backend needs its
// package, an entry of specs, a value of the API's enum and a conformance test.
type spec struct {
	name solver.BackendName
	// program is the default executable of an external backend, "" for an embedded one.
	program string
	// create returns the backend. An external backend runs the given program.
	create func(program string) problem.Backend
}

// specs returns all backends.
func specs() []spec {
	return []spec{
		{name: solver.BackendExact, create: func(string) problem.Backend { return exact.New() }},
		{
			name: solver.BackendCBC, program: external.DefaultCBC,
			create: func(program string) problem.Backend { return external.CBC(program) },
		},
		{
			name: solver.BackendHiGHS, program: external.DefaultHiGHS,
			create: func(program string) problem.Backend { return external.HiGHS(program) },
		},
		{name: solver.BackendGreedy, create: func(string) problem.Backend { return greedy.New() }},
	}
}

// DefaultPrograms returns the default executable of each external backend.
func DefaultPrograms() map[solver.BackendName]string {
	programs := make(map[solver.BackendName]string)
	for _, s := range specs() {
		if s.program != "" {
			programs[s.name] = s.program
		}
	}
	return programs
}

// DefaultBackends returns the backends of an allocator whose options name none.
func DefaultBackends() []solver.BackendName { return []solver.BackendName{solver.BackendExact} }

// BackendNames returns the names of all backends.
func BackendNames() []solver.BackendName {
	var names []solver.BackendName
	for _, s := range specs() {
		names = append(names, s.name)
	}
	return names
}

// find returns the backend of a name.
func find(name solver.BackendName) (spec, bool) {
	all := specs()
	i := slices.IndexFunc(all, func(s spec) bool { return s.name == name })
	if i < 0 {
		return spec{}, false
	}
	return all[i], true
}

// mustFind returns the backend of a name that is known to exist.
func mustFind(name solver.BackendName) spec {
	found, _ := find(name)
	return found
}

// checkBackends returns an error if a name is unknown or given twice.
func checkBackends(names []solver.BackendName) error {
	for i, name := range names {
		if _, known := find(name); !known {
			known := make([]string, 0, len(names))
			for _, name := range BackendNames() {
				known = append(known, string(name))
			}
			return fmt.Errorf("unknown backend %q (must be one of %s)", name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("backend %q is named twice", name)
		}
	}
	return nil
}

// fallbackOrder checks the names of the backends and removes greedy, which is always the last
// fallback.
func fallbackOrder(names []solver.BackendName) ([]solver.BackendName, error) {
	if err := checkBackends(names); err != nil {
		return nil, err
	}
	switch i := slices.Index(names, solver.BackendGreedy); {
	case i < 0:
		return names, nil
	case i < len(names)-1:
		return nil, fmt.Errorf("backend %q never fails: name it last or not at all", solver.BackendGreedy)
	default:
		return names[:i], nil
	}
}

// Backend is a backend of an Allocator.
type Backend struct {
	Name solver.BackendName
	// Program is the default executable of an external backend, "" for an embedded one.
	Program string
	// Version is the version of the program of an external backend, "" for an embedded one.
	Version string
	// Missing is the reason why an external backend was not available when the allocator was created,
	// nil if it was available. It wraps solver.ErrUnavailable. A program that is installed later is
	// found, unless Options.NoBreakers is set.
	Missing error

	wrapped problem.Backend
	breaker *chain.Breaker
}

// External reports whether the backend runs a program. Such a backend has a formulation.
func (b Backend) External() bool { return b.Program != "" }

// State returns the state of the backend now. It is safe for concurrent use.
func (b Backend) State() chain.BackendState {
	if b.breaker == nil {
		return chain.BackendState{Up: b.Missing == nil}
	}
	return b.breaker.State()
}

// probeTimeout is the timeout of a version probe.
const probeTimeout = 5 * time.Second

// prober is a backend that can probe the version of its program.
type prober interface {
	Probe(ctx context.Context) (version string, err error)
}

// build returns the backend of a name. An external backend gets a circuit breaker, which opens while
// the backend keeps failing. Timeouts count if the backend had at least half of the default budget.
// The embedded backend gets none: it fails fast, and because of a snapshot, which must not disable it
// for all others.
func (o *Options) build(name solver.BackendName) Backend {
	of := mustFind(name)
	backend := of.create(cmp.Or(o.Programs[name], of.program))
	b := Backend{Name: name, Program: of.program, wrapped: o.wrap(backend)}
	probed, ok := backend.(prober)
	if !ok {
		return b
	}
	b.Version, b.Missing = probe(probed)
	if o.NoBreakers {
		if b.Missing != nil {
			b.wrapped = o.wrap(chain.Unavailable{BackendName: name, Err: b.Missing})
		}
		return b
	}
	config := chain.BreakerConfig{MinAttemptTime: o.DefaultBudget / 2, InitialError: b.Missing}
	if o.OnBackendChange != nil {
		config.OnChange = func(state chain.BackendState) { o.OnBackendChange(name, state) }
	}
	b.breaker = chain.NewBreaker(b.wrapped, config)
	b.wrapped = b.breaker
	return b
}

// wrap applies the middleware to a backend.
func (o *Options) wrap(b problem.Backend) problem.Backend {
	if o.Middleware == nil {
		return b
	}
	return o.Middleware(b)
}

// probe requests the version of a program, so that a missing one is known from the start
// and costs no decision any time.
func probe(backend prober) (version string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	version, err = backend.Probe(ctx)
	if err != nil && !errors.Is(err, solver.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", solver.ErrUnavailable, err)
	}
	return version, err
}
