package server

import (
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// Backend is what a server shows of a backend of its chain.
type Backend struct {
	Name solver.BackendName
	// Version is that of its external program; "" if it has none or it is not known.
	Version string
	// State returns how it is now, and is safe for concurrent use. A backend without
	// it is always up.
	State func() chain.BackendState
}

// state returns how the backend is now.
func (b Backend) state() chain.BackendState {
	if b.State == nil {
		return chain.BackendState{Up: true}
	}
	return b.State()
}
