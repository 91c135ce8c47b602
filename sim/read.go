package sim

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/csvtable"
	"github.com/elastalloc/elastalloc/solver"
)

// The columns of a trace, in any order.
const (
	columnID       = "job_id"
	columnSubmit   = "submit_s"
	columnDuration = "duration_s"
	columnGPUs     = "gpus"

	columnStart       = "start_s"
	columnEligible    = "eligible_s"
	columnUserLimit   = "limit_s"
	columnRestartTime = "restart_s"
	columnMinNodes    = "min_nodes"
	columnMaxNodes    = "max_nodes"
	columnEfficiency  = "doubling_efficiency"
	columnWeight      = "weight"

	columnAllowedNodes = "allowed_nodes"
	columnSpeeds       = "speeds"

	columnUser  = "user"
	columnGroup = "group"

	columnApplication = "application"
	columnWork        = "work_s"
	columnNodeType    = "node_type"
)

// ReadTrace reads a trace in CSV. The first line names the columns. Every other line is a job, in the
// order of submission, with times in seconds since the first submission. Unknown columns are ignored.
// duration_s may be empty if work_s is set. An error names the first invalid line and column.
func ReadTrace(r io.Reader) (Trace, error) {
	var trace Trace
	firstLine := make(map[string]int)
	err := csvtable.Read(r, "trace",
		[]string{columnID, columnSubmit, columnDuration, columnGPUs},
		// These columns may be missing or empty, which means their default.
		[]string{
			columnEligible, columnStart, columnUserLimit, columnMinNodes, columnMaxNodes, columnEfficiency, columnWeight, columnUser, columnGroup,
			columnAllowedNodes, columnSpeeds, columnApplication, columnWork, columnNodeType, columnRestartTime,
		},
		func(line csvtable.Line) error {
			job, err := readJob(line)
			if err != nil {
				return err
			}
			if first, seen := firstLine[job.ID]; seen {
				return fmt.Errorf("%s is %q as in line %d; must be unique", columnID, job.ID, first)
			}
			firstLine[job.ID] = line.Number
			if last := len(trace) - 1; last >= 0 && job.Submit < trace[last].Submit {
				return fmt.Errorf("%s is %v after %v; must be in the order of submission",
					columnSubmit, job.Submit.Seconds(), trace[last].Submit.Seconds())
			}
			trace = append(trace, job)
			return nil
		})
	if err != nil {
		return nil, err
	}
	return trace, nil
}

// readJob reads a job.
func readJob(l csvtable.Line) (TraceJob, error) {
	// Cloned, because a substring would keep the whole line in memory.
	job := TraceJob{
		ID: strings.Clone(l.Text(columnID)), User: strings.Clone(l.Text(columnUser)), Group: strings.Clone(l.Text(columnGroup)),
		Application: strings.Clone(l.Text(columnApplication)), NodeType: strings.Clone(l.Text(columnNodeType)),
	}
	var err error
	if job.Submit, err = seconds(l)(columnSubmit); err != nil {
		return job, err
	}
	if err := csvtable.Optional(l, columnWork, &job.Work, seconds(l)); err != nil {
		return job, err
	}
	if l.Text(columnWork) != "" {
		job.Work = max(job.Work, smallestDemand)
	}
	if l.Text(columnDuration) != "" || job.Work == 0 {
		if job.Duration, err = seconds(l)(columnDuration); err != nil {
			return job, err
		}
	}
	if job.GPUs, err = l.Count(columnGPUs); err != nil {
		return job, err
	}
	for name, value := range map[string]**time.Duration{columnEligible: &job.Eligible, columnStart: &job.Start} {
		if l.Text(name) == "" {
			continue
		}
		at, err := seconds(l)(name)
		if err != nil {
			return job, err
		}
		*value = &at
	}
	for name, value := range map[string]*time.Duration{columnUserLimit: &job.Limit, columnRestartTime: &job.RestartTime} {
		if err := csvtable.Optional(l, name, value, seconds(l)); err != nil {
			return job, err
		}
		if l.Text(name) != "" && *value == 0 {
			return job, fmt.Errorf("%s is %q; must be greater than 0, or empty if unknown", name, l.Text(name))
		}
	}
	if job.Shape, err = readShape(l); err != nil {
		return job, err
	}
	err = job.Validate()
	return job, err
}

// readShape reads the columns of the scaling and the weight.
func readShape(l csvtable.Line) (s Shape, err error) {
	if s.AllowedNodes, err = list(l, columnAllowedNodes, strconv.Atoi); err != nil {
		return s, err
	}
	if s.Speeds, err = list(l, columnSpeeds, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }); err != nil {
		return s, err
	}
	err = cmp.Or(csvtable.Optional(l, columnMinNodes, &s.MinNodes, l.Count), csvtable.Optional(l, columnMaxNodes, &s.MaxNodes, l.Count))
	if err != nil {
		return s, err
	}
	if job := s.job(""); len(s.AllowedNodes) == 0 && (job.MinNodes > job.MaxNodes || len(job.LegalSizes()) == 0) {
		return s, fmt.Errorf("%s is %d and %s is %d; must be a range that contains a power of two, or one size",
			columnMinNodes, job.MinNodes, columnMaxNodes, job.MaxNodes)
	}
	return s, cmp.Or(csvtable.Optional(l, columnEfficiency, &s.DoublingEfficiency, l.UpTo(1)),
		csvtable.Optional(l, columnWeight, &s.Weight, l.UpTo(solver.MaxWeight)))
}

// list reads a column of numbers that are separated by spaces. It returns nil if the column is missing
// or empty.
func list[T any](l csvtable.Line, name string, parse func(string) (T, error)) ([]T, error) {
	var numbers []T
	for word := range strings.FieldsSeq(l.Text(name)) {
		number, err := parse(word)
		if err != nil {
			return nil, fmt.Errorf("%s is %q; must be numbers separated by spaces", name, l.Text(name))
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// ParseSeconds parses a number of seconds, from 0 to about 292 years, in the format of traces. It
// rounds to nanoseconds.
func ParseSeconds(text string) (time.Duration, error) {
	const nanosecond = 9 // digits after the decimal point
	whole, fraction, _ := strings.Cut(text, ".")
	if strings.Trim(whole+fraction, "0123456789") == "" && len(fraction) <= nanosecond {
		return time.ParseDuration(text + "s")
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	// The negation also rejects NaN.
	if !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return Scale(time.Second, seconds), nil
}

// seconds returns a function that reads a column of seconds.
func seconds(l csvtable.Line) func(name string) (time.Duration, error) {
	return func(name string) (time.Duration, error) {
		seconds, err := ParseSeconds(l.Text(name))
		if err != nil || seconds > MaxTraceTime {
			valid := fmt.Sprintf("seconds, a number from 0 to %.0f", MaxTraceTime.Seconds())
			if name == columnSubmit || name == columnEligible || name == columnStart {
				valid += ", since the first submission (convert dates and Unix times by subtracting its time)"
			}
			return 0, fmt.Errorf("%s is %q; must be %s", name, l.Text(name), valid)
		}
		return seconds, nil
	}
}
