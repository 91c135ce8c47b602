package wiring

import (
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// Guard returns the backends for a process that goes on deciding: each that runs a
// program of its own gets a breaker, which rests it while it keeps failing. One
// whose program is missing begins with a rest and comes back by itself once the
// program is installed. Where onChange is set, it is told each time that a backend
// is sent to rest or is up again, as chain.BreakerConfig.OnChange is.
//
// The embedded backend gets none: it fails fast, and for a reason that lies in the
// snapshot, so a snapshot that it chokes on must not rest it for all the others.
// Time-outs count against a backend that had at least half of budget, the default
// one of a decision.
func Guard(backends []Backend, budget time.Duration, onChange func(solver.BackendName, chain.BackendState)) []Backend {
	guarded := make([]Backend, len(backends))
	for i, backend := range backends {
		guarded[i] = backend
		if backend.program == nil {
			continue
		}
		config := chain.BreakerConfig{Patience: budget / 2, Down: backend.Missing}
		if onChange != nil {
			config.OnChange = func(state chain.BackendState) { onChange(backend.Name(), state) }
		}
		guarded[i].Breaker = chain.NewBreaker(backend.program, config)
		guarded[i].Backend = guarded[i].Breaker
	}
	return guarded
}
