package experiments

import (
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/figures"
)

// The paper's numbers that several experiments use: decreases in per cent, additional
// jobs per 100 of greedy, and the pools at which they were found.
const (
	paperQueueDecrease, paperQueuePool = 32.0, 150.0
	paperExtra, paperExtraPool         = 17.4, 110.0
	paperHeterogeneous, paperBugs      = 24.1, 15.0
)

func (m *measures) experiments() []Experiment {
	last := len(m.pools) - 1
	list := []Experiment{
		m.meanTime("queueing-time", "Queueing time", "queueing time", queueMinutes, []float64{paperQueueDecrease}, []float64{paperQueuePool},
			"Jobs that trained for 5 minutes and more. Queueing time runs from submission to the first nodes. In the paper optimal is lower on "+
				"every pool. If there are more jobs than nodes, every admitted job has one node and the others wait under every policy. The "+
				"table of every pool shows the share of such decisions."),
		m.meanTime("total-time", "Job completion time (JCT)", "JCT", totalMinutes, nil, nil,
			"The same runs. The JCT is the time from submission to completion. In "+
				"the paper optimal is lower on every pool. Its curves have no numbers."),
		m.additional(baselineSetting, "additional-jobs", "Additional jobs",
			"The same runs: how many more jobs optimal has finished when greedy has finished 100, 200, and so on, per 100, mean of these. In the "+
				"paper the number peaks at a medium pool.",
			m.mostExtra(baselineSetting, paperExtra), m.poolOfExtra(baselineSetting, paperExtraPool),
			Result{Quantity: fmt.Sprintf("at %d nodes", m.pools[0]), digits: signedTenths, Ours: m.extra(baselineSetting).at(0)},
			Result{Quantity: fmt.Sprintf("at %d nodes", m.pools[last]), digits: signedTenths, Ours: m.extra(baselineSetting).at(last)}),
		m.additional(heterogeneousSetting, "heterogeneous-eta", "Heterogeneous ETA",
			"All jobs, including those shorter than 5 minutes. A trace that has none repeats its baseline here.",
			m.mostExtra(heterogeneousSetting, paperHeterogeneous), m.poolOfExtra(heterogeneousSetting),
			m.mostExtraChange(heterogeneousSetting, paperHeterogeneous-paperExtra)),
		m.additional(etaSetting, "eta-disturbance", "ETA off by up to 10%",
			"The baseline, with a random relative error of every estimated run "+
				"time, uniform from −10% to +10%. Changes are relative to the baseline.",
			m.extraChange(etaSetting, -2.4, -0.6), m.totalChange(etaSetting)),
		m.additional(bugSetting, "bugs-and-kills", "Bugs and killed jobs",
			"The baseline, but 15 % of the jobs hang within 5 minutes of training, users kill 10 % at a random point of their work, and the "+
				"estimates of the other 75 % are off by up to 10 %. A job that hangs "+
				"or is killed is finished. Less work is done than in the baseline, "+
				"so mean times cannot be compared with it.",
			m.mostExtra(bugSetting, paperBugs), m.poolOfExtra(bugSetting),
			m.mostExtraChange(bugSetting, paperBugs-paperExtra), m.extraChange(bugSetting)),
		m.additional(delaySetting, "scaling-delay", "Scaling delay of 15 s",
			"The baseline, but a job that starts or grows trains on as many nodes as before for 15 s. Changes are from the baseline.",
			m.extraChange(delaySetting, -0.9, 1.8), m.totalChange(delaySetting)),
		m.decisionTimes(),
	}
	return append(list, m.variants(), m.bound())
}

// meanTime is an experiment on a mean time of the baseline.
func (m *measures) meanTime(name, title, what string, of func(*Row) Number, paperMost, paperPool []float64, text string) Experiment {
	decreases, both := m.decreases(baselineSetting, of), []string{greedyPolicy, optimalPolicy}
	e := Experiment{
		Name: name, Title: title, text: text, Rows: m.rowsOf(baselineSetting, both...),
		Results: []Result{
			{Quantity: "largest decrease", Unit: "%", Paper: paperMost, digits: tenths, Ours: decreases.largest()},
			{Quantity: "at a pool of", Unit: "nodes", Paper: paperPool, digits: whole, Ours: m.poolOf(decreases)},
			m.notLower(what, baselineSetting, []float64{0}, of),
		},
		charts: m.chartsOf(name, title, "mean "+what+" (min)", baselineSetting, both, of),
	}
	if i := slices.Index(m.pools, int(paperQueuePool)); i >= 0 && len(paperPool) > 0 {
		e.Results = append(e.Results, Result{
			Quantity: fmt.Sprintf("decrease at %d nodes", m.pools[i]), Unit: "%", Paper: paperMost, digits: tenths, Ours: decreases.at(i),
		})
	}
	return e
}

// The numbers on additional jobs, in all and against the baseline's.

func (m *measures) mostExtra(setting string, paper float64) Result {
	return Result{Quantity: "most additional jobs per 100", Paper: []float64{paper}, digits: signedTenths, Ours: m.extra(setting).largest()}
}

func (m *measures) poolOfExtra(setting string, paper ...float64) Result {
	return Result{Quantity: "at a pool of", Unit: "nodes", Paper: paper, digits: whole, Ours: m.poolOf(m.extra(setting))}
}

func (m *measures) mostExtraChange(setting string, paper float64) Result {
	return Result{
		Quantity: "change of the most", Paper: []float64{paper}, digits: signedTenths,
		Ours: difference(m.extra(setting).largest(), m.extra(baselineSetting).largest()),
	}
}

func (m *measures) extraChange(setting string, paper ...float64) Result {
	return Result{
		Quantity: "change of additional jobs per 100", Paper: paper, digits: signedTenths,
		Ours: difference(m.extra(setting), m.extra(baselineSetting)).span(),
	}
}

// totalChange returns the change of the mean JCT of optimal from the baseline.
func (m *measures) totalChange(setting string) Result {
	return Result{
		Quantity: "change of the mean JCT of optimal", Unit: "%", digits: signedTenths,
		Ours: change(m.means(setting, optimalPolicy, totalMinutes), m.means(baselineSetting, optimalPolicy, totalMinutes)).span(),
	}
}

// additional returns an experiment on the additional jobs of a setting compared with the baseline. It adds
// results on the mean times of optimal and greedy.
func (m *measures) additional(setting, name, title, text string, results ...Result) Experiment {
	e := Experiment{Name: name, Title: title, text: text, Results: results, Rows: m.rowsOf(setting, greedyPolicy, optimalPolicy)}
	c := chart{name: name, title: title, label: "additional jobs per 100 of greedy"}
	for _, s := range m.sources {
		c.series = append(c.series, m.series(string(s), setting, s, optimalPolicy, extraJobs))
		if setting != baselineSetting {
			c.series = append(c.series, m.series(string(s)+", baseline", baselineSetting, s, optimalPolicy, extraJobs))
		}
	}
	if setting == baselineSetting {
		c.series = append(c.series, figures.Series{Name: "the paper", X: []float64{paperExtraPool}, Y: []float64{paperExtra}})
	} else {
		e.Results = append(e.Results, m.notLower("queueing time", setting, nil, queueMinutes), m.notLower("JCT", setting, nil, totalMinutes))
	}
	e.charts = []chart{c}
	return e
}

// decisionTimes is the paper's experiment on the smallest pool.
func (m *measures) decisionTimes() Experiment {
	e := Experiment{
		Name: "decision-times", Title: "Decision times", Timings: m.timings,
		text: fmt.Sprintf("The time in the solver of optimal's decisions in the "+
			"baseline at %d nodes. These runs come first and one at a time, but "+
			"other load on the machine affects them. The paper used CBC on an i7-8700K, so the ratio compares machines as well as methods.",
			m.pools[0]),
	}
	e.Results = []Result{
		{Quantity: "mean", Unit: "ms", Paper: []float64{400}, digits: threeDigits, Ours: make(values)},
		{Quantity: "median", Unit: "ms", Paper: []float64{240}, digits: threeDigits, Ours: make(values)},
		{Quantity: "95th percentile", Unit: "ms", Paper: []float64{1490}, digits: threeDigits, Ours: make(values)},
		{Quantity: "99th percentile", Unit: "ms", digits: threeDigits, Ours: make(values)},
		{Quantity: "maximum", Unit: "ms", Paper: []float64{2480}, digits: threeDigits, Ours: make(values)},
		{Quantity: "decisions", digits: whole, Ours: make(values)},
	}
	for i := range m.timings {
		t := &m.timings[i]
		for n, number := range []float64{t.Mean, t.Median, t.P95, t.P99, t.Max, float64(t.Decisions)} {
			e.Results[n].Ours[t.Source] = []float64{number}
		}
	}
	c := chart{
		name: e.Name, title: fmt.Sprintf("Decision times of optimal, %d nodes", m.pools[0]), samples: []figures.Sample{},
	}
	for i := range m.timings {
		c.samples = append(c.samples, figures.Sample{Name: string(m.timings[i].Source), Values: m.timings[i].millis})
	}
	e.charts = []chart{c}
	return e
}

func (m *measures) variants() Experiment {
	policies := append([]string{greedyPolicy, optimalPolicy}, variantPolicies()...)
	e := Experiment{
		Name: "variants", Title: "Beyond the paper: other policies", Rows: m.rowsOf(baselineSetting, policies...),
		text: "The baseline under other policies, each compared with optimal, as " +
			"ranges over the pools: optimal with decisions after submissions and " +
			"completions too, optimal that may preempt running jobs, heSRPT rounded " +
			"to legal sizes, max-min fair shares (max-min), total-time, which " +
			"minimizes the mean JCT, and fixed requested sizes, in the order of " +
			"submission (fifo) and with the shortest remaining time first (srpt).",
	}
	totals, queues, resized := m.means(baselineSetting, optimalPolicy, totalMinutes), m.means(baselineSetting, optimalPolicy, queueMinutes),
		m.means(baselineSetting, optimalPolicy, resizes)
	for _, policy := range variantPolicies() {
		e.Results = append(e.Results,
			Result{
				Quantity: policy + ": mean JCT", Unit: "%", digits: signedTenths,
				Ours: change(m.means(baselineSetting, policy, totalMinutes), totals).span(),
			},
			Result{
				Quantity: policy + ": mean queueing time", Unit: "min", digits: signedTenths,
				Ours: difference(m.means(baselineSetting, policy, queueMinutes), queues).span(),
			},
			Result{
				Quantity: policy + ": resizes", Unit: "%", digits: signedTenths,
				Ours: change(m.means(baselineSetting, policy, resizes), resized).span(),
			})
	}
	shown := []string{greedyPolicy, optimalPolicy, catalog.MaxMin, "total-time"} // More lines would be hard to distinguish.
	e.charts = slices.Concat(
		m.chartsOf("variants-queueing", "Queueing time", "mean queueing time (min)", baselineSetting, shown, queueMinutes),
		m.chartsOf("variants-total", "Job completion time (JCT)", "mean JCT (min)", baselineSetting, shown, totalMinutes),
		m.chartsOf("variants-resizes", "Resizes", "resizes of all jobs", baselineSetting, shown, resizes))
	return e
}

// bound compares policies with a lower bound of the mean JCT.
func (m *measures) bound() Experiment {
	e := Experiment{
		Name: "hesrpt-bound", Title: "Beyond the paper: the heSRPT bound", Rows: m.rowsOf(batchSetting, batchPolicies()...),
		text: "The mean JCT of heSRPT with divisible nodes is a lower bound for " +
			"every policy if all jobs are submitted at once, as in this experiment. " +
			"No policy reaches it, because it overestimates speeds on fractions of a " +
			"node and may assign the whole pool to one job. Numbers are the mean " +
			"JCT divided by the bound, as ranges over the pools.",
		charts: m.chartsOf("hesrpt-bound", "Mean JCT divided by the heSRPT bound", "mean JCT divided by the bound",
			batchSetting, []string{optimalPolicy, catalog.MaxMin, "total-time", "hesrpt"}, overBound),
	}
	for _, policy := range batchPolicies() {
		e.Results = append(e.Results, Result{Quantity: policy, digits: threeDigits, Ours: m.means(batchSetting, policy, overBound).span()})
	}
	return e
}
