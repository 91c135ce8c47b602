package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/replay"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// The names of files.
const (
	replayName    = "replay.json"
	decisionsName = "decisions.csv"
)

// replayed is what came of a replay.
type replayed struct {
	*replay.Replay
	// runs are recorded and the policies', of the jobs compared, and details are as many.
	runs    []*sim.Result
	details []detail
	summary results.Summary
	// asked is the policy that moments compares with the recorded decisions.
	asked   string
	moments []replay.MomentDifference
	largest []replay.MomentDifference
	origin  results.Origin
}

// detail is what is known of a policy beside its summary. Field names are those of
// replay.json.
type detail struct {
	Policy string `json:"policy"`
	// IdleNodeHours are within the recording.
	IdleNodeHours float64 `json:"idle_node_hours"`
	// LaterThanRecorded is the share of the jobs that take over a step longer than they
	// really did.
	LaterThanRecorded float64 `json:"later_than_recorded"`
	// UnseenSizeShare is the share of node hours on sizes that a job was never seen on.
	UnseenSizeShare float64 `json:"unseen_size_share"`
	// EndAfterRecording counts the jobs compared that end after the recording.
	EndAfterRecording int `json:"jobs_ending_after_recording"`
}

// write writes the files and commits them.
func (f *replayed) write(directory *results.Directory) error {
	f.summary.Origin = &f.origin
	details, err := json.MarshalIndent(struct {
		Origin   results.Origin `json:"origin"`
		Source   replay.Source  `json:"source"`
		Unknown  replay.Unknown `json:"unknown"`
		Policies []detail       `json:"policies"`
	}{f.origin, f.Source, f.Unknown, f.details}, "", "  ")
	if err != nil {
		return err
	}
	if err := directory.Write(replayName, append(details, '\n')); err != nil {
		return err
	}
	if f.asked != "" {
		if err := directory.Write(decisionsName, replay.DecisionsCSV(f.asked, f.moments)); err != nil {
			return err
		}
	}
	page, err := f.page()
	if err != nil {
		return err
	}
	return writeRuns(directory, f.runs, f.summary, 0, page)
}

// best returns the run with the least mean total time, recorded aside; -1 for none.
func (f *replayed) best() int {
	best := -1
	for i := 1; i < len(f.summary.Runs); i++ {
		if best < 0 || f.summary.Runs[i].MeanTotalSeconds < f.summary.Runs[best].MeanTotalSeconds {
			best = i
		}
	}
	return best
}

// lead is what a reader with a minute reads.
func (f *replayed) lead() []string {
	u, recorded := &f.Unknown, &f.summary.Runs[0]
	lines := []string{fmt.Sprintf("Recorded from %s for %s: %d decisions on up to %d nodes; %d of %d jobs ended meanwhile and are compared.",
		f.Source.Begin.UTC().Format("2006-01-02 15:04 UTC"), hours(f.Until), f.Source.Decisions, f.Config.Nodes, u.Compared, u.Jobs)}
	in, unit := f.unit()
	lines = append(lines, fmt.Sprintf("What really happened: a job took %s %s from submission to end on average, %s of them without nodes; %s node hours were idle.",
		in(recorded.MeanTotalSeconds), unit, in(recorded.MeanUnservedSeconds), nodeHours(f.details[0].IdleNodeHours)))
	few := ""
	if u.Compared < fewJobs {
		few = fmt.Sprintf(" Too few jobs, %d, to rank policies by.", u.Compared)
	}
	if best := f.best(); best > 0 {
		s, d := &f.summary.Runs[best], &f.details[best]
		lines = append(lines,
			fmt.Sprintf("%s would have taken %s %s, %s, with %.2f changes of nodes per job in the place of %.2f, and %s node hours idle.",
				s.Policy, in(s.MeanTotalSeconds), unit, change(s.MeanTotalSeconds, recorded.MeanTotalSeconds),
				perJob(s), perJob(recorded), nodeHours(d.IdleNodeHours)),
			fmt.Sprintf("Who would have waited: %s of the jobs take over %s longer than they did; the longest tenth is %s, 95 %% of the jobs end within %s %s in the place of %s.",
				percent(d.LaterThanRecorded), short(f.Config.Frequency), f.longest(best), in(s.P95TotalSeconds), unit, in(recorded.P95TotalSeconds)),
			fmt.Sprintf("How sure that is: %s of its node hours are on sizes that a job was never seen on, whose speeds are what the scheduler told; %s of all jobs were still running.%s",
				percent(d.UnseenSizeShare), percent(float64(u.StillRunning)/float64(max(1, u.Jobs))), few),
		)
	}
	return lines
}

// fewJobs is how many jobs do not rank policies: one of them may decide.
const fewJobs = 100

// unit returns how times are written, which is in seconds where jobs take less than ten
// minutes, and the unit.
func (f *replayed) unit() (write func(seconds float64) string, name string) {
	if f.summary.Runs[0].MeanTotalSeconds < 600 {
		return func(seconds float64) string { return fmt.Sprintf("%.0f", seconds) }, "s"
	}
	return minutes, "min"
}

// longest says how much earlier or later the longest tenth of the jobs ends.
func (f *replayed) longest(i int) string {
	recorded, run := f.runs[0], f.runs[i]
	order := make([]int, len(run.Jobs))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(run.Jobs[b].Alone - run.Jobs[a].Alone) })
	order = order[:max(1, len(order)/10)]
	var was, is float64
	for _, n := range order {
		was += recorded.Jobs[n].TotalTime().Seconds()
		is += run.Jobs[n].TotalTime().Seconds()
	}
	return change(is, was)
}

// change says by how much a time is less or more than another.
func change(is, was float64) string {
	percent := 100 * math.Abs(is/was-1)
	digits := 0
	if percent < 1 {
		digits = 1
	}
	switch {
	case was == 0 || percent < 0.05:
		return "as long"
	case is < was:
		return fmt.Sprintf("%.*f %% shorter", digits, percent)
	default:
		return fmt.Sprintf("%.*f %% longer", digits, percent)
	}
}

func perJob(s *sim.Summary) float64 { return float64(s.Rescales) / float64(max(1, s.Jobs)) }

// hours writes a span for a person.
func hours(d time.Duration) string {
	if d < 2*time.Hour {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}

// nodeHours writes node hours for a person.
func nodeHours(h float64) string {
	if h < 10 {
		return fmt.Sprintf("%.1f", h)
	}
	return fmt.Sprintf("%.0f", h)
}

// short writes a span without zeros behind.
func short(d time.Duration) string {
	switch {
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}

// page makes the report.
func (f *replayed) page() (*report.Page, error) {
	_, unit := f.unit()
	figure, err := totalTimes(f.runs, unit)
	if err != nil {
		return nil, err
	}
	page := &report.Page{
		Title: "What really happened, and what would have", Lead: f.lead(), Figure: figure, Origin: f.origin,
	}
	outcome := report.Section{
		Name: "policies", Title: "Policies",
		Text: []string{"Times are in " + unit + ", of the jobs that ended within the recording. Total runs from submission to end, unserved is the part without nodes, " +
			"in the queue and in pauses. Later is the share of jobs that take over a step longer than they really did, unseen the share of node hours on sizes " +
			"that a job was never seen on, and after the number of jobs that end after the recording, when no more come."},
		Tables: []report.Table{{Header: []string{"policy", "total", "unserved", "95th percentile", "longest", "changes per job", "idle node hours", "later", "unseen", "after"}}},
	}
	for i := range f.summary.Runs {
		row := append(f.row(i), "", "")
		if i > 0 {
			row[len(row)-2], row[len(row)-1] = percent(f.details[i].UnseenSizeShare), fmt.Sprint(f.details[i].EndAfterRecording)
		}
		outcome.Tables[0].Rows = append(outcome.Tables[0].Rows, row)
	}
	page.Sections = append(page.Sections, outcome, f.unknownSection())
	jobs, err := jobSection(f.runs, 0, max(f.best(), 0))
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, jobs)
	if f.asked != "" {
		page.Sections = append(page.Sections, f.decisionSection())
	}
	return page, nil
}

// unknownSection says what snapshots cannot tell, with its share.
func (f *replayed) unknownSection() report.Section {
	u, s := &f.Unknown, &f.Source
	of := func(n, all int) string {
		return fmt.Sprintf("%d of %d, %s", n, all, percent(float64(n)/float64(max(1, all))))
	}
	rows := [][]string{
		{"jobs still running at the end", of(u.StillRunning, u.Jobs), "They take part in every simulation with the work that was told to be left, and are in no figure."},
		{"jobs there at the beginning", of(u.AtBegin, u.Jobs), "Their times count from the beginning of the recording."},
		{"jobs that left before a snapshot showed them with nodes", of(u.Withdrawn, u.Jobs), "They were withdrawn, or began and ended between two snapshots. Left out."},
		{"jobs that never fit the pool", of(u.NeverFit, u.Jobs), "Left out."},
		{"jobs whose id another had before", of(u.IDsReused, u.Jobs), "Jobs of their own, as they are younger than the one before was; a number follows the id."},
		{"jobs that a snapshot between two lacks", of(u.Absent, u.Jobs), "They count as if it had shown them like the one before."},
		{"submissions not told", of(u.SubmissionUnknown, u.Jobs), "waiting_time and training_time are unset: the job counts as submitted when a snapshot first shows it."},
		{"changes of nodes that no answer explains", fmt.Sprint(u.UnseenChanges), "They happened between two snapshots, and count as in the middle."},
		{"time between snapshots", fmt.Sprintf("median %.0f s, 95th percentile %.0f s, longest %.0f s", u.GapSeconds.Median, u.GapSeconds.P95, u.GapSeconds.Max), "Nothing is known of what happens in between."},
		{
			"ends of jobs, known to within", fmt.Sprintf("median %.0f s, 95th percentile %.0f s, longest %.0f s", u.EndWithinSeconds.Median, u.EndWithinSeconds.P95, u.EndWithinSeconds.Max),
			"Between the two snapshots the remaining ETA says when; a job that ended before it, ended at the later one.",
		},
		{"gaps of more than three steps", fmt.Sprintf("%d, %s of the time", u.LongGaps, percent(u.LongGapShare)), "The scheduler did not ask, or the server did not record."},
		{"answers that would change a job's nodes, carried out", of(u.CarriedOut, u.Changes), "Few in shadow mode, where the scheduler acts on none."},
		{"calls that were refused, or got no answer", of(s.Refused+s.Unanswered, s.Calls), "What was refused is left out."},
		{"calls of other callers or methods", of(s.OtherCallers+s.OtherMethods, s.Calls), "Left out."},
		{"files that cannot be read to their end", fmt.Sprint(len(s.Cut)), "A server still wrote them, or was killed, or they are damaged. Read up to there."},
		{"times that the clock was set back", fmt.Sprint(len(s.ClockSetBack)), "What was recorded of the time that came again is mixed up."},
	}
	least, most := 1.0, 0.0
	for _, d := range f.details[1:] {
		least, most = min(least, d.UnseenSizeShare), max(most, d.UnseenSizeShare)
	}
	if least <= most {
		rows = append(rows, []string{
			"node hours on sizes that a job was never seen on", fmt.Sprintf("%s to %s, by policy", percent(least), percent(most)),
			"Their speeds are what the scheduler told.",
		})
	}
	return report.Section{
		Name: "unknown", Title: "What the recording cannot tell",
		Tables: []report.Table{{Header: []string{"", "how many", "what that means"}, Rows: rows, TextColumns: []int{1, 2}}},
	}
}

// mostMoments and mostDifferences limit what the page shows of decisions.csv.
const (
	mostMoments     = 10
	mostDifferences = 12
)

// decisionSection shows where a policy would have decided otherwise.
func (f *replayed) decisionSection() report.Section {
	same := 0
	for i := range f.moments {
		if len(f.moments[i].Differences) == 0 {
			same++
		}
	}
	section := report.Section{
		Name: "decisions", Title: "Decisions",
		Text: []string{fmt.Sprintf("%s, asked about each of %d recorded snapshots as it was, gives every job what it then held at %d. "+
			"Below are the decisions where the most nodes are elsewhere; decisions.csv has all.", f.asked, len(f.moments), same)},
	}
	for _, m := range f.largest {
		table := report.Table{
			Title: fmt.Sprintf("%s, snapshot %s: %d of %d jobs get other nodes, %d nodes are elsewhere; idle: really %d, %s %d",
				m.Time.UTC().Format("01-02 15:04:05"), m.SnapshotID, len(m.Differences), m.Jobs, m.Moved(), m.IdleRecorded, f.asked, m.IdlePolicy),
			Header: []string{"job", "before", "recorded", "answered", f.asked, "why"}, TextColumns: []int{5},
		}
		for _, d := range m.Differences[:min(mostDifferences, len(m.Differences))] {
			answered := fmt.Sprint(d.Answered)
			if d.Answered < 0 {
				answered = ""
			}
			table.Rows = append(table.Rows, []string{
				d.JobID, fmt.Sprint(d.Before), fmt.Sprint(d.Recorded), answered, fmt.Sprint(d.Policy), d.Why,
			})
		}
		if more := len(m.Differences) - mostDifferences; more > 0 {
			table.Rows = append(table.Rows, []string{fmt.Sprintf("and %d more", more), "", "", "", "", ""})
		}
		section.Tables = append(section.Tables, table)
	}
	return section
}

// totalTimes draws the mean total time of runs on one pool.
func totalTimes(runs []*sim.Result, unit string) (figures.Named, error) {
	var names []string
	var values []float64
	for _, run := range runs {
		summary := sim.Summarize(run, 0)
		names, values = append(names, run.Policy), append(values, summary.MeanTotalSeconds)
	}
	if unit == "min" {
		for i := range values {
			values[i] /= 60
		}
	}
	figure, err := figures.Bars("Mean time from submission to end", unit, names, values)
	return figures.Named{Name: "total_time_by_policy", Figure: figure}, err
}

// jobSection draws single jobs: those of two runs, and the slowdown in all, by length.
func jobSection(runs []*sim.Result, before, after int) (report.Section, error) {
	slowdown, err := figures.SlowdownByLength(runs...)
	gantt := []*sim.Result{runs[before]}
	if after != before {
		gantt = append(gantt, runs[after])
	}
	return report.Section{
		Name: "jobs", Title: "Jobs",
		Text:    []string{"Slowdown is the total time by what the job would have taken alone in the pool."},
		Figures: []figures.Named{{Name: "jobs", Figure: figures.Gantt(gantt...), Wide: true}, {Name: "slowdown_by_length", Figure: slowdown}},
	}, err
}
