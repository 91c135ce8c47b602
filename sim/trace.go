package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// Validate returns an error for a job that no trace may have: it names the column, the value and
// what is valid.
func (j *TraceJob) Validate() error {
	if j.ID == "" {
		return fmt.Errorf("%s is empty", columnID)
	}
	for _, name := range []struct{ column, value string }{
		{columnID, j.ID}, {columnUser, j.User}, {columnGroup, j.Group}, {columnApplication, j.Application}, {columnNodeType, j.NodeType},
	} {
		if err := validateName(name.column, name.value); err != nil {
			return err
		}
	}
	for _, seconds := range []struct {
		column string
		value  time.Duration
	}{{columnSubmit, j.Submit}, {columnDuration, j.Duration}, {columnWork, j.Work}} {
		if seconds.value < 0 || seconds.value > maxTraceTime {
			return fmt.Errorf("%s is %s; must be from 0 to %.0f", seconds.column, writtenSeconds(seconds.value), maxTraceTime.Seconds())
		}
	}
	if j.GPUs < 1 || j.GPUs > math.MaxInt32 {
		return fmt.Errorf("%s is %d; must be from 1 to %d", columnGPUs, j.GPUs, math.MaxInt32)
	}
	if j.Start != nil && (*j.Start < j.Submit || *j.Start > maxTraceTime) {
		return fmt.Errorf("%s is %s; must be at least %s (%s) and at most %.0f",
			columnStart, writtenSeconds(*j.Start), columnSubmit, writtenSeconds(j.Submit), maxTraceTime.Seconds())
	}
	if err := j.validateSizes(); err != nil {
		return err
	}
	// The demand, at most the duration times the nodes, must fit a time.Duration.
	if most := time.Duration(math.MaxInt64 / max(solver.DefaultMaxNodes, j.MaxNodes)); j.Duration > most {
		return fmt.Errorf("%s is %s; must be at most %.0f if %s is %d",
			columnDuration, writtenSeconds(j.Duration), most.Seconds(), columnMaxNodes, j.MaxNodes)
	}
	fastest := j.speed(j.Nodes(1))
	for _, size := range j.AllowedNodes {
		fastest = max(fastest, j.speed(size))
	}
	if most := math.MaxInt64 / fastest; float64(j.Duration) > most {
		return fmt.Errorf("%s is %s; must be at most %.0f for a job of %d %s that trains up to %g times as fast as on one node",
			columnDuration, writtenSeconds(j.Duration), most/float64(time.Second), j.GPUs, columnGPUs, fastest)
	}
	return nil
}

// validateSizes returns an error for lists of sizes and speeds that no request may have.
func (j *TraceJob) validateSizes() error {
	if len(j.AllowedNodes) > solver.MaxSizes {
		return fmt.Errorf("%s has %d sizes; must have at most %d", columnAllowedNodes, len(j.AllowedNodes), solver.MaxSizes)
	}
	for i, size := range j.AllowedNodes {
		if size < 1 || size > solver.MaxNodes || i > 0 && size <= j.AllowedNodes[i-1] {
			return fmt.Errorf("%s is %q; must be ascending whole numbers from 1 to %d", columnAllowedNodes, listed(j.AllowedNodes), solver.MaxNodes)
		}
	}
	if len(j.Speeds) > 0 && len(j.Speeds) != len(j.AllowedNodes) {
		return fmt.Errorf("%s has %d numbers; must have as many as %s, %d", columnSpeeds, len(j.Speeds), columnAllowedNodes, len(j.AllowedNodes))
	}
	for _, speed := range j.Speeds {
		if !(speed >= leastSpeed && speed <= mostSpeed) {
			return fmt.Errorf("%s is %q; must be numbers from %v to %v", columnSpeeds, listed(j.Speeds), leastSpeed, mostSpeed)
		}
	}
	return nil
}

// listed returns numbers as a trace has them.
func listed[T int | float64](numbers []T) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatFloat(float64(n), 'f', -1, 64)
	}
	return strings.Join(texts, " ")
}

// validateName returns an error for an id or a name that no request may have, or that would be
// read otherwise than it was written.
func validateName(column, name string) error {
	switch {
	case len(name) > solver.MaxIDBytes:
		return fmt.Errorf("%s has %d bytes; must have at most %d", column, len(name), solver.MaxIDBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s is %q; must be valid UTF-8", column, name)
	case strings.Contains(name, "\r\n"):
		return fmt.Errorf("%s is %q; must not contain a carriage return before a line feed", column, name)
	}
	return nil
}

// Nodes returns the nodes the job asked for, on nodes of the given GPUs.
func (j *TraceJob) Nodes(gpusPerNode int) int { return j.NodesAsked(j.GPUs, gpusPerNode) }

// shapeOn returns how the job scales on nodes of the given GPUs: if a node is a GPU, up to what it asked
// for.
func (j *TraceJob) shapeOn(gpusPerNode int) Shape {
	shape := j.Shape
	if gpusPerNode == 1 && shape.MaxNodes == 0 {
		shape.MaxNodes = max(solver.DefaultMaxNodes, j.Nodes(gpusPerNode))
	}
	return shape
}

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
		shape := traced.shapeOn(gpusPerNode)
		job := *shape.job(traced.ID)
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

// Validate returns an error for a trace that could not be read again.
func (t Trace) Validate() error {
	seen := make(map[string]bool, len(t))
	for i := range t {
		job := &t[i]
		err := job.Validate()
		switch {
		case err != nil:
		case seen[job.ID]:
			err = fmt.Errorf("%s %q stands there twice", columnID, job.ID)
		case i > 0 && job.Submit < t[i-1].Submit:
			err = fmt.Errorf("%s is %s after %s; must be in the order of submission",
				columnSubmit, writtenSeconds(job.Submit), writtenSeconds(t[i-1].Submit))
		}
		if err != nil {
			return fmt.Errorf("job %d of the trace: %w", i+1, err)
		}
		seen[job.ID] = true
	}
	return nil
}

// Write writes a trace as ReadTrace reads it. Columns that may be missing are there if a
// job has a value in them. A trace that is not valid is an error, and nothing is written.
func (t Trace) Write(w io.Writer) error {
	if err := t.Validate(); err != nil {
		return err
	}
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
		{columnAllowedNodes, func(j *TraceJob) string { return listed(j.AllowedNodes) }},
		{columnSpeeds, func(j *TraceJob) string { return listed(j.Speeds) }},
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

// writtenSeconds returns seconds as ParseSeconds reads them, exactly.
func writtenSeconds(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	text := fmt.Sprintf("%s%d.%09d", sign, d/time.Second, d%time.Second)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// writtenNumber returns a number, nothing for the default.
func writtenNumber(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
