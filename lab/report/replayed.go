package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/replay"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// The names of files.
const (
	replayName    = "replay.json"
	decisionsName = "decisions.csv"
)

// Replayed is the report of replay.
type Replayed struct {
	*replay.Replay
	// Runs are the recorded run and the runs of policies, restricted to the compared jobs. Details has
	// an element for each run.
	Runs    []*sim.Result
	Details []Detail
	Summary results.Summary
	// DecisionPolicy is the policy whose decisions Calls compares with the recorded ones. Largest
	// contains the calls with the most moved nodes.
	DecisionPolicy string
	Calls, Largest []replay.CallDifference
	Origin         results.Origin
}

// Detail contains additional measures of a policy, as written to replay.json.
type Detail struct {
	Policy string `json:"policy"`
	// IdleNodeHours are within the recording.
	IdleNodeHours float64 `json:"idle_node_hours"`
	// LaterThanRecorded is the share of jobs that take over a step longer than recorded.
	LaterThanRecorded float64 `json:"later_than_recorded"`
	// UnseenSizeShare is the share of node hours on sizes that a job never had in the recording.
	UnseenSizeShare float64 `json:"unseen_size_share"`
	// EndAfterRecording is the number of compared jobs that complete after the recording.
	EndAfterRecording int `json:"jobs_ending_after_recording"`
}

// Write writes the files and commits them.
func (f *Replayed) Write(directory *results.Directory) error {
	f.Summary.Origin = &f.Origin
	files, err := f.Summary.Files(f.Runs)
	if err != nil {
		return err
	}
	details, err := json.MarshalIndent(struct {
		Origin   results.Origin `json:"origin"`
		Source   replay.Source  `json:"source"`
		Unknown  replay.Unknown `json:"unknown"`
		Policies []Detail       `json:"policies"`
	}{f.Origin, f.Source, f.Unknown, f.Details}, "", "  ")
	if err != nil {
		return err
	}
	files[replayName] = append(details, '\n')
	if f.DecisionPolicy != "" {
		files[decisionsName] = replay.DecisionsCSV(f.DecisionPolicy, f.Calls)
	}
	page, err := f.page()
	if err != nil {
		return err
	}
	return page.Write(directory, files)
}

// Conclude sets the verdict of the summary, whose idle node hours and utilization are those within
// the recording.
func (f *Replayed) Conclude() {
	hours := f.NodeHours()
	for i := range f.Summary.Runs {
		s := &f.Summary.Runs[i]
		s.IdleNodeHours, s.Utilization = statistics.Share(f.Details[i].IdleNodeHours), statistics.Share(1-f.Details[i].IdleNodeHours/hours)
		s.PoolTooSmall = false // The pool is that of the recording.
	}
	f.Summary.Conclude(results.ConditionsOf(&f.Workload, f.Summary.Pools(), f.Until, 0, results.ETARecorded))
}

// best returns the run of the verdict's policy, -1 for none.
func (f *Replayed) best() int {
	if f.Summary.Verdict == nil {
		return -1
	}
	return slices.IndexFunc(f.Summary.Runs, func(s statistics.Summary) bool { return s.Policy == f.Summary.Verdict.Policy })
}

// Lead returns the summary.
func (f *Replayed) Lead() []string {
	u, recorded := &f.Unknown, &f.Summary.Runs[0]
	in, unit := unitOf(&f.Summary)
	lines := []string{
		fmt.Sprintf("Recorded from %s for %s: %d decisions on up to %d nodes; %d of %d jobs completed meanwhile and are compared.",
			f.Source.Begin.UTC().Format("2006-01-02 15:04 UTC"), format.CoarseDuration(f.Until),
			f.Source.Decisions, f.Config.Nodes, u.Compared, u.Jobs),
		fmt.Sprintf("What the cluster did (recorded): the mean job completion time (JCT) is %s %s, of which %s %s are without nodes.",
			in(recorded.MeanTotalSeconds), unit, in(recorded.MeanUnservedSeconds), unit),
	}
	lines = append(lines, verdict(&f.Summary, 0)...)
	few := ""
	if u.Compared < fewJobs {
		few = fmt.Sprintf(" Too few jobs, %d, to rank policies by.", u.Compared)
	}
	if best := f.best(); best > 0 {
		d := &f.Details[best]
		lines = append(lines,
			fmt.Sprintf("Slower jobs under %s: %s of the jobs take over %s longer than they did; the mean JCT of the longest tenth is %s.",
				f.Summary.Verdict.Policy, percent(d.LaterThanRecorded), format.ShortDuration(f.Config.Frequency), f.longest(best)),
			fmt.Sprintf("Uncertainty: %s of its node hours are on sizes that a job never had in the "+
				"recording, with speeds as reported by the scheduler; %s of all jobs were still running.%s",
				percent(d.UnseenSizeShare), percent(float64(u.StillRunning)/float64(max(1, u.Jobs))), few),
		)
	}
	return lines
}

// fewJobs is the number of jobs below which a single job may determine the ranking of policies.
const fewJobs = 100

// longest describes the change of the mean JCT of the longest tenth of the jobs.
func (f *Replayed) longest(i int) string {
	recorded, run := f.Runs[0], f.Runs[i]
	type times struct{ alone, was, is time.Duration }
	order := make([]times, len(run.Jobs))
	for n := range order {
		order[n] = times{run.Jobs[n].Alone, recorded.Jobs[n].TotalTime(), run.Jobs[n].TotalTime()}
	}
	slices.SortStableFunc(order, func(a, b times) int { return cmp.Compare(b.alone, a.alone) })
	var was, is time.Duration
	for _, job := range order[:max(1, len(order)/10)] {
		was, is = was+job.was, is+job.is
	}
	return change(share(is.Seconds(), was.Seconds()))
}

func (f *Replayed) page() (*Page, error) {
	_, unit := unitOf(&f.Summary)
	shown := f.Summary.Shown()
	var bars []figures.Series
	for i := range f.Summary.Runs {
		total := f.Summary.Runs[i].MeanTotalSeconds
		if unit == "min" {
			total /= 60
		}
		policy := f.Summary.Runs[i].Policy
		style := slices.Index(shown, policy) + 1
		if style == 0 { // After the policies of other figures.
			style = len(shown) + i + 1
		}
		bars = append(bars, figures.Series{Name: policy, Y: []float64{total}, Style: style})
	}
	figure, err := figures.Bars("Mean job completion time", unit, bars)
	if err != nil {
		return nil, err
	}
	page := &Page{
		Title: "What the cluster did, and what policies would have done", Lead: f.Lead(), Verdict: verdictTable(&f.Summary), Origin: f.Origin,
		Figure: figures.Named{Name: "total_time_by_policy", Figure: figure},
	}
	page.Sections = []Section{{Name: "policies", Title: "Policies", Tables: f.runTables()}, f.unknownSection()}
	runs := slices.DeleteFunc(slices.Clone(f.Runs), func(run *sim.Result) bool { return !slices.Contains(shown, run.Policy) })
	best := 0
	if at := f.best(); at > 0 {
		best = slices.Index(runs, f.Runs[at])
	}
	jobs, err := jobSection(shown, runs, 0, best, format.Node)
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, jobs)
	if f.DecisionPolicy != "" {
		page.Sections = append(page.Sections, f.decisionSection())
	}
	return page, nil
}

// unknownSection lists the unknown facts with their shares.
func (f *Replayed) unknownSection() Section {
	u, s := &f.Unknown, &f.Source
	of := func(n, all int) string {
		return fmt.Sprintf("%d of %d, %s", n, all, percent(float64(n)/float64(max(1, all))))
	}
	rows := [][]string{
		{"jobs still running at the end", of(u.StillRunning, u.Jobs),
			"They are part of every simulation with the reported remaining work, and of no figure."},
		{"jobs in the first snapshot", of(u.AtBegin, u.Jobs), "Their times start at the beginning of the recording."},
		{"jobs that disappeared before a snapshot with nodes", of(u.Withdrawn, u.Jobs),
			"They were withdrawn, or started and completed between two snapshots. Omitted."},
		{"jobs that never fit the pool", of(u.NeverFit, u.Jobs), "Omitted."},
		{"jobs with the ID of an earlier job", of(u.IDsReused, u.Jobs),
			"Separate jobs, because they are younger than the earlier job. Their ID has a number appended."},
		{"jobs missing in a snapshot between two others", of(u.Absent, u.Jobs), "They are assumed to be unchanged since the previous snapshot."},
		{"unknown submissions", of(u.SubmissionUnknown, u.Jobs),
			"waiting_time and training_time are unset. The first snapshot with the job counts as its submission."},
		{"resizes that no response explains", fmt.Sprint(u.UnseenChanges), "They are assumed in the middle between two snapshots."},
		{"time between snapshots", fmt.Sprintf("median %.0f s, 95th percentile %.0f s, longest %.0f s",
			u.GapSeconds.Median, u.GapSeconds.P95, u.GapSeconds.Max), "Changes within this time are not known exactly."},
		{
			"uncertainty of completion times",
			fmt.Sprintf("median %.0f s, 95th percentile %.0f s, longest %.0f s",
				u.EndWithinSeconds.Median, u.EndWithinSeconds.P95, u.EndWithinSeconds.Max),
			"Between the two snapshots, the time follows from the remaining ETA. A " +
				"job that completed earlier counts as completed at the later snapshot.",
		},
		{"gaps of more than three steps", fmt.Sprintf("%d, %s of the time", u.LongGaps, percent(u.LongGapShare)),
			"The scheduler made no calls, or the server did not record."},
		{"assigned resizes that were applied", of(u.CarriedOut, u.Changes), "Few in shadow mode, in which the scheduler applies no decisions."},
		{"calls that were refused or failed", of(s.Refused+s.Unanswered, s.Calls), "Refused calls are omitted."},
		{"calls of other callers or methods", of(s.OtherCallers+s.OtherMethods, s.Calls), "Omitted."},
		{"incomplete files", fmt.Sprint(len(s.Cut)),
			"A server was still writing, was killed, or the file is damaged. The readable part is used."},
		{"times that the clock was set back", fmt.Sprint(len(s.ClockSetBack)), "Calls within the repeated time are in the wrong order."},
	}
	least, most := 1.0, 0.0
	for _, d := range f.Details[1:] {
		least, most = min(least, d.UnseenSizeShare), max(most, d.UnseenSizeShare)
	}
	if least <= most {
		rows = append(rows, []string{
			"node hours on sizes that a job never had", fmt.Sprintf("%s to %s, by policy", percent(least), percent(most)),
			"Their speeds are as reported by the scheduler.",
		})
	}
	return Section{
		Name: "unknown", Title: "Unknown facts",
		Tables: []Table{{Header: []string{"", "how many", "meaning"}, Rows: rows, TextColumns: []int{1, 2}}},
	}
}

// MaxCalls and maxDifferences limit the part of decisions.csv on the page.
const (
	MaxCalls       = 10
	maxDifferences = 12
)

// decisionSection shows the differences between the decisions of a policy and the recorded schedule.
func (f *Replayed) decisionSection() Section {
	same := 0
	for i := range f.Calls {
		if len(f.Calls[i].Differences) == 0 {
			same++
		}
	}
	section := Section{
		Name: "decisions", Title: "Decisions",
		Text: []string{fmt.Sprintf("For each of %[2]d recorded snapshots, the decision of "+
			"%[1]s is compared with the allocations after the snapshot. They are equal for %[3]d. "+
			"Below are the decisions with the most moved nodes. decisions.csv contains all.", f.DecisionPolicy, len(f.Calls), same)},
	}
	for _, m := range f.Largest {
		table := Table{
			Title: fmt.Sprintf("%s, snapshot %s: %d of %d jobs have other allocations, %d nodes are moved; idle nodes: recorded %d, %s %d",
				m.Time.UTC().Format("01-02 15:04:05"), m.SnapshotID, len(m.Differences),
				m.Jobs, m.Moved(), m.IdleRecorded, f.DecisionPolicy, m.IdlePolicy),
			Header: []string{"job", "before", "recorded", "assigned", f.DecisionPolicy, "why"}, TextColumns: []int{5},
		}
		for _, d := range m.Differences[:min(maxDifferences, len(m.Differences))] {
			table.Rows = append(table.Rows, []string{
				d.JobID, d.Before.String(), d.Recorded.String(), d.Assigned.String(), d.Policy.String(), d.Why,
			})
		}
		if more := len(m.Differences) - maxDifferences; more > 0 {
			table.Rows = append(table.Rows, []string{fmt.Sprintf("and %d more", more), "", "", "", "", ""})
		}
		section.Tables = append(section.Tables, table)
	}
	return section
}

// jobSection shows the jobs of two runs as Gantt charts, and nodes over time and the slowdown by length for all runs. The
// positions of policies are those of all figures.
func jobSection(policies []string, runs []*sim.Result, before, after int, unit string) (Section, error) {
	median, tail, err := figures.SlowdownByLength(policies, runs...)
	used, waiting := figures.OverTime(policies, unit, runs...)
	gantt := []*sim.Result{runs[before]}
	if after != before {
		gantt = append(gantt, runs[after])
	}
	return Section{
		Name: "jobs", Title: "Jobs",
		Text: []string{"The slowdown of a job is its completion time by its time alone in the pool."},
		Figures: append(figures.Gantt(unit, gantt...),
			figures.Named{Name: "nodes_over_time", Figure: used}, figures.Named{Name: "queue_over_time", Figure: waiting},
			figures.Named{Name: "slowdown_median", Figure: median}, figures.Named{Name: "slowdown_p95", Figure: tail}),
	}, err
}

// Tables lays out the runs and the verdict.
func (f *Replayed) Tables() []Table { return append(f.runTables(), verdictTable(&f.Summary)...) }

// runTables lays out the runs: how long jobs take, then at what price.
func (f *Replayed) runTables() []Table {
	in, unit := unitOf(&f.Summary)
	// The recorded run has no differences from itself.
	detail := func(cell func(*Detail) string) func(int, *statistics.Summary) string {
		return func(run int, _ *statistics.Summary) string {
			if run == 0 {
				return ""
			}
			return cell(&f.Details[run])
		}
	}
	policy := column{"policy", "", func(_ int, s *statistics.Summary) string { return s.Policy }}
	none := func(int) string { return "" }
	return []Table{
		tabulate(f.Summary.Runs, none, policy,
			column{
				"JCT", "mean job completion time, in " + unit + " like all times",
				func(_ int, s *statistics.Summary) string { return in(s.MeanTotalSeconds) },
			},
			column{
				"unserved", "mean time without nodes, in the queue and in pauses",
				func(_ int, s *statistics.Summary) string { return in(s.MeanUnservedSeconds) },
			},
			column{"p95", "the 95th percentile", func(_ int, s *statistics.Summary) string { return in(s.P95TotalSeconds) }},
			column{"max", "the maximum", func(_ int, s *statistics.Summary) string { return in(s.MaxTotalSeconds) }},
			column{"later", "share of jobs that take over a step longer than they did",
				detail(func(d *Detail) string { return percent(d.LaterThanRecorded) })}),
		tabulate(f.Summary.Runs, none, policy,
			column{"resizes", "resizes per job", func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.2f", s.ResizesPerJob()) }},
			column{"pauses", "resizes per job to no nodes", func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.2f", s.Pauses) }},
			column{"used", "utilization: share of the pool's nodes occupied within the recording", func(_ int, s *statistics.Summary) string {
				return number("%.0f%%", 100*float64(s.Utilization))
			}},
			column{
				"idle h", "idle node hours", func(run int, _ *statistics.Summary) string { return fmt.Sprintf("%.1f", f.Details[run].IdleNodeHours) },
			},
			column{
				"unseen", "share of node hours on sizes that a job never had", detail(func(d *Detail) string { return percent(d.UnseenSizeShare) }),
			},
			column{"after", "jobs that complete after the recording, when no more arrive",
				detail(func(d *Detail) string { return fmt.Sprint(d.EndAfterRecording) })}),
	}
}

// DetailOf works out what replay.json has on a policy.
func DetailOf(r *replay.Replay, policy string, run, recorded *sim.Result) Detail {
	d := Detail{
		Policy: policy, IdleNodeHours: r.IdleNodeHours(run),
		UnseenSizeShare: r.UnseenSizeShare(run), EndAfterRecording: r.EndsAfter(run),
	}
	compared := r.Compared(run)
	later := 0
	for i := range compared.Jobs {
		if compared.Jobs[i].TotalTime() > recorded.Jobs[i].TotalTime()+r.Config.Frequency {
			later++
		}
	}
	d.LaterThanRecorded = float64(later) / float64(max(1, len(compared.Jobs)))
	return d
}
