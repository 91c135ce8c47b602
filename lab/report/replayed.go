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
	// Asked is the policy that Moments compares with the recorded decisions; Largest are those
	// of them with the most nodes elsewhere.
	Asked            string
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
	if f.Asked != "" {
		files[decisionsName] = replay.DecisionsCSV(f.Asked, f.Moments)
	}
	page, err := f.page()
	if err != nil {
		return err
	}
	return page.Write(directory, files)
}

// best returns the run with the least mean total time, recorded aside; -1 for none.
func (f *Replayed) best() int {
	best := -1
	for i := 1; i < len(f.Summary.Runs); i++ {
		if best < 0 || f.Summary.Runs[i].MeanTotalSeconds < f.Summary.Runs[best].MeanTotalSeconds {
			best = i
		}
	}
	return best
}

// Lead is what a reader with a minute reads.
func (f *Replayed) Lead() []string {
	u, recorded := &f.Unknown, &f.Summary.Runs[0]
	in, unit := f.unit()
	lines := []string{
		fmt.Sprintf("Recorded from %s for %s: %d decisions on up to %d nodes; %d of %d jobs ended meanwhile and are compared.",
			f.Source.Begin.UTC().Format("2006-01-02 15:04 UTC"), format.Span(f.Until), f.Source.Decisions, f.Config.Nodes, u.Compared, u.Jobs),
		fmt.Sprintf("What really happened: a job took %s %s from submission to end on average, %s of them without nodes; %s node hours were idle.",
			in(recorded.MeanTotalSeconds), unit, in(recorded.MeanUnservedSeconds), nodeHours(f.Details[0].IdleNodeHours)),
	}
	few := ""
	if u.Compared < fewJobs {
		few = fmt.Sprintf(" Too few jobs, %d, to rank policies by.", u.Compared)
	}
	if best := f.best(); best > 0 {
		s, d := &f.Summary.Runs[best], &f.Details[best]
		lines = append(lines,
			fmt.Sprintf("%s would have taken %s %s, %s, with %.2f changes of nodes per job instead of %.2f, and %s node hours idle.",
				s.Policy, in(s.MeanTotalSeconds), unit, change(share(s.MeanTotalSeconds, recorded.MeanTotalSeconds)),
				s.RescalesPerJob(), recorded.RescalesPerJob(), nodeHours(d.IdleNodeHours)),
			fmt.Sprintf("Who would have waited: %s of the jobs take over %s longer than they did; the longest tenth is %s, 95 %% of the jobs end within %s %s instead of %s.",
				percent(d.LaterThanRecorded), format.Short(f.Config.Frequency), f.longest(best), in(s.P95TotalSeconds), unit, in(recorded.P95TotalSeconds)),
			fmt.Sprintf("How sure that is: %s of its node hours are on sizes that a job was never seen on, whose speeds are what the scheduler told; %s of all jobs were still running.%s",
				percent(d.UnseenSizeShare), percent(float64(u.StillRunning)/float64(max(1, u.Jobs))), few),
		)
	}
	return lines
}

// fewJobs is how many jobs do not rank policies: one of them may decide.
const fewJobs = 100

// unit returns how times are written, in seconds where jobs take less than ten minutes.
func (f *Replayed) unit() (write func(seconds float64) string, name string) {
	if f.Summary.Runs[0].MeanTotalSeconds < 600 {
		return func(seconds float64) string { return fmt.Sprintf("%.0f", seconds) }, "s"
	}
	return minutes, "min"
}

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

// nodeHours writes node hours for a person.
func nodeHours(h float64) string {
	if h < 10 {
		return fmt.Sprintf("%.1f", h)
	}
	return fmt.Sprintf("%.0f", h)
}

func (f *Replayed) page() (*Page, error) {
	_, unit := f.unit()
	var names []string
	var values []float64
	for i := range f.Summary.Runs {
		total := f.Summary.Runs[i].MeanTotalSeconds
		if unit == "min" {
			total /= 60
		}
		names, values = append(names, f.Summary.Runs[i].Policy), append(values, total)
	}
	figure, err := figures.Bars("Mean time from submission to end", unit, names, values)
	if err != nil {
		return nil, err
	}
	page := &Page{
		Title: "What really happened, and what would have", Lead: f.Lead(), Origin: f.Origin,
		Figure: figures.Named{Name: "total_time_by_policy", Figure: figure},
	}
	page.Sections = []Section{{Name: "policies", Title: "Policies", Tables: f.Tables()}, f.unknownSection()}
	jobs, err := jobSection(f.Runs, 0, max(f.best(), 0))
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, jobs)
	if f.Asked != "" {
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
			"Below are the decisions where the most nodes are elsewhere; decisions.csv has all.", f.Asked, len(f.Moments), same)},
	}
	for _, m := range f.Largest {
		table := Table{
			Title: fmt.Sprintf("%s, snapshot %s: %d of %d jobs get other nodes, %d nodes are elsewhere; idle: really %d, %s %d",
				m.Time.UTC().Format("01-02 15:04:05"), m.SnapshotID, len(m.Differences), m.Jobs, m.Moved(), m.IdleRecorded, f.Asked, m.IdlePolicy),
			Header: []string{"job", "before", "recorded", "answered", f.Asked, "why"}, TextColumns: []int{5},
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
func jobSection(runs []*sim.Result, before, after int) (Section, error) {
	median, tail, err := figures.SlowdownByLength(runs...)
	gantt := []*sim.Result{runs[before]}
	if after != before {
		gantt = append(gantt, runs[after])
	}
	return Section{
		Name: "jobs", Title: "Jobs",
		Text:    []string{"Slowdown is the total time by what the job would have taken alone in the pool."},
		Figures: append(figures.Gantt(gantt...), figures.Named{Name: "slowdown_median", Figure: median}, figures.Named{Name: "slowdown_p95", Figure: tail}),
	}, err
}

// Tables lays out the runs: how long jobs take, then at what price.
func (f *Replayed) Tables() []Table {
	in, unit := f.unit()
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
			column{"total", "mean time from submission to end, in " + unit + ", as all times", func(_ int, s *sim.Summary) string { return in(s.MeanTotalSeconds) }},
			column{"unserved", "the mean part of it without nodes, in the queue and in pauses", func(_ int, s *sim.Summary) string { return in(s.MeanUnservedSeconds) }},
			column{"p95", "the 95th percentile", func(_ int, s *sim.Summary) string { return in(s.P95TotalSeconds) }},
			column{"max", "the maximum", func(_ int, s *sim.Summary) string { return in(s.MaxTotalSeconds) }},
			column{"later", "share of jobs that take over a step longer than they really did", detail(func(d *Detail) string { return percent(d.LaterThanRecorded) })}),
		tabulate(f.Summary.Runs, none, policy,
			column{"rescales", "changes of nodes per job", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.RescalesPerJob()) }},
			column{"pauses", "those of them that took all nodes", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.Pauses) }},
			column{"idle h", "idle node hours", func(run int, _ *sim.Summary) string { return fmt.Sprintf("%.1f", f.Details[run].IdleNodeHours) }},
			column{"unseen", "share of node hours on sizes that a job was never seen on", detail(func(d *Detail) string { return percent(d.UnseenSizeShare) })},
			column{"after", "jobs that end after the recording, when no more come", detail(func(d *Detail) string { return fmt.Sprint(d.EndAfterRecording) })}),
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
