package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Simulation makes the report of simulate.
func Simulation(runs []*sim.Result, summary *results.Summary, baseline string, notes []string) (*Page, error) {
	drawn, err := figures.OfRuns(runs, baseline)
	if err != nil {
		return nil, err
	}
	// The figure of what total time costs shows the total time as well.
	first := slices.IndexFunc(drawn, func(f figures.Named) bool { return f.Name == "total_time" })
	page := &Page{
		Title: "Policies on " + runs[0].Workload, Lead: append(simulationLead(runs, summary), notes...),
		Figure: drawn[first], Origin: *summary.Origin,
	}
	drawn = slices.Delete(drawn, first, first+1)

	table := Table{Header: []string{"policy", "nodes", "total", "unserved", "95th percentile", "longest", "largest slowdown", "changes per job", "later"}}
	for i := range summary.Runs {
		s := &summary.Runs[i]
		table.Rows = append(table.Rows, []string{
			s.Policy, fmt.Sprint(s.Nodes), Minutes(s.MeanTotalSeconds), Minutes(s.MeanUnservedSeconds), Minutes(s.P95TotalSeconds),
			Minutes(s.MaxTotalSeconds), fmt.Sprintf("%.1f", s.MaxSlowdown), fmt.Sprintf("%.2f", PerJob(s)), Later(s),
		})
	}
	page.Sections = append(page.Sections, Section{
		Name: "policies", Title: "Policies",
		Text: []string{"Times are in minutes. Total runs from submission to end, unserved is the part without nodes, in the queue and in pauses. " +
			"Slowdown is the total time by what the job would have taken alone in the pool. Later is the share of jobs that end later than under equal " +
			"shares (max-min)."},
		Tables: append([]Table{table, policiesTable(summary)}, teamsTables(summary)...), Figures: drawn,
	})
	smallest := slices.MinFunc(runs, func(a, b *sim.Result) int { return a.Nodes - b.Nodes }).Nodes
	var there []*sim.Result
	reference, best, least := 0, 0, math.Inf(1)
	for i, run := range runs {
		if run.Nodes != smallest {
			continue
		}
		if run.Policy == baseline {
			reference = len(there)
		}
		there = append(there, run)
		if total := summary.Runs[i].MeanTotalSeconds; total < least {
			best, least = len(there)-1, total
		}
	}
	jobs, err := jobSection(there, reference, best)
	jobs.Text = []string{fmt.Sprintf("On %d nodes, the smallest pool: the jobs of %s and of the policy with the least mean total time, and the slowdown by length under all.", smallest, baseline)}
	page.Sections = append(page.Sections, jobs)
	return page, err
}

// policiesTable says what each policy does.
func policiesTable(summary *results.Summary) Table {
	table := Table{Header: []string{"policy", "what it does"}, TextColumns: []int{0, 1}}
	for _, policy := range sim.Policies() {
		if slices.ContainsFunc(summary.Runs, func(s sim.Summary) bool { return s.Policy == policy.Name }) {
			table.Rows = append(table.Rows, []string{policy.Name, policy.Description})
		}
	}
	return table
}

// teamsTables has a table of the teams in each run, none where there are no teams.
func teamsTables(summary *results.Summary) []Table {
	if !HasTeams(*summary) {
		return nil
	}
	table := Table{
		Title:  "Teams; the last column is the mean total time by that in a partition of the team's own (" + sim.PartitionsPolicy + ")",
		Header: []string{"policy", "team", "nodes", "quota", "jobs", "total", "by partition"}, TextColumns: []int{0, 1},
	}
	for i := range summary.Runs {
		s := &summary.Runs[i]
		for _, team := range s.Teams {
			ratio := ""
			if team.ToPartition != nil {
				ratio = fmt.Sprintf("%.2f", *team.ToPartition)
			}
			table.Rows = append(table.Rows, []string{
				s.Policy, team.Team, fmt.Sprint(s.Nodes), fmt.Sprint(team.Quota), fmt.Sprint(team.Jobs), Minutes(team.MeanTotalSeconds), ratio,
			})
		}
	}
	return []Table{table}
}

// simulationLead is what a reader with a minute reads: on each pool, up to four, the policy
// with the least mean total time, beside what really happened or the best of the plain rules
// (of the others, where a plain rule is it), and what it costs.
func simulationLead(runs []*sim.Result, summary *results.Summary) []string {
	pools := poolsOf(summary)
	lines := []string{fmt.Sprintf("%d jobs on pools of %s nodes.", summary.Runs[0].Jobs, joinInts(pools))}
	const most = 4
	for _, nodes := range pools[:min(most, len(pools))] {
		var best, plain, optimising, recorded *sim.Summary
		for i := range summary.Runs {
			s := &summary.Runs[i]
			switch {
			case s.Nodes != nodes:
			case s.Policy == sim.RecordedPolicy:
				if runs[i].MostHeld() <= nodes {
					recorded = s
				}
			default:
				if best == nil || s.MeanTotalSeconds < best.MeanTotalSeconds {
					best = s
				}
				of := &optimising
				if policy, err := sim.FindPolicy(s.Policy); err == nil && !policy.Optimises() {
					of = &plain
				}
				if *of == nil || s.MeanTotalSeconds < (*of).MeanTotalSeconds {
					*of = s
				}
			}
		}
		if best == nil {
			continue // What really happened alone.
		}
		line := fmt.Sprintf("%d nodes: %s has the least mean total time, %s min", nodes, best.Policy, Minutes(best.MeanTotalSeconds))
		reference := cmp.Or(recorded, plain)
		if reference == best {
			reference = optimising
		}
		if reference != nil {
			what := "the best plain rule here, " + reference.Policy
			switch reference {
			case recorded:
				what = "what really happened"
			case optimising:
				what = "the best that optimises, " + reference.Policy
			}
			how := change(best.MeanTotalSeconds, reference.MeanTotalSeconds) + " than"
			if how == "as long than" {
				how = "as long as"
			}
			line += fmt.Sprintf(", %s %s; %.2f changes of nodes per job instead of %.2f, 95 %% of the jobs within %s min instead of %s",
				how, what,
				PerJob(best), PerJob(reference), Minutes(best.P95TotalSeconds), Minutes(reference.P95TotalSeconds))
		}
		lines = append(lines, line+".")
	}
	return lines
}

// poolsOf returns the sizes of the pools, in the order of the runs.
func poolsOf(summary *results.Summary) []int {
	var pools []int
	for i := range summary.Runs {
		if !slices.Contains(pools, summary.Runs[i].Nodes) {
			pools = append(pools, summary.Runs[i].Nodes)
		}
	}
	return pools
}

// joinInts lists numbers.
func joinInts(numbers []int) string {
	text := ""
	for i, n := range numbers {
		switch {
		case i > 0 && i == len(numbers)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	return text
}

// Notes says what a reader of the results must know of the runs: which jobs of the trace they
// leave out, such as those shorter than minDuration, and on which pools what really happened
// cannot be compared.
func Notes(runs []*sim.Result, summary *results.Summary, minDuration time.Duration) []string {
	var notes []string
	cut := summary.Cut
	if cut.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%s left out as shorter than %v", jobsAre(cut.TooShort), minDuration))
	}
	if cut.Jobs > 0 {
		notes = append(notes, fmt.Sprintf("%s cut to %d nodes, and asked for up to %d GPUs: %d GPUs are not simulated",
			jobsAre(cut.Jobs), solver.DefaultMaxNodes, cut.MostGPUs, cut.GPUs))
	}
	for _, run := range runs {
		if run.Policy != sim.RecordedPolicy {
			continue
		}
		most := run.MostHeld()
		notes = append(notes, fmt.Sprintf("%s held up to %d nodes at once, and no restart is charged to it: compare it on a pool of the size that the cluster had",
			run.Policy, most))
		if small := slices.DeleteFunc(poolsOf(summary), func(nodes int) bool { return nodes >= most }); len(small) > 0 {
			notes = append(notes, fmt.Sprintf("a pool of %s nodes is smaller, so %s cannot be compared there", joinInts(small), run.Policy))
		}
		break // It is the same on every pool.
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
