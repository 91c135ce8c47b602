package figures

import (
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/sim"
)

// Named is a figure and the name of its files without the extension.
type Named struct {
	Name   string
	Figure *Figure
	// Wide says that the figure needs the whole width of a page.
	Wide bool
}

// smallestSolve is the shortest decision time, in milliseconds, that the histogram
// shows.
const smallestSolve = 0.001

// OfRuns draws runs of policies over pools: the mean queueing time, the mean total
// time, the additional jobs compared with the baseline policy if it is among the runs,
// what the total time costs in time without nodes and rescales, the slowdown of short and
// of long jobs, the histogram of decision times and, where teams and their partitions are
// among the runs, the worst team against its partition.
func OfRuns(runs []*sim.Result, baseline string) ([]Named, error) {
	var policies []string
	for _, run := range runs {
		if !slices.Contains(policies, run.Policy) {
			policies = append(policies, run.Policy)
		}
	}
	const pool = "nodes in the pool"
	const minute = 60.0
	var queue, total, extra []Series
	var times []Sample
	for n, policy := range policies {
		q, t, e := Series{Name: policy, Minor: FixedSize(policy)}, Series{Name: policy, Minor: FixedSize(policy)}, Series{Name: policy, Style: n + 1}
		sample := Sample{Name: policy}
		for _, run := range sortedByNodes(runs, policy) {
			summary, nodes := sim.Summarize(run, 0), float64(run.Nodes)
			q.X, q.Y = append(q.X, nodes), append(q.Y, summary.MeanQueueSeconds/minute)
			t.X, t.Y = append(t.X, nodes), append(t.Y, summary.MeanTotalSeconds/minute)
			sample.Values = append(sample.Values, run.SolveMillis()...)
			if reference := find(runs, baseline, run.Nodes); reference != nil {
				e.X, e.Y = append(e.X, nodes), append(e.Y, sim.Compare(run, reference).ExtraJobsPer100)
			}
		}
		queue, total, times = append(queue, q), append(total, t), append(times, sample)
		if policy != baseline && len(e.X) > 0 {
			extra = append(extra, e)
		}
	}

	var figures []Named
	add := func(name string, figure *Figure, err error) error {
		figures = append(figures, Named{Name: name, Figure: figure})
		return err
	}
	figure, err := Lines("Queueing time", pool, "mean queueing time (min)", queue...)
	if err := add("queueing_time", figure, err); err != nil {
		return nil, err
	}
	figure, err = Lines("Total time, queueing and training", pool, "mean total time (min)", total...)
	if err := add("total_time", figure, err); err != nil {
		return nil, err
	}
	if len(extra) > 0 {
		figure, err = Lines("Additional jobs when "+baseline+" has finished 100", pool, "additional jobs per 100", extra...)
		if err := add("additional_jobs", figure, err); err != nil {
			return nil, err
		}
	}
	figure, err = costs(runs, policies, pool)
	if err := add("total_time_and_changes", figure, err); err != nil {
		return nil, err
	}
	figure, err = slowdowns(runs, policies)
	if err := add("slowdown", figure, err); err != nil {
		return nil, err
	}
	if len(runs[0].Groups) > 0 && slices.Contains(policies, sim.PartitionsPolicy) {
		figure, err = worstTeams(runs, policies, pool)
		if err := add("worst_team", figure, err); err != nil {
			return nil, err
		}
	}
	figure, err = Histogram("Decision times", "time of a decision (ms)", "share of decisions (%)", smallestSolve, times...)
	if err := add("decision_times", figure, err); err != nil {
		return nil, err
	}
	return figures, nil
}

// FixedSize reports whether a policy never gives a job other nodes than it asked for. Such
// rules are often so far from all others that these could not be told apart beside them.
func FixedSize(policy string) bool {
	p, err := sim.FindPolicy(policy)
	return err == nil && (p.FixedSize || p.Name == sim.RecordedPolicy)
}

// costs draws the mean total time and, below it, the time without nodes and the rescales
// that it takes.
func costs(runs []*sim.Result, policies []string, pool string) (*Figure, error) {
	const minute = 60.0
	var panels []*Figure
	for _, panel := range []struct {
		title, label string
		of           func(*sim.Summary) float64
	}{
		{"Total time", "mean total time (min)", func(s *sim.Summary) float64 { return s.MeanTotalSeconds / minute }},
		{"Time without nodes, in the queue and in pauses", "mean per job (min)", func(s *sim.Summary) float64 {
			return s.MeanUnservedSeconds / minute
		}},
		{"Changes of nodes after the start", "rescales per job", func(s *sim.Summary) float64 {
			return float64(s.Rescales) / float64(max(1, s.Jobs))
		}},
	} {
		var series []Series
		for _, policy := range policies {
			s := Series{Name: policy, Minor: FixedSize(policy)}
			for _, run := range sortedByNodes(runs, policy) {
				summary := sim.Summarize(run, 0)
				s.X, s.Y = append(s.X, float64(run.Nodes)), append(s.Y, panel.of(&summary))
			}
			series = append(series, s)
		}
		figure, err := Lines(panel.title, pool, panel.label, series...)
		if err != nil {
			return nil, err
		}
		panels = append(panels, figure)
	}
	return stack(panels...), nil
}

// worstTeams draws the largest ratio of a team's mean total time to that in a partition of
// its own, with the utilization of the pool below it.
func worstTeams(runs []*sim.Result, policies []string, pool string) (*Figure, error) {
	var worst, held []Series
	for _, policy := range policies {
		w, h := Series{Name: policy}, Series{Name: policy}
		for _, run := range sortedByNodes(runs, policy) {
			summary := sim.Summarize(run, 0)
			if partitions := find(runs, sim.PartitionsPolicy, run.Nodes); partitions != nil {
				summary.CompareWithPartitions(partitions)
				w.X, w.Y = append(w.X, float64(run.Nodes)), append(w.Y, *summary.WorstTeam)
			}
			if !math.IsNaN(run.Utilization) {
				h.X, h.Y = append(h.X, float64(run.Nodes)), append(h.Y, 100*run.Utilization)
			}
		}
		worst = append(worst, w)
		if len(h.X) > 0 {
			held = append(held, h)
		}
	}
	above, err := Lines("The worst team against its own partition", pool, "ratio of mean total times", worst...)
	if err != nil {
		return nil, err
	}
	below, err := Lines("Nodes held until the last submission", pool, "share of the pool (%)", held...)
	if err != nil {
		return nil, err
	}
	return stack(above, below), nil
}

// slowdowns draws how the slowdown is distributed on the smallest pool: among the half of
// the jobs that are the shortest, and among the others.
func slowdowns(runs []*sim.Result, policies []string) (*Figure, error) {
	smallest := slices.MinFunc(runs, func(a, b *sim.Result) int { return a.Nodes - b.Nodes }).Nodes
	var short, long []Sample
	for _, policy := range policies {
		run := find(runs, policy, smallest)
		if run == nil {
			continue
		}
		var alone []float64
		for i := range run.Jobs {
			alone = append(alone, run.Jobs[i].Alone.Seconds())
		}
		median := sim.Quantile(alone, 0.5)
		of := []Sample{{Name: policy}, {Name: policy}}
		for i := range run.Jobs {
			half := 0
			if alone[i] > median {
				half = 1
			}
			of[half].Values = append(of[half].Values, max(run.Jobs[i].Slowdown(), smallestSlowdown))
		}
		short, long = append(short, of[0]), append(long, of[1])
	}
	const label, share = "slowdown: total time by the time alone in the pool", "share of jobs at most (%)"
	above, err := cumulative(fmt.Sprintf("Slowdown of the shorter half of the jobs, %d nodes", smallest), label, share, short...)
	if err != nil {
		return nil, err
	}
	below, err := cumulative("Slowdown of the longer half", label, share, long...)
	if err != nil {
		return nil, err
	}
	return stack(above, below), nil
}

// smallestSlowdown is the least slowdown that a figure shows: a recorded job may have
// been faster than alone in the pool.
const smallestSlowdown = 0.1

// sortedByNodes returns the runs of a policy by the size of their pools.
func sortedByNodes(runs []*sim.Result, policy string) []*sim.Result {
	var list []*sim.Result
	for _, run := range runs {
		if run.Policy == policy {
			list = append(list, run)
		}
	}
	slices.SortStableFunc(list, func(a, b *sim.Result) int { return a.Nodes - b.Nodes })
	return list
}

// find returns the run of a policy on a pool, or nil.
func find(runs []*sim.Result, policy string, nodes int) *sim.Result {
	for _, run := range runs {
		if run.Policy == policy && run.Nodes == nodes {
			return run
		}
	}
	return nil
}
