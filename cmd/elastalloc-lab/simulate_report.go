package main

import (
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// simulationPage makes the report of simulate.
func simulationPage(runs []*sim.Result, summary *results.Summary, baseline string) (*report.Page, error) {
	drawn, err := figures.OfRuns(runs, baseline)
	if err != nil {
		return nil, err
	}
	// The figure of what total time costs shows the total time as well.
	first := slices.IndexFunc(drawn, func(f figures.Named) bool { return f.Name == "total_time" })
	page := &report.Page{
		Title: "Policies on " + runs[0].Workload, Lead: simulationLead(summary, baseline),
		Figure: drawn[first], Origin: *summary.Origin,
	}
	drawn = slices.Delete(drawn, first, first+1)

	table := report.Table{Header: []string{"policy", "nodes", "total", "unserved", "95th percentile", "longest", "largest slowdown", "changes per job"}}
	for i := range summary.Runs {
		s := &summary.Runs[i]
		table.Rows = append(table.Rows, []string{
			s.Policy, fmt.Sprint(s.Nodes), minutes(s.MeanTotalSeconds), minutes(s.MeanUnservedSeconds), minutes(s.P95TotalSeconds),
			minutes(s.MaxTotalSeconds), fmt.Sprintf("%.1f", s.MaxSlowdown), fmt.Sprintf("%.2f", perJob(s)),
		})
	}
	page.Sections = append(page.Sections, report.Section{
		Name: "policies", Title: "Policies",
		Text: []string{"Times are in minutes. Total runs from submission to end, unserved is the part without nodes, in the queue and in pauses. " +
			"Slowdown is the total time by what the job would have taken alone in the pool."},
		Tables: []report.Table{table}, Figures: drawn,
	})
	smallest := slices.MinFunc(runs, func(a, b *sim.Result) int { return a.Nodes - b.Nodes }).Nodes
	var there []*sim.Result
	reference, best := 0, 0
	for i, run := range runs {
		if run.Nodes != smallest {
			continue
		}
		if run.Policy == baseline {
			reference = len(there)
		}
		there = append(there, run)
		if summary.Runs[i].MeanTotalSeconds < mean(there[best]) {
			best = len(there) - 1
		}
	}
	jobs, err := jobSection(there, reference, best)
	jobs.Text = []string{fmt.Sprintf("On %d nodes, the smallest pool: the jobs of %s and of the policy with the least mean total time, and the slowdown by length under all.", smallest, baseline)}
	page.Sections = append(page.Sections, jobs)
	return page, err
}

// mean returns the mean total time of a run.
func mean(run *sim.Result) float64 {
	summary := sim.Summarize(run, 0)
	return summary.MeanTotalSeconds
}

// simulationLead is what a reader with a minute reads: on each pool, up to four, the policy
// with the least mean total time, beside the baseline and with what it costs.
func simulationLead(summary *results.Summary, baseline string) []string {
	var pools []int
	for i := range summary.Runs {
		if !slices.Contains(pools, summary.Runs[i].Nodes) {
			pools = append(pools, summary.Runs[i].Nodes)
		}
	}
	lines := []string{fmt.Sprintf("%d jobs on pools of %s nodes; policies are compared with %s.", summary.Runs[0].Jobs, joinInts(pools), baseline)}
	const most = 4
	for _, nodes := range pools[:min(most, len(pools))] {
		var best, reference *sim.Summary
		for i := range summary.Runs {
			s := &summary.Runs[i]
			if s.Nodes != nodes {
				continue
			}
			if s.Policy == baseline {
				reference = s
			}
			if best == nil || s.MeanTotalSeconds < best.MeanTotalSeconds {
				best = s
			}
		}
		if reference == nil || best == reference {
			lines = append(lines, fmt.Sprintf("%d nodes: %s has the least mean total time, %s min.", nodes, best.Policy, minutes(best.MeanTotalSeconds)))
			continue
		}
		lines = append(lines, fmt.Sprintf("%d nodes: %s has the least mean total time, %s min, %s than %s; %.2f changes of nodes per job in the place of %.2f, 95 %% of the jobs within %s min in the place of %s.",
			nodes, best.Policy, minutes(best.MeanTotalSeconds), change(best.MeanTotalSeconds, reference.MeanTotalSeconds), baseline,
			perJob(best), perJob(reference), minutes(best.P95TotalSeconds), minutes(reference.P95TotalSeconds)))
	}
	return lines
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
