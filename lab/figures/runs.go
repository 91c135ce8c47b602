package figures

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// Named is a figure and the name of its files without the extension.
type Named struct {
	Name   string
	Figure *Figure
	// Wide says that the figure needs the whole width of a page.
	Wide bool
}

// measure is a measure of runs over the size of the pool. NaN is not drawn.
type measure struct {
	name, title, label string
	of                 func(*sim.Summary) float64
}

// OfRuns draws runs of policies over pools: a figure for each measure that any run has, and the
// histogram of decision times.
func OfRuns(runs []*sim.Result, summary *results.Summary) ([]Named, error) {
	const minute = 60.0
	teams := slices.ContainsFunc(summary.Runs, func(s sim.Summary) bool { return s.WorstTeam != nil })
	measures := []measure{
		{"total_time", "Total time, queueing and training", "mean total time (min)", func(s *sim.Summary) float64 { return s.MeanTotalSeconds / minute }},
		{"queueing_time", "Queueing time", "mean queueing time (min)", func(s *sim.Summary) float64 { return s.MeanQueueSeconds / minute }},
		{"unserved_time", "Time without nodes, in the queue and in pauses", "mean per job (min)", func(s *sim.Summary) float64 { return s.MeanUnservedSeconds / minute }},
		{"changes", "Changes of nodes after the start", "rescales per job", (*sim.Summary).RescalesPerJob},
		{"additional_jobs", "Additional jobs when " + summary.Baseline() + " has finished 100", "additional jobs per 100", summary.ExtraJobs},
		{"worst_team", "The worst team against its own partition", "ratio of mean total times", func(s *sim.Summary) float64 {
			if s.WorstTeam == nil {
				return math.NaN()
			}
			return *s.WorstTeam
		}},
		{"utilization", "Nodes held until the last submission", "share of the pool (%)", func(s *sim.Summary) float64 {
			if !teams {
				return math.NaN()
			}
			return 100 * float64(s.Utilization)
		}},
	}
	var named []Named
	for _, m := range measures {
		series := m.series(summary)
		if len(series) == 0 {
			continue
		}
		lines, err := Lines(m.title, "nodes in the pool", m.label, series...)
		if err != nil {
			return nil, err
		}
		named = append(named, Named{Name: m.name, Figure: lines})
	}
	var times []Sample
	for _, policy := range summary.Policies() {
		sample := Sample{Name: policy}
		for _, run := range runs {
			if run.Policy == policy {
				sample.Values = append(sample.Values, run.SolveMillis()...)
			}
		}
		times = append(times, sample)
	}
	histogram, err := DecisionTimes("Decision times", times...)
	return append(named, Named{Name: "decision_times", Figure: histogram}), err
}

// series returns the measure of every policy that has it, over the size of the pool.
func (m measure) series(summary *results.Summary) []Series {
	var list []Series
	for n, policy := range summary.Policies() {
		s := Series{Name: policy, Style: n + 1, Minor: FixedSize(policy)}
		var points [][2]float64
		for i := range summary.Runs {
			run := &summary.Runs[i]
			if y := m.of(run); run.Policy == policy && !math.IsNaN(y) {
				points = append(points, [2]float64{float64(run.Nodes), y})
			}
		}
		slices.SortFunc(points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
		for _, point := range points {
			s.X, s.Y = append(s.X, point[0]), append(s.Y, point[1])
		}
		if len(points) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// FixedSize reports whether a policy never gives a job other nodes than it asked for. Such
// rules are often far from all others.
func FixedSize(policy string) bool {
	p, err := sim.FindPolicy(policy)
	return err == nil && (p.FixedSize || p.Name == sim.RecordedPolicy)
}

// smallestSlowdown is the least slowdown that a figure shows: a recorded job may have
// been faster than alone in the pool.
const smallestSlowdown = 0.1
