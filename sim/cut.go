package sim

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Cut returns the decision a pool of the given nodes would have faced at a moment
// of a trace, counted from the first submission. nodes is at least 0 and
// gpusPerNode at least 1.
//
// The snapshot holds the jobs submitted by then and, by the trace's own
// durations, not yet finished: submit <= at < submit + duration. Each has the
// share of its demand that the trace leaves it, 1 - (at-submit)/duration. In the
// order of submission they hold the nodes they asked for while the pool lasts:
// the first that does not fit and all after it are queued, first in, first out,
// and have not trained. The horizon and the range of nodes are the defaults,
// written out.
func Cut(trace Trace, nodes int32, at time.Duration, gpusPerNode int) *elastallocv1.AllocateRequest {
	horizon := solver.DefaultHorizon()
	snapshot := &elastallocv1.Snapshot{
		TotalNodes: nodes,
		Horizon: &elastallocv1.Horizon{
			Step:  durationpb.New(horizon.Step),
			Steps: proto.Int32(int32(horizon.Steps)),
		},
	}
	idle, queuing := int(nodes), false
	for i := range trace {
		traced := &trace[i]
		if traced.Submit > at {
			break
		}
		elapsed := at - traced.Submit
		if elapsed >= traced.Duration {
			continue
		}
		job := &elastallocv1.Job{
			Id:           traced.ID,
			RemainingEta: durationpb.New(traced.RemainingDemand(elapsed, gpusPerNode)),
			MinNodes:     proto.Int32(solver.DefaultMinNodes),
			MaxNodes:     proto.Int32(solver.DefaultMaxNodes),
		}
		asked := traced.Nodes(gpusPerNode)
		queuing = queuing || asked > idle
		if !queuing {
			idle -= asked
			job.CurrentNodes = int32(asked)
			job.TrainingTime = durationpb.New(elapsed)
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return &elastallocv1.AllocateRequest{Snapshot: snapshot}
}
