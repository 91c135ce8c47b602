package server

import (
	"context"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// service is the AllocatorService: apiconv answers, and the observers of a call hear of
// what was decided.
type service struct {
	elastallocv1.UnsafeAllocatorServiceServer
	apiconv.InProcess
}

func newService(allocator apiconv.Allocator) service {
	return service{InProcess: apiconv.InProcess{Allocator: reporting{allocator}}}
}

// reporting is an allocator that reports its decisions.
type reporting struct{ apiconv.Allocator }

// Allocate decides a snapshot.
func (r reporting) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	decision, err := r.Allocator.Allocate(ctx, s, o)
	if err == nil {
		ingress.Decided(ctx, o.WithDefaults().Objective, &decision)
	}
	return decision, err
}

// FillIdle gives the idle nodes of a snapshot to its queue.
func (r reporting) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	decision, err := r.Allocator.FillIdle(ctx, s)
	if err == nil {
		ingress.Decided(ctx, "", &decision)
	}
	return decision, err
}

// Explain is not there yet.
func (service) Explain(ctx context.Context, request *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error) {
	return elastallocv1.UnimplementedAllocatorServiceServer{}.Explain(ctx, request)
}
