package figures

import (
	"slices"

	"github.com/elastalloc/elastalloc/sim"
)

// Named is a figure and the name of its files without the extension.
type Named struct {
	Name   string
	Figure *Figure
}

// smallestSolve is the shortest decision time, in milliseconds, that the histogram
// shows.
const smallestSolve = 0.001

// OfRuns draws runs of policies over pools: the mean queueing time, the mean total
// time, the additional jobs compared with the baseline policy if it is among the runs,
// and the histogram of decision times.
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
	for _, policy := range policies {
		q, t, e := Series{Name: policy}, Series{Name: policy}, Series{Name: policy}
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
	figure, err = Histogram("Decision times", "time of a decision (ms)", "share of decisions (%)", smallestSolve, times...)
	if err := add("decision_times", figure, err); err != nil {
		return nil, err
	}
	return figures, nil
}

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
