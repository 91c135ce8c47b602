package experiments

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/elastalloc/elastalloc/lab/figures"
)

// What the paper says of its decision times, in milliseconds.
const paperMean, paperMedian, paperP95, paperMax = 400.0, 240.0, 1490.0, 2480.0

// timing returns the decision times of a source.
func (f *Findings) timing(source Source) *Timing {
	for i := range f.timings {
		if f.timings[i].Source == source {
			return &f.timings[i]
		}
	}
	return new(Timing)
}

func (f *Findings) decisionTimes() Experiment {
	const smallest = 0.001
	millis := func(ms float64) string { return rounded(ms, 2) }
	e := Experiment{
		Name: "decision-times", Title: "Decision times",
		Setup: fmt.Sprintf("The decisions of optimal in the baseline at %d nodes, by the report's solve time. "+
			"These runs are made first and one at a time, so that none of this command's disturbs another; "+
			"whatever else the machine does is in them.", f.pools[0]),
		Paper: "Mean 0.40 s, median 0.24 s, 95th percentile 1.49 s, maximum 2.48 s at 70 nodes (CBC, i7-8700K).",
		PaperNumbers: map[string]float64{
			"mean_ms": paperMean, "median_ms": paperMedian, "p95_ms": paperP95, "max_ms": paperMax,
		},
		Timings: f.timings,
		Ours: f.ours(func(s Source) string {
			t := f.timing(s)
			return fmt.Sprintf("mean %s ms, median %s ms, 95th percentile %s ms, 99th %s ms, maximum %s ms over %d decisions",
				millis(t.Mean), millis(t.Median), millis(t.P95), millis(t.P99), millis(t.Max), t.Decisions)
		}),
		table: table{Header: []string{"", "mean (ms)", "median (ms)", "p95 (ms)", "p99 (ms)", "max (ms)"}},
	}
	e.table.Rows = [][]string{{"the paper", millis(paperMean), millis(paperMedian), millis(paperP95), "", millis(paperMax)}}
	var samples []figures.Sample
	for _, s := range f.sources() {
		t := f.timing(s)
		e.table.Rows = append(e.table.Rows,
			[]string{string(s), millis(t.Mean), millis(t.Median), millis(t.P95), millis(t.P99), millis(t.Max)})
		samples = append(samples, figures.Sample{Name: string(s), Values: t.millis})
	}
	e.figures = []drawing{{"decision-times", func() (*figures.Figure, error) {
		return figures.Histogram(fmt.Sprintf("Decision times of optimal, %d nodes", f.pools[0]),
			"time of a decision (ms)", "share of decisions (%)", smallest, samples...)
	}}}
	e.Difference = sentence("the paper's mean is %s; its solver and its machine are others, "+
		"so that is no comparison of methods alone", f.eachSource(func(s Source) string {
		t := f.timing(s)
		if t.Mean == 0 {
			return "beyond measure"
		}
		return rounded(paperMean/t.Mean, 0) + " times ours"
	}))
	return e
}

// effect is what a policy changes against optimal, pool by pool.
type effect struct{ queue, total, rescales []float64 }

// effect returns what a policy changes against optimal in the baseline: the
// queueing time in minutes, the total time as a share, and rescales as a factor.
func (f *Findings) effect(policy string, source Source) effect {
	of := func(policy string, measure func(*Row) Number) []float64 {
		return means(f.over(baselineSetting, source, policy, measure))
	}
	factors := changes(of(policy, rescales), of(optimalPolicy, rescales))
	for i := range factors {
		factors[i]++
	}
	return effect{
		queue:    differences(of(policy, queueMinutes), of(optimalPolicy, queueMinutes)),
		total:    changes(of(policy, totalMinutes), of(optimalPolicy, totalMinutes)),
		rescales: factors,
	}
}

// String says what is changed.
func (e effect) String() string {
	factor := func(v float64) string { return rounded(v, 2) }
	return fmt.Sprintf("queueing time %s min, total time %s, rescales times %s",
		spanned(e.queue, signed), spanned(e.total, signedPercent), spanned(e.rescales, factor))
}

// lowerTotals says where the policy's total time is lower than optimal's.
func (f *Findings) lowerTotals(policy string, source Source) string {
	mine := means(f.over(baselineSetting, source, policy, totalMinutes))
	optimal := means(f.over(baselineSetting, source, optimalPolicy, totalMinutes))
	lower := 0
	for i := range mine {
		if mine[i] < optimal[i] {
			lower++
		}
	}
	return fmt.Sprintf("%d of %d pool sizes", lower, len(mine))
}

func (f *Findings) variants() Experiment {
	e := Experiment{
		Name: "variants", Title: "Beyond the paper: event-driven, preemptive, heSRPT",
		Setup: "The baseline under optimal that also decides at every submission and end, under optimal that may preempt " +
			"running jobs, and under heSRPT's rule rounded to legal sizes; each against optimal, over the pools.",
		Paper: "Not in the paper.",
		Rows:  f.rowsOf(baselineSetting, optimalPolicy, eventPolicy, preemptivePolicy, heSRPTPolicy),
		Ours: f.ours(func(s Source) string {
			return fmt.Sprintf("event-driven: %v; preemptive: %v; heSRPT: %v",
				f.effect(eventPolicy, s), f.effect(preemptivePolicy, s), f.effect(heSRPTPolicy, s))
		}),
	}
	e.Difference = sentence("the mean total time is lower than optimal's at %s", f.eachSource(func(s Source) string {
		return fmt.Sprintf("%s event-driven, %s preemptive and %s with heSRPT", f.lowerTotals(eventPolicy, s),
			f.lowerTotals(preemptivePolicy, s), f.lowerTotals(heSRPTPolicy, s))
	}))
	policies := []string{optimalPolicy, eventPolicy, preemptivePolicy, heSRPTPolicy}
	e.table = table{Header: []string{"nodes", "workload", "policy", "queueing (min)", "total (min)", "additional per 100", "rescales"}}
	for _, nodes := range f.pools {
		for _, s := range f.sources() {
			for _, policy := range policies {
				r := f.row(baselineSetting, s, policy, nodes)
				e.table.Rows = append(e.table.Rows, []string{
					strconv.Itoa(nodes), string(s), policy, r.spread(queueMinutes(r), 1), r.spread(totalMinutes(r), 1),
					r.spread(extraJobs(r), 1), r.spread(r.Rescales, 0),
				})
			}
		}
	}
	for _, s := range f.sources() {
		for _, m := range []struct {
			name, title, label string
			measure            func(*Row) Number
		}{
			{"queueing", "Queueing time of the variants", "mean queueing time (min)", queueMinutes},
			{"total", "Total time of the variants", "mean total time (min)", totalMinutes},
			{"rescales", "Rescales of the variants", "rescales of all jobs", rescales},
		} {
			var series []figures.Series
			for _, policy := range policies {
				series = append(series, f.series(policy, baselineSetting, s, policy, m.measure))
			}
			e.figures = append(e.figures,
				f.lines(e.Name+"-"+m.name+"-"+string(s), m.title+", "+string(s), m.label, series...))
		}
	}
	return e
}

func (f *Findings) bound() Experiment {
	policies := []string{greedyPolicy, optimalPolicy, preemptivePolicy, heSRPTPolicy}
	e := Experiment{
		Name: "hesrpt-bound", Title: "Beyond the paper: distance from the heSRPT bound",
		Setup: "heSRPT's mean total time with nodes divisible at will bounds every allocator's, but for jobs that are all " +
			"there at once. So here the jobs of the baseline are all submitted at the beginning. The bound lets parts of a " +
			"node train faster than they could, and gives one job the whole pool; no allocator reaches it.",
		Paper: "Not in the paper.",
		Rows:  f.rowsOf(batchSetting, policies...),
		Ours: f.ours(func(s Source) string {
			return fmt.Sprintf("mean total time by the bound: optimal %s, preemptive %s, heSRPT rounded %s, greedy %s",
				f.overBounds(optimalPolicy, s), f.overBounds(preemptivePolicy, s),
				f.overBounds(heSRPTPolicy, s), f.overBounds(greedyPolicy, s))
		}),
		table: f.tabulate(func(s Source) []column {
			var columns []column
			for _, policy := range policies {
				columns = append(columns, f.cell(policy, batchSetting, s, policy, overBound, 2))
			}
			return columns
		}),
	}
	for _, s := range f.sources() {
		var series []figures.Series
		for _, policy := range policies {
			series = append(series, f.series(policy, batchSetting, s, policy, overBound))
		}
		e.figures = append(e.figures, f.lines(e.Name+"-"+string(s), "Total time by the heSRPT bound, "+string(s),
			"mean total time by the bound", series...))
	}
	e.Difference = sentence("the policy nearest to the bound on average over the pools is %s",
		f.eachSource(func(s Source) string {
			nearest := slices.MinFunc(policies, func(a, b string) int {
				return compareMeans(f.over(batchSetting, s, a, overBound), f.over(batchSetting, s, b, overBound))
			})
			return fmt.Sprintf("%s (%s times)", nearest, f.overBounds(nearest, s))
		}))
	return e
}

// overBounds writes the range of a policy's distance from the bound.
func (f *Findings) overBounds(policy string, source Source) string {
	return spanned(means(f.over(batchSetting, source, policy, overBound)), func(v float64) string { return rounded(v, 2) })
}
