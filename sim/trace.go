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

// DefaultGPUsPerNode is the default number of GPUs of a node.
const DefaultGPUsPerNode = 8

// MaxTraceTime is the longest time in a trace, about 18 years. The demand of a job with this duration
// on the default maximum of nodes fits a time.Duration.
const MaxTraceTime = time.Duration(math.MaxInt64 / solver.DefaultMaxNodes)

// Trace is the list of jobs of a recorded or synthetic workload in the order of submission.
type Trace []TraceJob

// TraceJob is one job of a trace.
type TraceJob struct {
	// ID is unique in the trace and not empty.
	ID string
	// Submit is the time of the submission since the first submission.
	Submit time.Duration
	// Duration is the run time on the requested GPUs. It may be 0.
	Duration time.Duration
	// GPUs is the number of requested GPUs, at least 1.
	GPUs int
	// User submitted the job, and Group is its team; "" for unknown.
	User, Group string
	// Application is a key of Speeds, "" if Shape applies on all node types. NodeType is the requested
	// node type, "" for unknown.
	Application, NodeType string
	// Work is the run time on one reference node. 0 means that it follows from Duration.
	Work time.Duration
	// RestartTime is the time without progress after every resize, 0 for unknown.
	RestartTime time.Duration
	// Eligible is the time since the first submission from which the job could run, such as the end of a
	// dependency; nil for unknown. It counts if it is later than Submit.
	Eligible *time.Duration
	// Start is the recorded start since the first submission, not before Submit; nil for unknown.
	Start *time.Duration
	// Limit is the time limit that the user set for the run time, 0 for unknown.
	Limit time.Duration
	// Shape contains the scaling and the weight.
	Shape
}

// Validate returns an error if the job is not valid in a trace. The error names the column, the value
// and the valid values.
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
	}{{columnSubmit, j.Submit}, {columnDuration, j.Duration}, {columnWork, j.Work},
		{columnUserLimit, j.Limit}, {columnRestartTime, j.RestartTime}} {
		if seconds.value < 0 || seconds.value > MaxTraceTime {
			return fmt.Errorf("%s is %s; must be from 0 to %.0f", seconds.column, formatSeconds(seconds.value), MaxTraceTime.Seconds())
		}
	}
	if j.GPUs < 1 || j.GPUs > math.MaxInt32 {
		return fmt.Errorf("%s is %d; must be from 1 to %d", columnGPUs, j.GPUs, math.MaxInt32)
	}
	if j.Start != nil && (*j.Start < j.Submit || *j.Start > MaxTraceTime) {
		return fmt.Errorf("%s is %s; must be at least %s (%s) and at most %.0f",
			columnStart, formatSeconds(*j.Start), columnSubmit, formatSeconds(j.Submit), MaxTraceTime.Seconds())
	}
	if j.Eligible != nil && (*j.Eligible < 0 || *j.Eligible > MaxTraceTime) {
		return fmt.Errorf("%s is %s; must be from 0 to %.0f", columnEligible, formatSeconds(*j.Eligible), MaxTraceTime.Seconds())
	}
	if j.Start != nil && *j.Start < j.arrival() {
		return fmt.Errorf("%s is %s; must be at least %s (%s)", columnStart, formatSeconds(*j.Start), columnEligible, formatSeconds(*j.Eligible))
	}
	if err := j.validateSizes(); err != nil {
		return err
	}
	// The demand, at most the duration times the nodes, must fit a time.Duration.
	if limit := time.Duration(math.MaxInt64 / max(solver.DefaultMaxNodes, j.MaxNodes)); j.Duration > limit {
		return fmt.Errorf("%s is %s; must be at most %.0f if %s is %d",
			columnDuration, formatSeconds(j.Duration), limit.Seconds(), columnMaxNodes, j.MaxNodes)
	}
	fastest := j.speed(j.Nodes(1))
	for _, size := range j.AllowedNodes {
		fastest = max(fastest, j.speed(size))
	}
	if limit := math.MaxInt64 / fastest; float64(j.Duration) > limit {
		return fmt.Errorf("%s is %s; must be at most %.0f for a job of %d %s that trains up to %g times as fast as on one node",
			columnDuration, formatSeconds(j.Duration), limit/float64(time.Second), j.GPUs, columnGPUs, fastest)
	}
	return nil
}

// validateSizes returns an error if the sizes or speeds are not valid in a request.
func (j *TraceJob) validateSizes() error {
	if len(j.AllowedNodes) > solver.MaxSizes {
		return fmt.Errorf("%s has %d sizes; must have at most %d", columnAllowedNodes, len(j.AllowedNodes), solver.MaxSizes)
	}
	for i, size := range j.AllowedNodes {
		if size < 1 || size > solver.MaxNodes || i > 0 && size <= j.AllowedNodes[i-1] {
			return fmt.Errorf("%s is %q; must be ascending whole numbers from 1 to %d",
				columnAllowedNodes, formatList(j.AllowedNodes), solver.MaxNodes)
		}
	}
	if len(j.Speeds) > 0 && len(j.Speeds) != len(j.AllowedNodes) {
		return fmt.Errorf("%s has %d numbers; must have as many as %s, %d", columnSpeeds, len(j.Speeds), columnAllowedNodes, len(j.AllowedNodes))
	}
	for _, speed := range j.Speeds {
		if !(speed >= MinSpeed && speed <= MaxSpeed) {
			return fmt.Errorf("%s is %q; must be numbers from %v to %v", columnSpeeds, formatList(j.Speeds), MinSpeed, MaxSpeed)
		}
	}
	return nil
}

// formatList formats numbers as a column of a trace.
func formatList[T int | float64](numbers []T) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatFloat(float64(n), 'f', -1, 64)
	}
	return strings.Join(texts, " ")
}

// validateName returns an error if an id or a name is not valid in a request, or does not survive
// writing and reading CSV.
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

// arrival returns the time from which the job waits: the later one of its submission and the time from which it could
// run.
func (j *TraceJob) arrival() time.Duration {
	if j.Eligible != nil {
		return max(j.Submit, *j.Eligible)
	}
	return j.Submit
}

// Nodes returns the number of requested nodes for a number of GPUs per node.
func (j *TraceJob) Nodes(gpusPerNode int) int { return j.RequestedNodes(j.GPUs, gpusPerNode) }

// FixedNodes returns the largest legal size of the job up to its requested nodes, or its smallest size.
func (j *TraceJob) FixedNodes(gpusPerNode int) int {
	shape := j.shapeOn(gpusPerNode)
	spec := shape.job("")
	sizes := spec.LegalSizes()
	above, _ := slices.BinarySearch(sizes, j.Nodes(gpusPerNode)+1)
	return sizes[max(0, above-1)]
}

// shapeOn returns the shape of the job for a number of GPUs per node. Its legal sizes include the
// requested nodes. If neither MaxNodes nor AllowedNodes is set, MaxNodes is at least the request.
func (j *TraceJob) shapeOn(gpusPerNode int) Shape {
	shape, requested := j.Shape, j.Nodes(gpusPerNode)
	if shape.As != nil || len(shape.AllowedNodes) > 0 {
		return shape
	}
	if shape.MaxNodes == 0 {
		shape.MaxNodes = max(solver.DefaultMaxNodes, requested)
	}
	spec := shape.job("")
	sizes := spec.LegalSizes()
	at, legal := slices.BinarySearch(sizes, requested)
	if !legal && requested >= spec.MinNodes && requested <= spec.MaxNodes {
		shape.AllowedNodes = slices.Insert(slices.Clone(sizes), at, requested)
	}
	if shape.MaxNodes = j.MaxNodes; requested > solver.DefaultMaxNodes && j.MaxNodes == 0 && shape.AllowedNodes == nil {
		shape.MaxNodes = requested
	}
	return shape
}

// RemainingDemand returns the remaining run time on one node after the job ran for a time on its
// requested nodes.
func (j *TraceJob) RemainingDemand(ran time.Duration, gpusPerNode int) time.Duration {
	speed := j.speed(j.Nodes(gpusPerNode))
	if j.Work > 0 {
		return max(1, j.Work-Scale(ran, speed))
	}
	return Scale(j.Duration-ran, speed)
}

// runTime returns the run time of the job on its requested nodes.
func (j *TraceJob) runTime(gpusPerNode int) time.Duration {
	if j.Work > 0 {
		return time.Duration(min(float64(j.Work)/j.speed(j.Nodes(gpusPerNode)), float64(MaxTraceTime)))
	}
	return j.Duration
}

// Scale returns d times factor, rounded to whole nanoseconds.
func Scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(math.Round(float64(d) * factor))
}

// SnapshotAt returns the snapshot of a pool of the given nodes at a time since the first submission.
//
// The snapshot contains the jobs that were submitted by then and whose duration has not passed since
// their submission. The remaining demand of a job follows from its duration. In the order of
// submission, jobs have their requested nodes as long as the pool has enough. The first job that does
// not fit and all later jobs are queued.
func SnapshotAt(trace Trace, nodes int, at time.Duration, gpusPerNode int) *solver.Snapshot {
	snapshot := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	idle, queuing := nodes, false
	for i := range trace {
		traced := &trace[i]
		if traced.Submit > at {
			break
		}
		elapsed := at - traced.arrival()
		if elapsed < 0 || elapsed >= traced.runTime(gpusPerNode) {
			continue
		}
		shape := traced.shapeOn(gpusPerNode)
		job := *shape.job(traced.ID)
		job.Scaling.DoublingEfficiency = traced.DoublingEfficiency // 0 means the default.
		job.GroupID, job.RestartTime = traced.Group, traced.RestartTime
		job.RemainingETA = traced.RemainingDemand(elapsed, gpusPerNode)
		requested := traced.Nodes(gpusPerNode)
		queuing = queuing || requested > idle
		if !queuing {
			idle -= requested
			job.CurrentNodes = requested
			job.TrainingTime = elapsed
		} else {
			job.WaitingTime = elapsed
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return snapshot
}

// Window returns the jobs that were submitted in [from, from + length), or from from on if length is 0.
// Times of the result are since the first of these submissions.
func (t Trace) Window(from, length time.Duration) Trace {
	var window Trace
	for _, job := range t {
		if job.Submit < from || length > 0 && job.Submit-from >= length {
			continue
		}
		window = append(window, job)
	}
	for i := range window {
		job := &window[len(window)-1-i] // The first job is last, since its submission is subtracted.
		if job.Start != nil {
			job.Start = new(*job.Start - window[0].Submit)
		}
		if job.Eligible != nil {
			job.Eligible = new(max(0, *job.Eligible-window[0].Submit))
		}
		job.Submit -= window[0].Submit
	}
	return window
}

// Validate returns an error if ReadTrace could not read the trace back.
func (t Trace) Validate() error {
	seen := make(map[string]bool, len(t))
	for i := range t {
		job := &t[i]
		err := job.Validate()
		switch {
		case err != nil:
		case seen[job.ID]:
			err = fmt.Errorf("%s is %q twice; must be unique", columnID, job.ID)
		case i > 0 && job.Submit < t[i-1].Submit:
			err = fmt.Errorf("%s is %s after %s; must be in the order of submission",
				columnSubmit, formatSeconds(job.Submit), formatSeconds(t[i-1].Submit))
		}
		if err != nil {
			return fmt.Errorf("job %d of the trace: %w", i+1, err)
		}
		seen[job.ID] = true
	}
	return nil
}

// Write writes the trace in the format of ReadTrace. It omits optional columns without values. It
// returns an error and writes nothing if the trace is not valid.
func (t Trace) Write(w io.Writer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	columns := []struct {
		name  string
		value func(*TraceJob) string
	}{
		{columnID, func(j *TraceJob) string { return j.ID }},
		{columnSubmit, func(j *TraceJob) string { return formatSeconds(j.Submit) }},
		{columnDuration, func(j *TraceJob) string { return formatSeconds(j.Duration) }},
		{columnGPUs, func(j *TraceJob) string { return strconv.Itoa(j.GPUs) }},
		{columnEligible, func(j *TraceJob) string { return formatOptional(j.Eligible) }},
		{columnStart, func(j *TraceJob) string { return formatOptional(j.Start) }},
		{columnMinNodes, func(j *TraceJob) string { return formatNumber(float64(j.MinNodes)) }},
		{columnMaxNodes, func(j *TraceJob) string { return formatNumber(float64(j.MaxNodes)) }},
		{columnEfficiency, func(j *TraceJob) string { return formatNumber(j.DoublingEfficiency) }},
		{columnWeight, func(j *TraceJob) string { return formatNumber(j.Weight) }},
		{columnAllowedNodes, func(j *TraceJob) string { return formatList(j.AllowedNodes) }},
		{columnSpeeds, func(j *TraceJob) string { return formatList(j.Speeds) }},
		{columnUserLimit, func(j *TraceJob) string { return formatKnown(j.Limit) }},
		{columnRestartTime, func(j *TraceJob) string { return formatKnown(j.RestartTime) }},
		{columnUser, func(j *TraceJob) string { return j.User }},
		{columnGroup, func(j *TraceJob) string { return j.Group }},
		{columnApplication, func(j *TraceJob) string { return j.Application }},
		{columnWork, func(j *TraceJob) string { return formatKnown(j.Work) }},
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
	_ = writer.Write(record) // writer.Error returns the error below.
	for i := range t {
		for k, column := range kept {
			record[k] = column.value(&t[i])
		}
		_ = writer.Write(record)
	}
	writer.Flush()
	return writer.Error()
}

// formatSeconds formats a duration for ParseSeconds, exactly.
func formatSeconds(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	text := fmt.Sprintf("%s%d.%09d", sign, d/time.Second, d%time.Second)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// formatKnown formats a duration. It returns "" for 0, which is unknown.
func formatKnown(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return formatSeconds(d)
}

// formatOptional formats a duration. It returns "" for nil.
func formatOptional(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return formatSeconds(*d)
}

// formatNumber formats a number. It returns "" for 0, the default.
func formatNumber(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
