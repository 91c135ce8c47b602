// Package convert converts the job histories of clusters into traces. It omits jobs that are not valid in a
// trace, and counts them by reason.
package convert

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/sim"
)

// Source is the origin of a job history. It determines the format.
type Source string

// The sources.
const (
	Slurm  Source = "slurm"  // what sacct --parsable2 prints
	Philly Source = "philly" // cluster_job_log of Microsoft's Philly, 2017
	Helios Source = "helios" // cluster_log.csv of SenseTime's Helios, 2020
	PAI    Source = "pai"    // pai_job_table.csv, then pai_task_table.csv of Alibaba's PAI, 2020
	ITP    Source = "itp"    // clusterNN.csv of Microsoft's ITP, 2021
)

// Sources returns all sources.
func Sources() []Source { return []Source{Slurm, Philly, Helios, PAI, ITP} }

// Converter reads the files of one job history.
type Converter struct {
	source  Source
	zone    *time.Location
	read    int // jobs
	jobs    []job
	kept    map[string][]int // jobs that are kept, by the id of the source
	remarks []*Remark
	files   int
	pai     paiTables
	// eligible reports whether a line of Slurm's has the time from which the job could run, and gres whether one
	// has GPUs.
	eligible, gres bool
}

// job is a job that is kept. Its times of a trace are set in the end.
type job struct {
	place  string
	submit time.Time
	start  *time.Time
	// eligible is the time from which the job could run, nil for the submission.
	eligible *time.Time
	// rerun reports whether the job may have been run again, and gpuType is the type of its GPUs, "" for unknown.
	rerun   bool
	gpuType string
	sim.TraceJob
}

// New returns a converter. The zone is that of Slurm's times without an offset.
func New(source Source, zone *time.Location) *Converter {
	return &Converter{source: source, zone: zone, kept: make(map[string][]int)}
}

// Read reads a file. An error names the file, the line, and what is wrong with the file as a
// whole; jobs that cannot be in a trace are remarks.
func (c *Converter) Read(name string, r io.Reader) error {
	c.files++
	switch {
	case c.source == Slurm:
		return c.readSlurm(name, r)
	case c.source == Philly:
		return c.readPhilly(name, r)
	case c.source == Helios:
		return c.readCSV(&heliosLayout, name, r, "job", c.addHelios)
	case c.source == ITP:
		return c.readCSV(&itpLayout, name, r, "job", c.addITP)
	case c.files == 1:
		return c.readCSV(&paiJobLayout, name, r, "job", c.pai.addJob)
	default:
		return c.readCSV(&paiTaskLayout, name, r, "task", c.addPAITask)
	}
}

// History is a job history as a trace.
type History struct {
	// Trace is valid, and empty if no job is left.
	Trace sim.Trace
	// Jobs is the number of jobs that were read, including those that were left out.
	Jobs int
	// Remarks describe omitted jobs and uncertainties, one remark per reason, in the order of first
	// occurrence.
	Remarks []*Remark
	// NoEligible reports that an export of Slurm does not have the time from which jobs could run, and NoGPUs that it
	// has no GPUs at all.
	NoEligible, NoGPUs bool
}

// Remark counts the occurrences of one reason.
type Remark struct {
	// What was treated, in the singular, and How.
	What, How string
	// Reason is the reason.
	Reason string
	// Count is the number of occurrences, and Examples are the first of them: the place
	// (file:line), and the value if the reason does not contain it.
	Count    int
	Examples []string
}

// mostExamples is the number of places that a remark names.
const mostExamples = 10

// String returns lines such as
//
//	3 jobs left out: ran on no GPUs
//	  jobs.txt:4: AllocTRES is "cpu=8"
func (r *Remark) String() string {
	lines := fmt.Sprintf("%s %s: %s", format.Plural(r.Count, r.What), r.How, r.Reason)
	for _, example := range r.Examples {
		lines += "\n  " + example
	}
	if more := r.Count - len(r.Examples); more > 0 {
		lines += fmt.Sprintf("\n  and %d more", more)
	}
	return lines
}

func (c *Converter) remark(what, how, reason, place, detail string) {
	i := slices.IndexFunc(c.remarks, func(r *Remark) bool { return r.What == what && r.How == how && r.Reason == reason })
	if i < 0 {
		i = len(c.remarks)
		c.remarks = append(c.remarks, &Remark{What: what, How: how, Reason: reason})
	}
	r := c.remarks[i]
	r.Count++
	if len(r.Examples) < mostExamples {
		if detail != "" {
			place += ": " + detail
		}
		r.Examples = append(r.Examples, place)
	}
}

// leftOut is the How of what is not in the trace.
const leftOut = "left out"

// refusal is why something is left out.
type refusal struct {
	reason string
	detail string // the field, its value and valid values, if the reason does not contain them
}

func (c *Converter) leaveOut(what, place string, r *refusal) {
	c.remark(what, leftOut, r.reason, place, r.detail)
}

// overlaps reports whether neither job was submitted after the other one had completed. Ids repeat when the
// counter of a cluster starts again.
func (j *job) overlaps(other *job) bool {
	end := func(j *job) time.Time {
		if j.start != nil {
			return j.start.Add(j.Duration)
		}
		return j.submit.Add(j.Duration)
	}
	return j.submit.Before(end(other)) && other.submit.Before(end(j))
}

// add keeps a job, or leaves it out if it cannot be in a trace.
func (c *Converter) add(j job, refused *refusal) {
	c.read++
	if refused == nil {
		if err := j.Validate(); err != nil {
			refused = &refusal{"not valid in a trace", err.Error()}
		}
	}
	if refused != nil {
		c.leaveOut("job", j.place, refused)
		return
	}
	id := j.ID
	for _, i := range c.kept[id] {
		switch other := &c.jobs[i]; {
		case !other.rerun && !j.rerun && j.overlaps(other):
			c.leaveOut("job", j.place, &refusal{"job id repeated", quoted("the id", id) + ", as in " + other.place})
			return
		case j.rerun && (!other.rerun || !j.submit.After(other.submit)):
			c.leaveOut("run", j.place, &refusal{"the job ran again", quoted("the id", id) + ", as in " + other.place})
			return
		case other.rerun:
			c.leaveOut("run", other.place, &refusal{"the job ran again", quoted("the id", id) + ", as in " + j.place})
			j.ID = other.ID
			c.jobs[i] = j
			return
		}
	}
	if n := len(c.kept[id]); n > 0 {
		j.ID = fmt.Sprintf("%s#%d", id, n+1)
		c.remark("job", "renamed", "another job has its id", j.place, quoted("the id", id)+", now "+j.ID)
	}
	c.kept[id] = append(c.kept[id], len(c.jobs))
	c.jobs = append(c.jobs, j)
}

// Finish returns what was read. It is an error if the submissions span more than a trace can.
func (c *Converter) Finish() (*History, error) {
	if c.source == PAI {
		c.joinPAI()
	}
	slices.SortStableFunc(c.jobs, func(a, b job) int { return a.submit.Compare(b.submit) })
	history := &History{
		Jobs: c.read, NoEligible: c.source == Slurm && !c.eligible, NoGPUs: !c.gres &&
			slices.ContainsFunc(c.remarks, func(r *Remark) bool { return c.source == Slurm && r.Reason == noGPUs("", "").reason }),
	}
	c.remarkOnExport()
	for i := range c.jobs {
		j := &c.jobs[i]
		first := &c.jobs[0]
		j.Submit = j.submit.Sub(first.submit)
		if err := j.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w, counted from the first submission in %s", j.place, err, first.place)
		}
		if j.eligible != nil {
			j.Eligible = new(j.eligible.Sub(first.submit))
		}
		if j.start != nil {
			j.Start = new(j.start.Sub(first.submit))
			if err := j.Validate(); err != nil {
				c.leaveOut("job", j.place, &refusal{"start not valid in a trace", err.Error()})
				continue
			}
		}
		history.Trace = append(history.Trace, j.TraceJob)
	}
	history.Remarks = c.remarks
	return history, nil
}

// remarkOnExport adds what is true of the history as a whole.
func (c *Converter) remarkOnExport() {
	if c.source != Slurm || c.read == 0 {
		return
	}
	counts := make(map[string]int)
	for i := range c.jobs {
		if gpuType := c.jobs[i].gpuType; gpuType != "" {
			counts[gpuType]++
		}
	}
	if len(counts) < 2 {
		return
	}
	for _, gpuType := range slices.Sorted(maps.Keys(counts)) {
		c.remark("GPU type", "in one export", "types differ in speed; convert the jobs of each type or partition separately",
			gpuType, format.Plural(counts[gpuType], "job"))
	}
}

// quoted returns the name and the value of a field for a message.
func quoted(name, value string) string {
	const longest = 200
	if len(value) > longest {
		value = value[:longest] + "…"
	}
	return fmt.Sprintf("%s is %q", name, value)
}

// column is a column of a table.
type column struct {
	name string
	// alias is another name, "" for none, that is used if there is no column of the first.
	alias string
	// optional columns may be missing, and headed ones are always missing in a table without a header.
	optional, headed bool
}

// layout is the columns of a table. The first is the id of the job.
type layout struct {
	// columns are in the order of a table without a header, which has all optional ones or none.
	columns []column
	// separator stands between fields.
	separator string
	// headed tables begin with a header; others may.
	headed bool
}

// names returns the names of the columns that must be there.
func (l *layout) names() string {
	var names []string
	for _, column := range l.columns {
		if !column.optional {
			names = append(names, column.name)
		}
	}
	return strings.Join(names, l.separator)
}

// isHeader reports whether a record is a header. The first one of a table is if it names the id;
// others name all columns, as where files were appended to each other.
func (l *layout) isHeader(record []string, first bool) bool {
	if first {
		return l.headed || l.columns[0].in(record) >= 0
	}
	return !slices.ContainsFunc(l.columns, func(c column) bool { return !c.optional && c.in(record) < 0 })
}

// in returns where a header has the column, -1 for nowhere.
func (c *column) in(header []string) int {
	if i := find(header, c.name); i >= 0 || c.alias == "" {
		return i
	}
	return find(header, c.alias)
}

func find(record []string, name string) int {
	return slices.IndexFunc(record, func(field string) bool { return strings.EqualFold(strings.TrimSpace(field), name) })
}

// positions returns where a header has the columns, by their first name.
func (l *layout) positions(header []string) (map[string]int, error) {
	at := make(map[string]int)
	var bad []string
	for _, column := range l.columns {
		i := column.in(header)
		switch {
		case i >= 0 && find(header[i+1:], strings.TrimSpace(header[i])) >= 0:
			bad = append(bad, fmt.Sprintf("column %s is there twice", column.name))
		case i >= 0:
			at[column.name] = i
		case !column.optional:
			bad = append(bad, fmt.Sprintf("column %s is missing", column.name))
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("%s; must have %s", strings.Join(bad, ", "), l.names())
	}
	return at, nil
}

// row is a line of a table, valid until the next one is read.
type row struct {
	place  string
	at     map[string]int
	record []string
}

// text returns a field without the space around it, "" if there is no such column.
func (r *row) text(name string) string {
	i, ok := r.at[name]
	if !ok {
		return ""
	}
	return strings.Clone(strings.TrimSpace(r.record[i])) // Otherwise it would keep the whole line.
}

// table is what is known of a table while its lines are read.
type table struct {
	*layout
	at    map[string]int // the columns; nil before the first line
	width int            // number of fields of a line
}

// readTable calls each with the lines of a table. next returns the next record and its line.
func (c *Converter) readTable(l *layout, name, what string, next func() ([]string, int, error), each func(*row)) error {
	t := table{layout: l}
	for {
		record, line, err := next()
		if err == io.EOF { //nolint:errorlint // As of the readers of the standard library.
			if t.at == nil && l.headed {
				return fmt.Errorf("%s: is empty; must have a header with %s", name, l.names())
			}
			return nil
		}
		place := fmt.Sprintf("%s:%d", name, line)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		first := t.at == nil
		if l.isHeader(record, first) {
			if err := t.readHeader(record); err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
			continue
		}
		if first {
			t.assumeHeader(len(record))
		}
		record = t.fields(record)
		if len(record) == t.width {
			each(&row{place, t.at, record})
			continue
		}
		detail := fmt.Sprintf("has %s; must have %d", format.Plural(len(record), "field"), t.width)
		if first {
			return fmt.Errorf("%s: %s: %s", place, detail, l.names())
		}
		if what == "job" {
			c.read++
		}
		c.leaveOut(what, place, &refusal{"wrong number of fields", detail})
	}
}

// readHeader sets the columns to those of a header.
func (t *table) readHeader(record []string) (err error) {
	t.at, err = t.positions(record)
	t.width = len(record)
	return err
}

// assumeHeader sets the columns of a table without a header, from the number of fields of its first line: all
// columns, or those that are not optional.
func (t *table) assumeHeader(fields int) {
	t.at = make(map[string]int)
	plain := slices.DeleteFunc(slices.Clone(t.columns), func(c column) bool { return c.headed })
	for i, column := range plain {
		if !column.optional || fields == len(plain) {
			t.at[column.name] = i
			t.width++
		}
	}
}

// fields returns the fields of a record without the empty one that follows the last separator in the output
// of sacct --parsable.
func (t *table) fields(record []string) []string {
	if len(record) == t.width+1 && record[t.width] == "" {
		return record[:t.width]
	}
	return record
}
