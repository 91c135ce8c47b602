package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// DefaultGPUsPerNode is the number of GPUs of a node where the trace's reader
// does not say otherwise.
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
}

// Nodes returns the nodes the job asked for, on nodes of the given GPUs.
func (j *TraceJob) Nodes(gpusPerNode int) int { return NodesAsked(j.GPUs, gpusPerNode) }

// RemainingDemand returns the run time on exactly one node that is left of the
// job after it ran for some of its duration: the remaining share of the demand
// duration * speed(nodes asked), with the paper's speed curve.
func (j *TraceJob) RemainingDemand(ran time.Duration, gpusPerNode int) time.Duration {
	return scale(j.Duration-ran, speed(j.Nodes(gpusPerNode)))
}

// NodesAsked returns the nodes that hold the given GPUs, both arguments at least
// 1: rounded up to a power of two, which is what an elastic job may hold, and at
// most 16, the most that one may hold by default.
func NodesAsked(gpus, gpusPerNode int) int {
	needed := (gpus-1)/gpusPerNode + 1
	nodes := 1
	for nodes < needed && nodes < solver.DefaultMaxNodes {
		nodes *= 2
	}
	return nodes
}

// speed returns the default training speed on the given nodes relative to one.
func speed(nodes int) float64 {
	job := solver.NewJob("", 0)
	return job.Speed(nodes)
}

// scale returns d times factor, rounded to whole nanoseconds.
func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(math.Round(float64(d) * factor))
}

// The columns of a trace; all are required, in any order.
const (
	columnID       = "job_id"
	columnSubmit   = "submit_s"
	columnDuration = "duration_s"
	columnGPUs     = "gpus"
)

// ReadTrace reads a trace in CSV: a header that names at least the columns
// job_id, submit_s, duration_s and gpus, then one job per line in the order of
// submission, times in seconds from the first submission. Other columns are
// ignored. The error names the first line that is bad and what is wrong with it.
func ReadTrace(r io.Reader) (Trace, error) {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("trace is empty; want a header line")
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	column, err := findColumns(header)
	if err != nil {
		return nil, fmt.Errorf("trace line 1: %w", err)
	}

	var trace Trace
	firstLine := make(map[string]int)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return trace, nil
		}
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		line, _ := reader.FieldPos(0)
		job, err := parseJob(record, column)
		if err != nil {
			return nil, fmt.Errorf("trace line %d: %w", line, err)
		}
		if first, seen := firstLine[job.ID]; seen {
			return nil, fmt.Errorf("trace line %d: %s %q stands in line %d already", line, columnID, job.ID, first)
		}
		firstLine[job.ID] = line
		if last := len(trace) - 1; last >= 0 && job.Submit < trace[last].Submit {
			return nil, fmt.Errorf("trace line %d: %s is %v after %v; want jobs in the order of submission",
				line, columnSubmit, job.Submit.Seconds(), trace[last].Submit.Seconds())
		}
		trace = append(trace, job)
	}
}

// findColumns returns where each required column stands in the header.
func findColumns(header []string) (map[string]int, error) {
	// Spreadsheets like to begin a file with a byte order mark.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	column := make(map[string]int)
	for _, name := range []string{columnID, columnSubmit, columnDuration, columnGPUs} {
		at := slices.Index(header, name)
		if at < 0 {
			return nil, fmt.Errorf("column %s is missing", name)
		}
		if slices.Contains(header[at+1:], name) {
			return nil, fmt.Errorf("column %s stands there twice", name)
		}
		column[name] = at
	}
	return column, nil
}

// parseJob reads one line of a trace.
func parseJob(record []string, column map[string]int) (TraceJob, error) {
	// The record's memory is used again for the next line.
	job := TraceJob{ID: strings.Clone(record[column[columnID]])}
	if job.ID == "" {
		return job, fmt.Errorf("%s is empty", columnID)
	}
	var err error
	if job.Submit, err = parseSeconds(record, column, columnSubmit); err != nil {
		return job, err
	}
	if job.Duration, err = parseSeconds(record, column, columnDuration); err != nil {
		return job, err
	}
	job.GPUs, err = strconv.Atoi(record[column[columnGPUs]])
	if err != nil || job.GPUs < 1 {
		return job, fmt.Errorf("%s is %q; want a whole number of at least 1", columnGPUs, record[column[columnGPUs]])
	}
	return job, nil
}

// parseSeconds reads a column of seconds, rounded to whole nanoseconds.
func parseSeconds(record []string, column map[string]int, name string) (time.Duration, error) {
	text := record[column[name]]
	seconds, err := strconv.ParseFloat(text, 64)
	// Written so that NaN, which compares false with everything, is refused too.
	if err != nil || !(seconds >= 0 && seconds <= maxTraceTime.Seconds()) {
		return 0, fmt.Errorf("%s is %q; want seconds, a number from 0 to %.0f", name, text, maxTraceTime.Seconds())
	}
	return scale(time.Second, seconds), nil
}
