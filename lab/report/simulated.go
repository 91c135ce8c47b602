package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// Simulated is the report of simulate.
type Simulated struct {
	// Runs are the runs of policies on pools, for one workload. Summary contains their measures.
	Runs    []*sim.Result
	Summary results.Summary
	// Workload is the workload for nodes with GPUsPerNode, without jobs shorter than MinDuration and
	// with Disturbance.
	Workload    sim.Workload
	GPUsPerNode int
	MinDuration time.Duration
	Disturbance sim.Disturbance
	// Machines describes the machines of the pools, "" for none.
	Machines string
	// WithoutStart is the number of jobs whose recorded start is unknown.
	WithoutStart int
	// HasEligible reports whether the trace has times from which jobs could run.
	HasEligible bool
	// External are the policies that are not built in.
	External []catalog.Policy
	// RestartTime is the time without progress after every resize.
	RestartTime time.Duration
}

// Conclude sets the verdict of the summary.
func (f *Simulated) Conclude() {
	eta := results.ETAExact
	switch d := &f.Disturbance; {
	case d.ETAUnknown:
		eta = results.ETAUnknown
	case d.ETAError > 0:
		eta = results.ETABounded
	case d.ETASigma > 0:
		eta = results.ETARandom
	}
	span := f.Workload.Span()
	if f.Summary.Runs[0].NodeTypes != nil {
		span = 0 // The load is not defined, because node types differ in speed.
	}
	f.Summary.Conclude(results.ConditionsOf(&f.Workload, f.Summary.Pools(), span, f.RestartTime, eta))
}

// Write writes the files and commits them.
func (f *Simulated) Write(directory *results.Directory) error {
	page, err := f.page()
	if err != nil {
		return err
	}
	files, err := f.Summary.Files(f.Runs)
	if err != nil {
		return err
	}
	return page.Write(directory, files)
}

func (f *Simulated) page() (*Page, error) {
	drawn, err := figures.OfRuns(f.Runs, &f.Summary)
	if err != nil {
		return nil, err
	}
	page := &Page{
		Title: "Policies on " + f.Workload.Name, Unit: f.Summary.Unit, Lead: f.Lead(),
		Verdict: slices.Concat(scenariosTable(&f.Summary), verdictTable(&f.Summary)), Figure: drawn[0], Origin: *f.Summary.Origin,
	}
	page.Sections = append(page.Sections, Section{
		Name: "policies", Title: "Policies",
		Tables: slices.Concat(f.runTables(), []Table{f.policiesTable()}, f.teamsTables()), Figures: drawn[1:],
	})
	pool, before, after := slices.Min(f.Summary.Pools()), f.Summary.Policies()[0], f.Summary.Policies()[0]
	if v := f.Summary.Verdict; v != nil {
		pool, before, after = v.ComparedWith[0].Pools[0].Nodes, v.ComparedWith[0].Policy, v.Policy
	}
	var there []*sim.Result
	for _, run := range f.Runs {
		if run.Nodes == pool && slices.Contains(f.Summary.Shown(), run.Policy) {
			there = append(there, run)
		}
	}
	position := func(policy string) int {
		return max(0, slices.IndexFunc(there, func(run *sim.Result) bool { return run.Policy == policy }))
	}
	jobs, err := jobSection(f.Summary.Shown(), there, position(before), position(after), f.Summary.Unit)
	jobs.Text = append([]string{fmt.Sprintf("On %d nodes.", pool)}, jobs.Text...)
	page.Sections = append(page.Sections, jobs)
	return page, err
}

// Tables returns the tables of the runs, of the verdict and of its scenarios.
func (f *Simulated) Tables() []Table {
	return slices.Concat(f.runTables(), verdictTable(&f.Summary), scenariosTable(&f.Summary))
}

// runTables returns the tables of the runs, grouped by pool: the times of jobs, then resizes and decisions.
func (f *Simulated) runTables() []Table {
	summary := &f.Summary
	policy := column{"policy", "", func(_ int, s *statistics.Summary) string { return s.Policy }}
	times := []column{
		policy,
		{"queue", "mean time until the first nodes, in minutes like all times of jobs",
			func(_ int, s *statistics.Summary) string { return minutes(s.MeanQueueSeconds) }},
		{"unserved", "mean time without nodes: in the queue and in pauses",
			func(_ int, s *statistics.Summary) string { return minutes(s.MeanUnservedSeconds) }},
		{"JCT", "mean job completion time, from submission to completion",
			func(_ int, s *statistics.Summary) string { return minutes(s.MeanTotalSeconds) }},
		{"p95", "its 95th percentile", func(_ int, s *statistics.Summary) string { return minutes(s.P95TotalSeconds) }},
		{"max", "its maximum", func(_ int, s *statistics.Summary) string { return minutes(s.MaxTotalSeconds) }},
		{"later", "share of jobs that complete later than under max-min fair shares (max-min)", func(_ int, s *statistics.Summary) string {
			if s.LaterShare == nil || s.Policy == catalog.MaxMin {
				return ""
			}
			return percent(*s.LaterShare)
		}},
		{"late", "share of jobs that complete later than under ideal fair shares, by over a quarter", func(_ int, s *statistics.Summary) string {
			return percent(s.LaterThanIdeal)
		}},
		{"used", "utilization: share of the pool's nodes occupied while jobs are present", func(_ int, s *statistics.Summary) string {
			return number("%.1f%%", 100*float64(s.Utilization))
		}},
	}
	price := []column{
		policy,
		{"slowdown", "the largest JCT of a job by its time alone in the pool",
			func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.1f", s.MaxSlowdown) }},
		{"resizes", "resizes per job after its start",
			func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.2f", s.ResizesPerJob()) }},
		{"pauses", "resizes per job to no nodes", func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.2f", s.Pauses) }},
		{"extra", "jobs per 100 that had completed in addition to those of " + summary.Baseline(), func(_ int, s *statistics.Summary) string {
			return number("%+.1f", summary.ExtraJobs(s))
		}},
		{"proven", "share of decisions that are proven optimal",
			func(_ int, s *statistics.Summary) string { return number("%.2f%%", s.ProvenPercent()) }},
		{"time", "median time of a decision", func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.2f ms", s.SolveMillis.Median) }},
	}
	if f.hasTeams() {
		price = append(price,
			column{"team", "the worst team: its mean JCT by the one under " + catalog.Partitions, func(_ int, s *statistics.Summary) string {
				if s.WorstTeam == nil {
					return ""
				}
				return number("%.2f", *s.WorstTeam)
			}})
	}
	if summary.Runs[0].NodeTypes != nil {
		price = append(price, column{
			"moves", "resizes per job to another node type", func(_ int, s *statistics.Summary) string { return fmt.Sprintf("%.2f", s.Moves) },
		})
	}
	if slices.ContainsFunc(summary.Runs, func(s statistics.Summary) bool { return s.Unplaced != nil }) {
		placed := func(write func(*statistics.Summary) string) func(int, *statistics.Summary) string {
			return func(_ int, s *statistics.Summary) string {
				if s.Unplaced == nil {
					return ""
				}
				return write(s)
			}
		}
		price = append(price,
			column{
				"moved", "restarts per job on other machines, without a resize",
				placed(func(s *statistics.Summary) string { return fmt.Sprintf("%.2f", *s.PlacementMoves) }),
			},
			column{"unplaced", "decisions whose jobs were reduced, because the machines had no place for them",
				placed(func(s *statistics.Summary) string { return fmt.Sprint(*s.Unplaced) })})
	}
	heading := func(run int) string {
		if run > 0 && summary.Runs[run].Nodes == summary.Runs[run-1].Nodes {
			return ""
		}
		return format.Plural(summary.Runs[run].Nodes, "node")
	}
	tables := []Table{tabulate(summary.Runs, heading, times...), tabulate(summary.Runs, heading, price...)}
	if summary.Runs[0].NodeTypes != nil {
		tables = append(tables, f.typesTable())
	}
	return tables
}

func (f *Simulated) policiesTable() Table {
	table := Table{Header: []string{"policy", "description"}, TextColumns: []int{1}}
	for _, policy := range slices.Concat(catalog.All(), f.External) {
		if slices.Contains(f.Summary.Policies(), policy.Name) {
			table.Rows = append(table.Rows, []string{policy.Name, policy.Description})
		}
	}
	return table
}

func (f *Simulated) hasTeams() bool { return len(f.Summary.Runs[0].Teams) > 0 }

// teamsTables returns a table of the teams in each run, nil if there are no teams.
func (f *Simulated) teamsTables() []Table {
	if !f.hasTeams() {
		return nil
	}
	table := Table{
		Title:  "Teams; the last column is the mean JCT by the mean JCT in a partition of the team's own (" + catalog.Partitions + ")",
		Header: []string{"policy", "team", "nodes", "quota", "jobs", "JCT", "by partition"}, TextColumns: []int{1},
	}
	for i := range f.Summary.Runs {
		s := &f.Summary.Runs[i]
		for _, team := range s.Teams {
			ratio := ""
			if team.ToPartition != nil {
				ratio = fmt.Sprintf("%.2f", *team.ToPartition)
			}
			table.Rows = append(table.Rows, []string{
				s.Policy, team.Team, fmt.Sprint(s.Nodes), fmt.Sprint(team.Quota), fmt.Sprint(team.Jobs), minutes(team.MeanTotalSeconds), ratio,
			})
		}
	}
	return []Table{table}
}

func (f *Simulated) typesTable() Table {
	table := Table{
		Title:  "Node types while jobs are present; one more: job hours that one more node would save per day, at the prices of the decisions",
		Header: []string{"policy", "type", "nodes", "used", "idle", "one more"}, TextColumns: []int{1},
	}
	for i := range f.Summary.Runs {
		s := &f.Summary.Runs[i]
		for _, t := range s.NodeTypes {
			table.Rows = append(table.Rows, []string{
				s.Policy, t.ID, fmt.Sprint(t.Nodes), number("%.0f%%", 100*float64(t.Utilization)), number("%.1f", float64(t.IdleNodes)),
				number("%.1f h", t.JobHoursPerDay()),
			})
		}
	}
	return table
}

// Lead returns the summary: the improvement by the best policy, the jobs that are slower, and the
// conditions.
func (f *Simulated) Lead() []string {
	lines := []string{
		fmt.Sprintf("%s: %s on pools of %s nodes.", f.Workload.Name, format.Plural(len(f.Workload.Jobs), "job"), joined(f.Summary.Pools())),
	}
	return slices.Concat(lines, verdict(&f.Summary, f.GPUsPerNode), f.notes())
}

// notes lists the jobs of the trace that the runs omit, and the pools on which the recorded schedule
// cannot be compared.
func (f *Simulated) notes() []string {
	var notes []string
	if f.Machines != "" {
		notes = append(notes, f.Machines)
	}
	cut := f.Summary.Cut
	if cut.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%s left out as shorter than %v.", jobsAre(cut.TooShort), f.MinDuration))
	}
	if cut.Jobs > 0 {
		notes = append(notes, fmt.Sprintf("%s simulated on fewer GPUs than requested (up to %d): %d GPUs are not simulated.",
			jobsAre(cut.Jobs), cut.MaxGPUs, cut.GPUs))
	}
	if cut.Eligible > 0 {
		notes = append(notes,
			fmt.Sprintf("%s counted from the time from which they could run (eligible_s), not from their submission.", jobsAre(cut.Eligible)))
	}
	if f.Summary.NodesTooLarge() {
		compared := ""
		if slices.Contains(f.Summary.Policies(), catalog.Recorded) {
			compared = ", so the policies are not compared with what the cluster did"
		}
		notes = append(notes,
			fmt.Sprintf("%d of %s requested less than a node and have a whole one here%s. "+
				"Count in GPUs with --gpus-per-node 1 --unit gpu and %d times the nodes.",
				cut.BelowNode, format.Plural(len(f.Workload.Jobs), "job"), compared, f.GPUsPerNode))
	}
	if f.WithoutStart > 0 && f.WithoutStart < len(f.Workload.Jobs) {
		notes = append(notes, fmt.Sprintf("start_s is empty for %d of %s, so the policies are not compared with what the cluster did.",
			f.WithoutStart, format.Plural(len(f.Workload.Jobs), "job")))
	}
	at := slices.IndexFunc(f.Runs, func(run *sim.Result) bool { return run.Policy == catalog.Recorded })
	if at < 0 {
		return notes
	}
	peak := f.Runs[at].PeakNodes() // The same for every pool.
	notes = append(notes,
		fmt.Sprintf("The cluster (%s) occupied up to %s at once, and no restarts "+
			"are charged to it. Compare it on a pool of the size that the cluster had.",
			catalog.Recorded, format.Plural(peak, "node")))
	if !f.HasEligible {
		notes = append(notes,
			"The trace has no eligible_s, so waits for dependencies and limits of users count as time in the queue of "+catalog.Recorded+".")
	}
	if small := slices.DeleteFunc(f.Summary.Pools(), func(nodes int) bool { return nodes >= peak }); len(small) > 0 {
		pools := "A pool of %s nodes is smaller, so %s cannot be compared there."
		if len(small) > 1 {
			pools = "Pools of %s nodes are smaller, so %s cannot be compared there."
		}
		notes = append(notes, fmt.Sprintf(pools, joined(small), catalog.Recorded))
	}
	return notes
}

// jobsAre counts jobs in a sentence.
func jobsAre(n int) string {
	if n == 1 {
		return "1 job is"
	}
	return fmt.Sprintf("%d jobs are", n)
}
