package sim

import (
	"cmp"
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
	err := readCSV(r, "trace",
		[]string{columnID, columnSubmit, columnDuration, columnGPUs},
		// These columns may be missing or empty, which means their default.
		[]string{
			columnEligible, columnStart, columnUserLimit, columnMinNodes, columnMaxNodes, columnEfficiency, columnWeight, columnUser, columnGroup,
			columnAllowedNodes, columnSpeeds, columnApplication, columnWork, columnNodeType, columnRestartTime,
		},
		func(line csvLine) error {
			job, err := line.job()
			if err != nil {
				return err
			}
			if first, seen := firstLine[job.ID]; seen {
				return fmt.Errorf("%s is %q as in line %d; must be unique", columnID, job.ID, first)
			}
			firstLine[job.ID] = line.at
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

// csvLine is one line after the header. It is valid until the next line is read.
type csvLine struct {
	at     int // the number of the line
	record []string
	column map[string]int
}

func (l csvLine) job() (TraceJob, error) {
	// Cloned, because a substring would keep the whole line in memory.
	job := TraceJob{
		ID: strings.Clone(l.text(columnID)), User: strings.Clone(l.text(columnUser)), Group: strings.Clone(l.text(columnGroup)),
		Application: strings.Clone(l.text(columnApplication)), NodeType: strings.Clone(l.text(columnNodeType)),
	}
	var err error
	if job.Submit, err = l.seconds(columnSubmit); err != nil {
		return job, err
	}
	if err := optional(l, columnWork, &job.Work, l.seconds); err != nil {
		return job, err
	}
	if l.text(columnWork) != "" {
		job.Work = max(job.Work, smallestDemand)
	}
	if l.text(columnDuration) != "" || job.Work == 0 {
		if job.Duration, err = l.seconds(columnDuration); err != nil {
			return job, err
		}
	}
	if job.GPUs, err = l.count(columnGPUs); err != nil {
		return job, err
	}
	for name, value := range map[string]**time.Duration{columnEligible: &job.Eligible, columnStart: &job.Start} {
		if l.text(name) == "" {
			continue
		}
		seconds, err := l.seconds(name)
		if err != nil {
			return job, err
		}
		*value = &seconds
	}
	for name, value := range map[string]*time.Duration{columnUserLimit: &job.Limit, columnRestartTime: &job.RestartTime} {
		if err := optional(l, name, value, l.seconds); err != nil {
			return job, err
		}
		if l.text(name) != "" && *value == 0 {
			return job, fmt.Errorf("%s is %q; must be greater than 0, or empty if unknown", name, l.text(name))
		}
	}
	if job.Shape, err = l.shape(); err != nil {
		return job, err
	}
	err = job.Validate()
	return job, err
}

// shape reads the columns of the scaling and the weight.
func (l csvLine) shape() (s Shape, err error) {
	if s.AllowedNodes, err = list(l, columnAllowedNodes, strconv.Atoi); err != nil {
		return s, err
	}
	if s.Speeds, err = list(l, columnSpeeds, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }); err != nil {
		return s, err
	}
	if err := cmp.Or(optional(l, columnMinNodes, &s.MinNodes, l.count), optional(l, columnMaxNodes, &s.MaxNodes, l.count)); err != nil {
		return s, err
	}
	if job := s.job(""); len(s.AllowedNodes) == 0 && (job.MinNodes > job.MaxNodes || len(job.LegalSizes()) == 0) {
		return s, fmt.Errorf("%s is %d and %s is %d; must be a range that contains a power of two, or one size",
			columnMinNodes, job.MinNodes, columnMaxNodes, job.MaxNodes)
	}
	return s, cmp.Or(optional(l, columnEfficiency, &s.DoublingEfficiency, l.upTo(1)), optional(l, columnWeight, &s.Weight, l.upTo(solver.MaxWeight)))
}

// list reads a column of numbers that are separated by spaces. It returns nil if the column is missing
// or empty.
func list[T any](l csvLine, name string, parse func(string) (T, error)) ([]T, error) {
	var numbers []T
	for word := range strings.FieldsSeq(l.text(name)) {
		number, err := parse(word)
		if err != nil {
			return nil, fmt.Errorf("%s is %q; must be numbers separated by spaces", name, l.text(name))
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// optional reads a column into value. If the column is missing or empty, value does not change.
func optional[T any](l csvLine, name string, value *T, read func(name string) (T, error)) error {
	if l.text(name) == "" {
		return nil
	}
	var err error
	*value, err = read(name)
	return err
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
	return scale(time.Second, seconds), nil
}

// seconds reads a column of seconds.
func (l csvLine) seconds(name string) (time.Duration, error) {
	seconds, err := ParseSeconds(l.text(name))
	if err != nil || seconds > maxTraceTime {
		valid := fmt.Sprintf("seconds, a number from 0 to %.0f", maxTraceTime.Seconds())
		if name == columnSubmit || name == columnEligible || name == columnStart {
			valid += ", since the first submission (convert dates and Unix times by subtracting its time)"
		}
		return 0, fmt.Errorf("%s is %q; must be %s", name, l.text(name), valid)
	}
	return seconds, nil
}

func (l csvLine) count(name string) (int, error) {
	n, err := strconv.ParseInt(l.text(name), 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q; must be a whole number of at least 1", name, l.text(name))
	}
	return int(n), nil
}

// upTo returns a function that reads a column of numbers in (0, limit].
func (l csvLine) upTo(limit float64) func(name string) (float64, error) {
	return func(name string) (float64, error) {
		x, err := strconv.ParseFloat(l.text(name), 64)
		if err != nil || !(x > 0 && x <= limit) {
			return 0, fmt.Errorf("%s is %q; must be a number greater than 0 and at most %g", name, l.text(name), limit)
		}
		return x, nil
	}
}

// readCSV reads CSV with a header, whose columns may be in any order, and calls each for every other
// line. Errors begin with what and name the line. An error of the header names all columns that are
// missing or repeated.
func readCSV(r io.Reader, what string, required, optional []string, each func(csvLine) error) error {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("line 1: must be the names of the columns, at least %s", strings.Join(required, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	// Spreadsheets often write a byte order mark.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	column := make(map[string]int)
	var bad []string
	missing := ""
	for _, name := range slices.Concat(required, optional) {
		at := slices.Index(header, name)
		switch {
		case at >= 0 && slices.Contains(header[at+1:], name):
			bad = append(bad, fmt.Sprintf("line 1: column %s is repeated", name))
		case at >= 0:
			column[name] = at
		case slices.Contains(required, name):
			bad = append(bad, fmt.Sprintf("line 1: column %s is missing", name))
			missing = fmt.Sprintf("; the line has %q, and commas separate columns", header)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s %s%s", what, strings.Join(bad, "\n  "), missing)
	}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		at, _ := reader.FieldPos(0)
		if err := each(csvLine{at, record, column}); err != nil {
			return fmt.Errorf("%s line %d: %w", what, at, err)
		}
	}
}

// text returns the text of a column, "" if the column is missing.
func (l csvLine) text(name string) string {
	if at, ok := l.column[name]; ok {
		return l.record[at]
	}
	return ""
}

// The columns of a file of groups, in any order.
const (
	columnGroupID = "id"
	columnParent  = "parent_id"
	columnLimit   = "limit"
	columnQuota   = "quota"

	columnTypeLimits = "type_limits"
)

// ReadGroups reads the groups that share a pool in CSV, one group per line. parent_id, limit and type_limits may
// be missing or empty. type_limits is a list of TYPE=NODES separated by spaces. An error names the line and the
// column of every invalid field.
func ReadGroups(r io.Reader) ([]solver.Group, error) {
	var bad []string
	addf := func(line int, format string, args ...any) {
		bad = append(bad, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
	}
	snapshot := solver.Snapshot{Horizon: solver.DefaultHorizon()}
	var groups []solver.Group
	var numbers []int // line numbers of groups
	err := readCSV(r, "groups", []string{columnGroupID, columnQuota}, []string{columnParent, columnLimit, columnTypeLimits}, func(line csvLine) error {
		parse := func(name, text string) int {
			n, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				addf(line.at, "%s is %q; must be a whole number from 0 to %d", name, text, solver.MaxNodes)
				return 0
			}
			return int(n)
		}
		count := func(name string) int { return parse(name, line.text(name)) }
		group := solver.Group{ID: line.text(columnGroupID), ParentID: line.text(columnParent), Quota: count(columnQuota)}
		if line.text(columnLimit) != "" {
			group.Limit = new(count(columnLimit))
		}
		for word := range strings.FieldsSeq(line.text(columnTypeLimits)) {
			nodeType, nodes, found := strings.Cut(strings.Clone(word), "=")
			if !found {
				addf(line.at, "%s is %q; must be TYPE=NODES separated by spaces, such as a100=8", columnTypeLimits, line.text(columnTypeLimits))
				break
			}
			group.TypeLimits = append(group.TypeLimits, solver.GroupTypeLimit{NodeType: nodeType, Limit: parse(columnTypeLimits, nodes)})
			if nodeType != "" && snapshot.TypeIndex(nodeType) < 0 { // The cluster is not known here.
				snapshot.NodeTypes = append(snapshot.NodeTypes, solver.NodeType{ID: nodeType, Speed: 1})
			}
		}
		groups, numbers = append(groups, group), append(numbers, line.at)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, errors.New("groups have no line below the header; must have at least one group")
	}
	// The rules for groups in a request apply.
	snapshot.Groups = groups
	for _, violation := range snapshot.Validate(0) {
		var at int
		var field string
		if _, err := fmt.Sscanf(violation.Path, "groups[%d].%s", &at, &field); err != nil {
			return nil, fmt.Errorf("groups: %s", violation.Description) // too many
		}
		addf(numbers[at], "%s %s", field, violation.Description)
	}
	if len(bad) > 0 {
		return nil, errors.New("groups " + strings.Join(bad, "\n  "))
	}
	return groups, nil
}
