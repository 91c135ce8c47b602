package server

import (
	"github.com/elastalloc/elastalloc/server/internal/status"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// Backend is what a server shows about one of its backends.
type Backend struct {
	Name solver.BackendName
	// Version is that of its external program; "" if there is none or it is unknown.
	Version string
	// State returns its state now, and is safe for concurrent use; nil means always up.
	State func() chain.BackendState
}

// state returns the state of the backend now.
func (b Backend) state() chain.BackendState {
	if b.State == nil {
		return chain.BackendState{Up: true}
	}
	return b.State()
}

// shownBackends returns the backends as the status page wants them.
func (c *Config) shownBackends() []status.Backend {
	shown := make([]status.Backend, len(c.Backends))
	for i, backend := range c.Backends {
		shown[i] = status.Backend{Name: backend.Name, Version: backend.Version, State: backend.state}
	}
	return shown
}
