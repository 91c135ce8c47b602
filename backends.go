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

// Spec describes a backend. Flags, help texts, names in the API and environment variables follow from
// it. A new backend needs its package, an entry of Specs, a value of the API's enum and a conformance
// test.
type Spec struct {
	Name solver.BackendName
	// Description is a phrase for help texts.
	Description string
	// Program is the default executable of an external backend, "" for an embedded one.
	Program string
	// New returns the backend. An external backend runs the given program.
	New func(program string) problem.Backend
}

// External reports whether the backend runs a program. Such a backend has a formulation.
func (s Spec) External() bool { return s.Program != "" }

// Specs returns all backends.
func Specs() []Spec {
	return []Spec{
		{
			Name: solver.BackendExact, Description: "embedded exact solver",
			New: func(string) problem.Backend { return exact.New() },
		},
		{
			Name: solver.BackendCBC, Description: "MILP on CBC", Program: external.DefaultCBC,
			New: func(program string) problem.Backend { return external.CBC(program) },
		},
		{
			Name: solver.BackendHiGHS, Description: "MILP on HiGHS", Program: external.DefaultHiGHS,
			New: func(program string) problem.Backend { return external.HiGHS(program) },
		},
		{
			Name: solver.BackendGreedy, Description: "greedy rules of the paper",
			New: func(string) problem.Backend { return greedy.New() },
		},
	}
}

// DefaultBackends returns the backends of an allocator whose options name none.
func DefaultBackends() []solver.BackendName { return []solver.BackendName{solver.BackendExact} }

// BackendsFor returns the default backends and the requested one, for an allocator that
// makes a single decision.
func BackendsFor(requested solver.BackendName) []solver.BackendName {
	names := DefaultBackends()
	if _, known := find(requested); known && requested != solver.BackendGreedy && !slices.Contains(names, requested) {
		names = append(names, requested)
	}
	return names
}

// BackendNames returns the names of all backends.
func BackendNames() []solver.BackendName {
	var names []solver.BackendName
	for _, spec := range Specs() {
		names = append(names, spec.Name)
	}
	return names
}

// find returns the backend of a name.
func find(name solver.BackendName) (Spec, bool) {
	specs := Specs()
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return Spec{}, false
	}
	return specs[i], true
}

// mustFind returns the backend of a name that is known to exist.
func mustFind(name solver.BackendName) Spec {
	spec, _ := find(name)
	return spec
}

// CheckBackends returns an error if a name is unknown or given twice.
func CheckBackends(names []solver.BackendName) error {
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
	if err := CheckBackends(names); err != nil {
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
	Spec
	// Version is the version of the program of an external backend, "" for an embedded one.
	Version string
	// Missing is the reason why an external backend was not available when the allocator was created,
	// nil if it was available. It wraps solver.ErrUnavailable. A program that is installed later is
	// found, unless Options.NoBreakers is set.
	Missing error

	wrapped problem.Backend
	breaker *chain.Breaker
}

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
	spec := mustFind(name)
	backend := spec.New(cmp.Or(o.Programs[name], spec.Program))
	b := Backend{Spec: spec, wrapped: o.wrap(backend)}
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
