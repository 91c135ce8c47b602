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
	"github.com/elastalloc/elastalloc/sim"
)

// The names of files.
const (
	replayName    = "replay.json"
	decisionsName = "decisions.csv"
)

// Replayed is what came of a replay.
type Replayed struct {
	*replay.Replay
	// Runs are recorded and the policies', of the jobs compared, and Details are as many.
	Runs    []*sim.Result
	Details []Detail
	Summary results.Summary
	// DecisionPolicy is the policy that Moments compares with the recorded decisions; Largest are those
	// of them with the most nodes elsewhere.
	DecisionPolicy   string
	Moments, Largest []replay.MomentDifference
	Origin           results.Origin
}

// Detail is what is known of a policy beside its summary. Field names are those of
// replay.json.
type Detail struct {
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
		files[decisionsName] = replay.DecisionsCSV(f.DecisionPolicy, f.Moments)
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
		s.IdleNodeHours, s.Utilization = sim.Share(f.Details[i].IdleNodeHours), sim.Share(1-f.Details[i].IdleNodeHours/hours)
		s.PoolTooSmall = false // The pool is that of the recording.
	}
	f.Summary.Conclude(results.ConditionsOf(&f.Workload, f.Summary.Pools(), f.Until, 0, results.ETARecorded))
}

// best returns the run of the verdict's policy, -1 for none.
func (f *Replayed) best() int {
	if f.Summary.Verdict == nil {
		return -1
	}
	return slices.IndexFunc(f.Summary.Runs, func(s sim.Summary) bool { return s.Policy == f.Summary.Verdict.Policy })
}

// Lead is what a reader with a minute reads.
func (f *Replayed) Lead() []string {
	u, recorded := &f.Unknown, &f.Summary.Runs[0]
	in, unit := unitOf(&f.Summary)
	lines := []string{
		fmt.Sprintf("Recorded from %s for %s: %d decisions on up to %d nodes; %d of %d jobs completed meanwhile and are compared.",
			f.Source.Begin.UTC().Format("2006-01-02 15:04 UTC"), format.Span(f.Until), f.Source.Decisions, f.Config.Nodes, u.Compared, u.Jobs),
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
			fmt.Sprintf("Who would have waited under %s: %s of the jobs take over %s longer than they did; the mean JCT of the longest tenth is %s.",
				f.Summary.Verdict.Policy, percent(d.LaterThanRecorded), format.Short(f.Config.Frequency), f.longest(best)),
			fmt.Sprintf("How certain that is: %s of its node hours are on sizes that a job was never seen on, whose speeds are as the scheduler reported; %s of all jobs were still running.%s",
				percent(d.UnseenSizeShare), percent(float64(u.StillRunning)/float64(max(1, u.Jobs))), few),
		)
	}
	return lines
}

// fewJobs is how many jobs do not rank policies: one of them may decide.
const fewJobs = 100

// longest says how much earlier or later the longest tenth of the jobs ends.
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
	var names []string
	var values []float64
	for i := range f.Summary.Runs {
		total := f.Summary.Runs[i].MeanTotalSeconds
		if unit == "min" {
			total /= 60
		}
		names, values = append(names, f.Summary.Runs[i].Policy), append(values, total)
	}
	figure, err := figures.Bars("Mean job completion time", unit, names, values)
	if err != nil {
		return nil, err
	}
	page := &Page{
		Title: "What the cluster did, and what policies would have done", Lead: f.Lead(), Verdict: verdictTable(&f.Summary), Origin: f.Origin,
		Figure: figures.Named{Name: "total_time_by_policy", Figure: figure},
	}
	page.Sections = []Section{{Name: "policies", Title: "Policies", Tables: f.runTables()}, f.unknownSection()}
	shown := f.Summary.Shown()
	runs := slices.DeleteFunc(slices.Clone(f.Runs), func(run *sim.Result) bool { return !slices.Contains(shown, run.Policy) })
	best := 0
	if at := f.best(); at > 0 {
		best = slices.Index(runs, f.Runs[at])
	}
	jobs, err := jobSection(runs, 0, best, format.Node)
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, jobs)
	if f.DecisionPolicy != "" {
		page.Sections = append(page.Sections, f.decisionSection())
	}
	return page, nil
}

// unknownSection says what snapshots cannot tell, with its share.
func (f *Replayed) unknownSection() Section {
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
	for _, d := range f.Details[1:] {
		least, most = min(least, d.UnseenSizeShare), max(most, d.UnseenSizeShare)
	}
	if least <= most {
		rows = append(rows, []string{
			"node hours on sizes that a job was never seen on", fmt.Sprintf("%s to %s, by policy", percent(least), percent(most)),
			"Their speeds are what the scheduler told.",
		})
	}
	return Section{
		Name: "unknown", Title: "What the recording cannot tell",
		Tables: []Table{{Header: []string{"", "how many", "what that means"}, Rows: rows, TextColumns: []int{1, 2}}},
	}
}

// MostMoments and mostDifferences limit what the page shows of decisions.csv.
const (
	MostMoments     = 10
	mostDifferences = 12
)

// decisionSection shows where a policy would have decided otherwise.
func (f *Replayed) decisionSection() Section {
	same := 0
	for i := range f.Moments {
		if len(f.Moments[i].Differences) == 0 {
			same++
		}
	}
	section := Section{
		Name: "decisions", Title: "Decisions",
		Text: []string{fmt.Sprintf("%s, asked about each of %d recorded snapshots as it was, gives every job what it then held at %d. "+
			"Below are the decisions where the most nodes are elsewhere; decisions.csv has all.", f.DecisionPolicy, len(f.Moments), same)},
	}
	for _, m := range f.Largest {
		table := Table{
			Title: fmt.Sprintf("%s, snapshot %s: %d of %d jobs get other nodes, %d nodes are elsewhere; idle: really %d, %s %d",
				m.Time.UTC().Format("01-02 15:04:05"), m.SnapshotID, len(m.Differences), m.Jobs, m.Moved(), m.IdleRecorded, f.DecisionPolicy, m.IdlePolicy),
			Header: []string{"job", "before", "recorded", "answered", f.DecisionPolicy, "why"}, TextColumns: []int{5},
		}
		for _, d := range m.Differences[:min(mostDifferences, len(m.Differences))] {
			table.Rows = append(table.Rows, []string{
				d.JobID, d.Before.String(), d.Recorded.String(), d.Answered.String(), d.Policy.String(), d.Why,
			})
		}
		if more := len(m.Differences) - mostDifferences; more > 0 {
			table.Rows = append(table.Rows, []string{fmt.Sprintf("and %d more", more), "", "", "", "", ""})
		}
		section.Tables = append(section.Tables, table)
	}
	return section
}

// jobSection draws single jobs: those of two runs, and the slowdown in all, by length.
func jobSection(runs []*sim.Result, before, after int, unit string) (Section, error) {
	median, tail, err := figures.SlowdownByLength(runs...)
	gantt := []*sim.Result{runs[before]}
	if after != before {
		gantt = append(gantt, runs[after])
	}
	return Section{
		Name: "jobs", Title: "Jobs",
		Text:    []string{"The slowdown of a job is its completion time by its time alone in the pool."},
		Figures: append(figures.Gantt(unit, gantt...), figures.Named{Name: "slowdown_median", Figure: median}, figures.Named{Name: "slowdown_p95", Figure: tail}),
	}, err
}

// Tables lays out the runs and the verdict.
func (f *Replayed) Tables() []Table { return append(f.runTables(), verdictTable(&f.Summary)...) }

// runTables lays out the runs: how long jobs take, then at what price.
func (f *Replayed) runTables() []Table {
	in, unit := unitOf(&f.Summary)
	// Of what really happened there is nothing to say beside itself.
	detail := func(cell func(*Detail) string) func(int, *sim.Summary) string {
		return func(run int, _ *sim.Summary) string {
			if run == 0 {
				return ""
			}
			return cell(&f.Details[run])
		}
	}
	policy := column{"policy", "", func(_ int, s *sim.Summary) string { return s.Policy }}
	none := func(int) string { return "" }
	return []Table{
		tabulate(f.Summary.Runs, none, policy,
			column{"JCT", "mean job completion time, in " + unit + " like all times", func(_ int, s *sim.Summary) string { return in(s.MeanTotalSeconds) }},
			column{"unserved", "mean time without nodes, in the queue and in pauses", func(_ int, s *sim.Summary) string { return in(s.MeanUnservedSeconds) }},
			column{"p95", "the 95th percentile", func(_ int, s *sim.Summary) string { return in(s.P95TotalSeconds) }},
			column{"max", "the maximum", func(_ int, s *sim.Summary) string { return in(s.MaxTotalSeconds) }},
			column{"later", "share of jobs that take over a step longer than they did", detail(func(d *Detail) string { return percent(d.LaterThanRecorded) })}),
		tabulate(f.Summary.Runs, none, policy,
			column{"resizes", "resizes per job", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.ResizesPerJob()) }},
			column{"pauses", "resizes per job to no nodes", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.Pauses) }},
			column{"used", "utilization: share of the pool's nodes occupied within the recording", func(_ int, s *sim.Summary) string {
				return number("%.0f%%", 100*float64(s.Utilization))
			}},
			column{"idle h", "idle node hours", func(run int, _ *sim.Summary) string { return fmt.Sprintf("%.1f", f.Details[run].IdleNodeHours) }},
			column{"unseen", "share of node hours on sizes that a job was never seen on", detail(func(d *Detail) string { return percent(d.UnseenSizeShare) })},
			column{"after", "jobs that complete after the recording, when no more arrive", detail(func(d *Detail) string { return fmt.Sprint(d.EndAfterRecording) })}),
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
