package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
)

// defaultBudget is the decision budget of a request that names none.
const defaultBudget = 900 * time.Millisecond

// defaultBackends are the backends asked, in order, where the caller names none.
func defaultBackends() []string { return []string{string(solver.BackendExact)} }

// newBackends returns the backends of the given names in their order. Greedy is
// the last resort of every chain, so it may only be named last and is not among
// them.
func newBackends(names []string) ([]solver.Backend, error) {
	var backends []solver.Backend
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("backend %q is named twice", name)
		}
		switch solver.BackendName(name) {
		case solver.BackendExact:
			backends = append(backends, exact.New())
		case solver.BackendGreedy:
			if i < len(names)-1 {
				return nil, fmt.Errorf("backend %q always answers; name it last or not at all", name)
			}
		default:
			return nil, fmt.Errorf("there is no backend %q; want %s or %s", name,
				solver.BackendExact, solver.BackendGreedy)
		}
	}
	return backends, nil
}

// newChain returns the chain that asks the backends in order, then greedy.
func newChain(backends []solver.Backend, budget time.Duration) *chain.Chain {
	return chain.New(chain.Config{
		Backends:      backends,
		Greedy:        greedy.New(),
		FillIdle:      greedy.FillIdle,
		Bound:         exact.Bound,
		DefaultBudget: budget,
	})
}
