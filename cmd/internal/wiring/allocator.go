package wiring

import (
	"context"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/solver"
)

// Allocator returns the server's allocator for deciding one request in this
// process. It has the default backends and, where the request asks for an external
// solver, that one.
func Allocator(
	ctx context.Context, request *elastallocv1.AllocateRequest, programs Programs,
) (*server.Allocator, error) {
	names := DefaultBackends()
	switch request.GetOptions().GetBackend() {
	case elastallocv1.Backend_BACKEND_CBC:
		names = append(names, string(solver.BackendCBC))
	case elastallocv1.Backend_BACKEND_HIGHS:
		names = append(names, string(solver.BackendHiGHS))
	default: // Exact is there, and so is greedy; a number that is none is refused.
	}
	backends, err := Backends(ctx, names, programs)
	if err != nil {
		return nil, err
	}
	return server.NewAllocator(server.AllocatorConfig{Chain: Chain(backends, DefaultBudget)}), nil
}
