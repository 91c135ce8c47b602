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
)

// Spec describes a backend: the row of the table from which flags, help, names in the
// API and environment variables follow. A new backend takes its package, a row here, a
// value of the API's enum and its conformance test.
type Spec struct {
	Name solver.BackendName
	// Description says in a few words what it is.
	Description string
	// Program is the default executable of a backend that runs one, "" of an embedded
	// one.
	Program string
	// New returns the backend, which runs the given program if it runs one at all.
	New func(program string) solver.Backend
}

// External reports whether the backend runs a program of its own. Such a backend
// takes a formulation.
func (s Spec) External() bool { return s.Program != "" }

// Specs returns all backends.
func Specs() []Spec {
	return []Spec{
		{
			Name: solver.BackendExact, Description: "embedded exact solver",
			New: func(string) solver.Backend { return exact.New() },
		},
		{
			Name: solver.BackendCBC, Description: "MILP on CBC", Program: external.DefaultCBC,
			New: func(program string) solver.Backend { return external.CBC(program) },
		},
		{
			Name: solver.BackendHiGHS, Description: "MILP on HiGHS", Program: external.DefaultHiGHS,
			New: func(program string) solver.Backend { return external.HiGHS(program) },
		},
		{
			Name: solver.BackendGreedy, Description: "greedy rules of the paper",
			New: func(string) solver.Backend { return greedy.New() },
		},
	}
}

// DefaultBackends returns the backends that are asked, in order, where none are named.
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
			return fmt.Errorf("unknown backend %q (want one of %s)", name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("backend %q is named twice", name)
		}
	}
	return nil
}

// fallbackOrder checks the names of the backends to ask and leaves greedy out, which
// is the last resort anyway.
func fallbackOrder(names []solver.BackendName) ([]solver.BackendName, error) {
	if err := CheckBackends(names); err != nil {
		return nil, err
	}
	switch i := slices.Index(names, solver.BackendGreedy); {
	case i < 0:
		return names, nil
	case i < len(names)-1:
		return nil, fmt.Errorf("backend %q always answers: name it last or not at all", solver.BackendGreedy)
	default:
		return names[:i], nil
	}
}

// Backend is a backend of an Allocator.
type Backend struct {
	Spec
	// Version is that of an external backend's program, "" of an embedded one.
	Version string
	// Missing says why an external backend was not available when the allocator was
	// made, nil if it was. It wraps solver.ErrUnavailable. A program that is installed
	// later is found, unless Options.NoBreakers was set.
	Missing error

	asked   solver.Backend
	breaker *chain.Breaker
}

// State returns the state of the backend now. It is safe for concurrent use.
func (b Backend) State() chain.BackendState {
	if b.breaker == nil {
		return chain.BackendState{Up: b.Missing == nil}
	}
	return b.breaker.State()
}

// probeTimeout is how long an external program has to print its version.
const probeTimeout = 5 * time.Second

// prober is a backend on a program, which it asks for its version.
type prober interface {
	Probe(ctx context.Context) (version string, err error)
}

// build makes the backend of a name. An external one gets a breaker, which opens while
// it keeps failing; time-outs count if it had at least half of the default budget. The
// embedded one gets none: it fails fast, and for a reason that lies in the snapshot, so
// a snapshot that it fails on must not keep it from all the others.
func (o *Options) build(name solver.BackendName) Backend {
	spec := mustFind(name)
	solves := spec.New(cmp.Or(o.Programs[name], spec.Program))
	b := Backend{Spec: spec, asked: o.wrap(solves)}
	probed, ok := solves.(prober)
	if !ok {
		return b
	}
	b.Version, b.Missing = probe(probed)
	if o.NoBreakers {
		if b.Missing != nil {
			b.asked = o.wrap(chain.Absent{BackendName: name, Why: b.Missing})
		}
		return b
	}
	config := chain.BreakerConfig{MinAttemptTime: o.DefaultBudget / 2, Down: b.Missing}
	if o.OnBackendChange != nil {
		config.OnChange = func(state chain.BackendState) { o.OnBackendChange(name, state) }
	}
	b.breaker = chain.NewBreaker(b.asked, config)
	b.asked = b.breaker
	return b
}

// wrap applies the middleware to a backend.
func (o *Options) wrap(b solver.Backend) solver.Backend {
	if o.Middleware == nil {
		return b
	}
	return o.Middleware(b)
}

// probe asks a program for its version, so that a missing one is known from the start
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
