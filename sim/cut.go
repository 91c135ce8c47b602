package sim

import (
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Cut returns the snapshot that a pool of the given nodes would have had at a moment
// of a trace, counted from the first submission.
//
// It holds the jobs submitted by then and, by the trace's own durations, not yet
// finished, each with the share of its demand that the trace leaves it. In the order of
// submission they hold the nodes they asked for while the pool lasts: the first that does
// not fit and all after it are queued, and have waited since.
func Cut(trace Trace, nodes int, at time.Duration, gpusPerNode int) *solver.Snapshot {
	snapshot := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	idle, queuing := nodes, false
	for i := range trace {
		traced := &trace[i]
		if traced.Submit > at {
			break
		}
		elapsed := at - traced.Submit
		if elapsed >= traced.runTime(gpusPerNode) {
			continue
		}
		job := *traced.job(traced.ID)
		job.Scaling.DoublingEfficiency = traced.DoublingEfficiency // 0 where it is the default
		job.GroupID = traced.Group
		job.RemainingETA = traced.RemainingDemand(elapsed, gpusPerNode)
		asked := traced.Nodes(gpusPerNode)
		queuing = queuing || asked > idle
		if !queuing {
			idle -= asked
			job.CurrentNodes = asked
			job.TrainingTime = elapsed
		} else {
			job.WaitingTime = elapsed
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return snapshot
}
