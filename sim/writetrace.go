package sim

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"time"
)

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
