package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Simulated is what came of simulate.
type Simulated struct {
	// Runs are of policies on pools, of one workload, and Summary is theirs.
	Runs    []*sim.Result
	Summary results.Summary
	// Workload has the jobs, on nodes of GPUsPerNode; those of a trace shorter than
	// MinDuration were left out, and Disturbance is what policies were told wrong.
	Workload    sim.Workload
	GPUsPerNode int
	MinDuration time.Duration
	Disturbance sim.Disturbance
	// Pinned are the runs of Contenders with four jobs in five pinned to the nodes that they
	// asked for, by pool; empty where that was not run.
	Pinned [][2]*sim.Result
}

// Contenders returns the best policy that optimises and what it is compared with, "" for none.
func (f *Simulated) Contenders() (best, reference string) {
	reference = f.reference()
	other := func(policy string) bool { return policy != reference }
	return cmp.Or(f.best(func(policy string) bool { return other(policy) && sim.Optimises(policy) }), f.best(other)), reference
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
	page := &Page{Title: "Policies on " + f.Workload.Name, Lead: f.Lead(), Figure: drawn[0], Origin: *f.Summary.Origin}
	page.Sections = append(page.Sections, Section{
		Name: "policies", Title: "Policies",
		Tables: slices.Concat(f.Tables(), []Table{f.policiesTable()}, f.teamsTables()), Figures: drawn[1:],
	})
	smallest := slices.Min(f.Summary.Pools())
	var there []*sim.Result
	reference, best, least := 0, 0, math.Inf(1)
	for i, run := range f.Runs {
		if run.Nodes != smallest {
			continue
		}
		if run.Policy == f.Summary.Baseline() {
			reference = len(there)
		}
		if total := f.Summary.Runs[i].MeanTotalSeconds; total < least {
			best, least = len(there), total
		}
		there = append(there, run)
	}
	jobs, err := jobSection(there, reference, best)
	jobs.Text = []string{fmt.Sprintf("On %d nodes, the smallest pool: the jobs of %s and of the policy with the least mean total time, and the slowdown "+
		"by length under all.", smallest, there[reference].Policy)}
	page.Sections = append(page.Sections, jobs)
	return page, err
}

// Tables lays out the runs, a group for each pool: how long jobs take, then at what price.
func (f *Simulated) Tables() []Table {
	summary := &f.Summary
	policy := column{"policy", "", func(_ int, s *sim.Summary) string { return s.Policy }}
	times := []column{
		policy,
		{"queue", "mean time to the first nodes, in minutes, as all times of jobs", func(_ int, s *sim.Summary) string { return minutes(s.MeanQueueSeconds) }},
		{"unserved", "mean time without nodes: in the queue and in pauses", func(_ int, s *sim.Summary) string { return minutes(s.MeanUnservedSeconds) }},
		{"total", "mean time from submission to end", func(_ int, s *sim.Summary) string { return minutes(s.MeanTotalSeconds) }},
		{"p95", "its 95th percentile", func(_ int, s *sim.Summary) string { return minutes(s.P95TotalSeconds) }},
		{"max", "its maximum", func(_ int, s *sim.Summary) string { return minutes(s.MaxTotalSeconds) }},
		{"later", "share of jobs that end later than under equal shares (max-min)", func(_ int, s *sim.Summary) string {
			if s.LaterShare == nil || s.Policy == sim.MaxMinPolicy {
				return ""
			}
			return percent(*s.LaterShare)
		}},
	}
	price := []column{
		policy,
		{"slowdown", "the largest of total time by the time alone in the pool", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.1f", s.MaxSlowdown) }},
		{"rescales", "changes of nodes per job after its start", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.RescalesPerJob()) }},
		{"pauses", "those of them that took all nodes", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.Pauses) }},
		{"extra", "jobs per 100 that had ended beyond those of " + summary.Baseline(), func(_ int, s *sim.Summary) string {
			return number("%+.1f", summary.ExtraJobs(s))
		}},
		{"proven", "share of decisions that are proven optimal", func(_ int, s *sim.Summary) string { return number("%.2f %%", s.ProvenPercent()) }},
		{"time", "the median of what a decision took", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f ms", s.SolveMillis.Median) }},
	}
	if f.hasTeams() {
		times = append(times, column{"held", "share of the pool's nodes held until the last submission", func(_ int, s *sim.Summary) string {
			return number("%.0f %%", 100*float64(s.Utilization))
		}})
		price = append(price, column{"team", "the worst team: its mean total time by the one under " + sim.PartitionsPolicy, func(_ int, s *sim.Summary) string {
			if s.WorstTeam == nil {
				return ""
			}
			return number("%.2f", *s.WorstTeam)
		}})
	}
	if summary.Runs[0].NodeTypes != nil {
		price = append(price, column{"moves", "those that changed the node type as well", func(_ int, s *sim.Summary) string { return fmt.Sprintf("%.2f", s.Moves) }})
	}
	heading := func(run int) string {
		if run > 0 && summary.Runs[run].Nodes == summary.Runs[run-1].Nodes {
			return ""
		}
		return format.Count(summary.Runs[run].Nodes, "node")
	}
	tables := []Table{tabulate(summary.Runs, heading, times...), tabulate(summary.Runs, heading, price...)}
	if summary.Runs[0].NodeTypes != nil {
		tables = append(tables, f.typesTable())
	}
	return tables
}

func (f *Simulated) policiesTable() Table {
	table := Table{Header: []string{"policy", "what it does"}, TextColumns: []int{1}}
	for _, policy := range sim.Policies() {
		if slices.Contains(f.Summary.Policies(), policy.Name) {
			table.Rows = append(table.Rows, []string{policy.Name, policy.Description})
		}
	}
	return table
}

func (f *Simulated) hasTeams() bool { return len(f.Summary.Runs[0].Teams) > 0 }

// teamsTables has a table of the teams in each run, none where there are no teams.
func (f *Simulated) teamsTables() []Table {
	if !f.hasTeams() {
		return nil
	}
	table := Table{
		Title:  "Teams; the last column is the mean total time by that in a partition of the team's own (" + sim.PartitionsPolicy + ")",
		Header: []string{"policy", "team", "nodes", "quota", "jobs", "total", "by partition"}, TextColumns: []int{1},
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
		Title:  "Node types until the last submission; one more: the hours of jobs that one more node would save in a day, at the prices of the decisions",
		Header: []string{"policy", "type", "nodes", "held", "idle", "one more"}, TextColumns: []int{1},
	}
	for i := range f.Summary.Runs {
		s := &f.Summary.Runs[i]
		for _, t := range s.NodeTypes {
			table.Rows = append(table.Rows, []string{
				s.Policy, t.ID, fmt.Sprint(t.Nodes), number("%.0f %%", 100*float64(t.Utilization)), number("%.1f", float64(t.IdleNodes)),
				number("%.1f h", t.JobHoursADay()),
			})
		}
	}
	return table
}

// Lead says what the best policy that optimises brings, who loses, and what is assumed.
func (f *Simulated) Lead() []string {
	lines := []string{fmt.Sprintf("%s on pools of %s nodes.", format.Count(len(f.Workload.Jobs), "job"), joined(f.Summary.Pools()))}
	if best, reference := f.Contenders(); best != "" && reference != "" {
		lines = append(lines, f.verdict(best, reference)...)
	}
	return append(append(lines, f.assumptions()), f.notes()...)
}

// best returns the policy of those that suit with the least mean total time over the pools, in
// ratios; "" for none.
func (f *Simulated) best(suits func(policy string) bool) string {
	best, least := "", math.Inf(1)
	for _, policy := range f.Summary.Policies() {
		if policy == sim.RecordedPolicy || !suits(policy) {
			continue
		}
		if total := sim.Mean(f.of(policy, "", func(s, _ *sim.Summary) float64 { return math.Log(s.MeanTotalSeconds) })); total < least {
			best, least = policy, total
		}
	}
	return best
}

// reference returns what the best policy is compared with: equal shares, else the best plain
// rule, else the baseline.
func (f *Simulated) reference() string {
	policies := f.Summary.Policies()
	if slices.Contains(policies, sim.MaxMinPolicy) {
		return sim.MaxMinPolicy
	}
	if rule := f.best(func(policy string) bool { return !sim.Optimises(policy) }); rule != "" {
		return rule
	}
	return f.Summary.Baseline()
}

// of returns a measure of a policy on every pool beside another.
func (f *Simulated) of(policy, reference string, measure func(s, reference *sim.Summary) float64) []float64 {
	var values []float64
	for _, nodes := range f.Summary.Pools() {
		values = append(values, measure(f.Summary.Run(policy, nodes), f.Summary.Run(reference, nodes)))
	}
	return values
}

// verdict says what a policy brings against another, and who loses by it, over all pools.
func (f *Simulated) verdict(best, reference string) []string {
	name := reference
	if reference == sim.MaxMinPolicy {
		name = "equal shares (" + reference + ")"
	}
	total := func(s, r *sim.Summary) float64 { return share(s.MeanTotalSeconds, r.MeanTotalSeconds) }
	pauses := func(s, _ *sim.Summary) float64 { return s.Pauses }
	verdict := fmt.Sprintf("%s against %s: the mean total time is %s", best, name, change(f.of(best, reference, total)...))
	if slices.Max(f.of(best, "", pauses)) > 0 {
		if calm := f.best(func(policy string) bool {
			return policy != reference && sim.Optimises(policy) && slices.Max(f.of(policy, "", pauses)) == 0
		}); calm != "" {
			verdict += fmt.Sprintf("; under %s, which pauses no job, %s", calm, change(f.of(calm, reference, total)...))
		}
	}
	var others []string
	for _, policy := range f.Summary.Policies() {
		if at := f.lower(policy, best); policy != sim.RecordedPolicy && len(at) > 0 {
			others = append(others, fmt.Sprintf("%s is lower on %s", policy, joined(at)))
		}
	}
	if len(others) > 0 {
		verdict += " (" + strings.Join(others, "; ") + " nodes)"
	}
	var lose []string
	if reference == sim.MaxMinPolicy {
		lose = append(lose, fmt.Sprintf("%s %% of the jobs end later, one takes %.1f times as long",
			ranged("%.0f", f.of(best, "", func(s, _ *sim.Summary) float64 { return 100 * *s.LaterShare })...),
			slices.Max(f.of(best, "", func(s, _ *sim.Summary) float64 { return *s.WorstLater }))))
	}
	lose = append(lose,
		"the longest time is "+change(f.of(best, reference, func(s, r *sim.Summary) float64 { return share(s.MaxTotalSeconds, r.MaxTotalSeconds) })...),
		fmt.Sprintf("nodes change %s times per job instead of %s, %s of those pauses",
			ranged("%.2f", f.of(best, "", func(s, _ *sim.Summary) float64 { return s.RescalesPerJob() })...),
			ranged("%.2f", f.of(reference, "", func(s, _ *sim.Summary) float64 { return s.RescalesPerJob() })...), ranged("%.2f", f.of(best, "", pauses)...)))
	if len(f.Pinned) > 0 {
		var pinned []float64
		for _, runs := range f.Pinned {
			best, reference := sim.Summarize(runs[0], 0), sim.Summarize(runs[1], 0)
			pinned = append(pinned, total(&best, &reference))
		}
		verdict += fmt.Sprintf(". With only one job in five elastic, and the others on the nodes they asked for: %s", change(pinned...))
	}
	return []string{verdict + ".", "Who loses: " + strings.Join(lose, "; ") + "."}
}

// lower returns the pools on which a policy has a lower mean total time than another.
func (f *Simulated) lower(policy, than string) []int {
	var pools []int
	for _, nodes := range f.Summary.Pools() {
		if f.Summary.Run(policy, nodes).MeanTotalSeconds < f.Summary.Run(than, nodes).MeanTotalSeconds {
			pools = append(pools, nodes)
		}
	}
	return pools
}

// assumptions says what the jobs are taken to be.
func (f *Simulated) assumptions() string {
	elastic, largest := 0, 0
	for i := range f.Workload.Jobs {
		job := f.Workload.Jobs[i].Told()
		sizes := job.LegalSizes()
		if len(job.Speeds) > 0 {
			sizes = nil
		}
		for _, speed := range job.Speeds {
			sizes = append(sizes, speed.AllowedNodes...)
		}
		if len(sizes) > 1 {
			elastic++
			largest = max(largest, slices.Max(sizes))
		}
	}
	etas := "their ETAs are known exactly"
	switch d := &f.Disturbance; {
	case d.ETAUnknown:
		etas = "no job tells an ETA"
	case d.ETAError > 0:
		etas = fmt.Sprintf("their ETAs are told with errors of up to %s", percent(d.ETAError))
	case d.ETASigma > 0:
		etas = fmt.Sprintf("their ETAs err by a factor of %.1f, typically", math.Exp(d.ETASigma))
	}
	small := ""
	if n := f.Summary.Cut.BelowNode; n > 0 {
		small = fmt.Sprintf(", although %d asked for less than a node of %d GPUs", n, f.GPUsPerNode)
	}
	return fmt.Sprintf("Assumed: %d of %s may change nodes and train on up to %d (%d GPUs)%s; %s.",
		elastic, format.Count(len(f.Workload.Jobs), "job"), largest, largest*f.GPUsPerNode, small, etas)
}

// notes says which jobs of the trace the runs leave out, and on which pools what really
// happened cannot be compared.
func (f *Simulated) notes() []string {
	var notes []string
	cut := f.Summary.Cut
	if cut.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%s left out as shorter than %v", jobsAre(cut.TooShort), f.MinDuration))
	}
	if cut.Jobs > 0 {
		notes = append(notes, fmt.Sprintf("%s cut to %d nodes, and asked for up to %d GPUs: %d GPUs are not simulated",
			jobsAre(cut.Jobs), solver.DefaultMaxNodes, cut.MostGPUs, cut.GPUs))
	}
	at := slices.IndexFunc(f.Runs, func(run *sim.Result) bool { return run.Policy == sim.RecordedPolicy })
	if at < 0 {
		return notes
	}
	most := f.Runs[at].MostHeld() // It is the same on every pool.
	notes = append(notes, fmt.Sprintf("%s held up to %d nodes at once, and no restart is charged to it: compare it on a pool of the size that the cluster had",
		sim.RecordedPolicy, most))
	if small := slices.DeleteFunc(f.Summary.Pools(), func(nodes int) bool { return nodes >= most }); len(small) > 0 {
		notes = append(notes, fmt.Sprintf("a pool of %s nodes is smaller, so %s cannot be compared there", joined(small), sim.RecordedPolicy))
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
