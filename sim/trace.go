package sim

import (
	"math"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// DefaultGPUsPerNode is the number of GPUs of a node where no flag says otherwise.
const DefaultGPUsPerNode = 8

// maxTraceTime is the longest time a trace may name, about 18 years: the demand
// of a job that ran so long on the most nodes still fits a time.Duration, and so
// does the end of one that was submitted so late.
const maxTraceTime = time.Duration(math.MaxInt64 / solver.DefaultMaxNodes)

// Trace is the jobs of a cluster's history in the order of their submission.
type Trace []TraceJob

// TraceJob is one job of a trace.
type TraceJob struct {
	// ID is unique in the trace and not empty.
	ID string
	// Submit is when the job was submitted, counted from the first submission.
	Submit time.Duration
	// Duration is how long the job ran on the GPUs it asked for. It may be 0.
	Duration time.Duration
	// GPUs is how many GPUs the job asked for, at least 1.
	GPUs int
	// User submitted the job, and Group is its team; "" for unknown.
	User, Group string
	// Application is a name of Speeds, "" where its own scaling holds on every node type, and
	// NodeType is the type it asked for, "" for unknown.
	Application, NodeType string
	// Work is the run time on one reference node; 0 where Duration says how long it took.
	Work time.Duration
	// Start is when the job really started, counted as Submit and not before it; nil
	// where the trace does not say.
	Start *time.Duration
	// Shape is how the job scales and how much it counts.
	Shape
}

// Nodes returns the nodes the job asked for, on nodes of the given GPUs.
func (j *TraceJob) Nodes(gpusPerNode int) int { return j.NodesAsked(j.GPUs, gpusPerNode) }

// RemainingDemand returns the run time on one node that is left of the job after it ran for some
// time.
func (j *TraceJob) RemainingDemand(ran time.Duration, gpusPerNode int) time.Duration {
	speed := j.speed(j.Nodes(gpusPerNode))
	if j.Work > 0 {
		return max(1, j.Work-scale(ran, speed))
	}
	return scale(j.Duration-ran, speed)
}

// runTime returns how long the job ran on the nodes that it asked for.
func (j *TraceJob) runTime(gpusPerNode int) time.Duration {
	if j.Work > 0 {
		return time.Duration(min(float64(j.Work)/j.speed(j.Nodes(gpusPerNode)), float64(maxTraceTime)))
	}
	return j.Duration
}

// scale returns d times factor, rounded to whole nanoseconds.
func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(math.Round(float64(d) * factor))
}
