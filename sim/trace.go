package sim

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
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

// Window returns the jobs that were submitted from a time on, before from + length; a length
// of 0 is all the rest. Times are counted from the first of them.
func (t Trace) Window(from, length time.Duration) Trace {
	var window Trace
	for _, job := range t {
		if job.Submit < from || length > 0 && job.Submit-from >= length {
			continue
		}
		window = append(window, job)
	}
	for i := range window {
		job := &window[len(window)-1-i] // The first one's submission is that of all others.
		if job.Start != nil {
			job.Start = new(*job.Start - window[0].Submit)
		}
		job.Submit -= window[0].Submit
	}
	return window
}

// Write writes a trace as ReadTrace reads it. Columns that may be missing are there if a
// job has a value in them.
func (t Trace) Write(w io.Writer) error {
	columns := []struct {
		name  string
		value func(*TraceJob) string
	}{
		{columnID, func(j *TraceJob) string { return j.ID }},
		{columnSubmit, func(j *TraceJob) string { return writtenSeconds(j.Submit) }},
		{columnDuration, func(j *TraceJob) string { return writtenSeconds(j.Duration) }},
		{columnGPUs, func(j *TraceJob) string { return strconv.Itoa(j.GPUs) }},
		{columnStart, func(j *TraceJob) string {
			if j.Start == nil {
				return ""
			}
			return writtenSeconds(*j.Start)
		}},
		{columnMinNodes, func(j *TraceJob) string { return writtenNumber(float64(j.MinNodes)) }},
		{columnMaxNodes, func(j *TraceJob) string { return writtenNumber(float64(j.MaxNodes)) }},
		{columnEfficiency, func(j *TraceJob) string { return writtenNumber(j.DoublingEfficiency) }},
		{columnWeight, func(j *TraceJob) string { return writtenNumber(j.Weight) }},
		{columnUser, func(j *TraceJob) string { return j.User }},
		{columnGroup, func(j *TraceJob) string { return j.Group }},
		{columnApplication, func(j *TraceJob) string { return j.Application }},
		{columnWork, func(j *TraceJob) string {
			if j.Work == 0 {
				return ""
			}
			return writtenSeconds(j.Work)
		}},
		{columnNodeType, func(j *TraceJob) string { return j.NodeType }},
	}
	const required = 4
	kept := columns[:required]
	for _, column := range columns[required:] {
		if slices.ContainsFunc(t, func(j TraceJob) bool { return column.value(&j) != "" }) {
			kept = append(kept, column)
		}
	}
	writer := csv.NewWriter(w)
	record := make([]string, len(kept))
	for i, column := range kept {
		record[i] = column.name
	}
	_ = writer.Write(record) // Error returns what it returns.
	for i := range t {
		for k, column := range kept {
			record[k] = column.value(&t[i])
		}
		_ = writer.Write(record)
	}
	writer.Flush()
	return writer.Error()
}

func writtenSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// writtenNumber returns a number, nothing for the default.
func writtenNumber(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
