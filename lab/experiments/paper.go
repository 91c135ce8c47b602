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
			"The same runs. The JCT is the time from submission to completion. In the paper optimal is lower on every pool. Its curves have no numbers."),
		m.additional(baselineSetting, "additional-jobs", "Additional jobs",
			"The same runs: how many more jobs optimal has finished when greedy has finished 100, 200, and so on, per 100, mean of these. In the "+
				"paper the number peaks at a medium pool.",
			m.mostExtra(baselineSetting, paperExtra), m.poolOfExtra(baselineSetting, paperExtraPool),
			m.result(fmt.Sprintf("at %d nodes", m.pools[0]), "", signedTenths, nil, at(m.extra(baselineSetting), 0)),
			m.result(fmt.Sprintf("at %d nodes", m.pools[last]), "", signedTenths, nil, at(m.extra(baselineSetting), last))),
		m.additional(heterogeneousSetting, "heterogeneous-eta", "Heterogeneous ETA",
			"All jobs, including those shorter than 5 minutes. A trace that has none repeats its baseline here.",
			m.mostExtra(heterogeneousSetting, paperHeterogeneous), m.poolOfExtra(heterogeneousSetting),
			m.mostExtraChange(heterogeneousSetting, paperHeterogeneous-paperExtra)),
		m.additional(etaSetting, "eta-disturbance", "ETA off by up to 10%",
			"The baseline, with a random relative error of every estimated run time, uniform from −10% to +10%. Changes are relative to the baseline.",
			m.extraChange(etaSetting, -2.4, -0.6), m.totalChange(etaSetting)),
		m.additional(bugSetting, "bugs-and-kills", "Bugs and killed jobs",
			"The baseline, but 15 % of the jobs hang within 5 minutes of training, users kill 10 % at a random point of their work, and the "+
				"estimates of the other 75 % are off by up to 10 %. A job that hangs or is killed is finished. Less work is done than in the baseline, "+
				"so mean times cannot be compared with it.",
			m.mostExtra(bugSetting, paperBugs), m.poolOfExtra(bugSetting), m.mostExtraChange(bugSetting, paperBugs-paperExtra), m.extraChange(bugSetting)),
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
			m.result("largest decrease", "%", tenths, paperMost, most(decreases)),
			m.result("at a pool of", "nodes", whole, paperPool, m.poolOf(decreases)),
			m.notLower(what, baselineSetting, []float64{0}, of),
		},
		charts: m.chartsOf(name, title, "mean "+what+" (min)", baselineSetting, both, of),
	}
	if i := slices.Index(m.pools, int(paperQueuePool)); i >= 0 && len(paperPool) > 0 {
		e.Results = append(e.Results, m.result(fmt.Sprintf("decrease at %d nodes", m.pools[i]), "%", tenths, paperMost, at(decreases, i)))
	}
	return e
}

// The numbers on additional jobs, in all and against the baseline's.

func (m *measures) mostExtra(setting string, paper float64) Result {
	return m.result("most additional jobs per 100", "", signedTenths, []float64{paper}, most(m.extra(setting)))
}

func (m *measures) poolOfExtra(setting string, paper ...float64) Result {
	return m.result("at a pool of", "nodes", whole, paper, m.poolOf(m.extra(setting)))
}

func (m *measures) mostExtraChange(setting string, paper float64) Result {
	return m.result("change of the most", "", signedTenths, []float64{paper},
		combine(most(m.extra(setting)), most(m.extra(baselineSetting)), difference))
}

func (m *measures) extraChange(setting string, paper ...float64) Result {
	return m.result("change of additional jobs per 100", "", signedTenths, paper,
		span(combine(m.extra(setting), m.extra(baselineSetting), difference)))
}

// totalChange returns the change of the mean JCT of optimal from the baseline.
func (m *measures) totalChange(setting string) Result {
	return m.result("change of the mean JCT of optimal", "%", signedTenths, nil,
		span(combine(m.means(setting, optimalPolicy, totalMinutes), m.means(baselineSetting, optimalPolicy, totalMinutes), change)))
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
		text: fmt.Sprintf("The time in the solver of optimal's decisions in the baseline at %d nodes. These runs come first and one at a time, but "+
			"other load on the machine affects them. The paper used CBC on an i7-8700K, so the ratio compares machines as well as methods.", m.pools[0]),
	}
	add := func(quantity, unit string, d digits, paper []float64, of func(*Timing) float64) {
		e.Results = append(e.Results, m.result(quantity, unit, d, paper, func(s Source) []float64 {
			for i := range m.timings {
				if m.timings[i].Source == s {
					return []float64{of(&m.timings[i])}
				}
			}
			return nil
		}))
	}
	add("mean", "ms", threeDigits, []float64{400}, func(t *Timing) float64 { return t.Mean })
	add("median", "ms", threeDigits, []float64{240}, func(t *Timing) float64 { return t.Median })
	add("95th percentile", "ms", threeDigits, []float64{1490}, func(t *Timing) float64 { return t.P95 })
	add("99th percentile", "ms", threeDigits, nil, func(t *Timing) float64 { return t.P99 })
	add("maximum", "ms", threeDigits, []float64{2480}, func(t *Timing) float64 { return t.Max })
	add("decisions", "", whole, nil, func(t *Timing) float64 { return float64(t.Decisions) })
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
		text: "The baseline under other policies, each compared with optimal, as ranges over the pools: optimal with decisions after submissions and " +
			"completions too, optimal that may preempt running jobs, heSRPT rounded to legal sizes, max-min fair shares (max-min), total-time, which " +
			"minimizes the mean JCT, and fixed requested sizes, in the order of submission (fifo) and with the shortest remaining time first (srpt).",
	}
	for _, policy := range variantPolicies() {
		against := func(quantity, unit string, of func(*Row) Number, f func(a, b float64) float64) {
			e.Results = append(e.Results, m.result(policy+": "+quantity, unit, signedTenths, nil,
				span(combine(m.means(baselineSetting, policy, of), m.means(baselineSetting, optimalPolicy, of), f))))
		}
		against("mean JCT", "%", totalMinutes, change)
		against("mean queueing time", "min", queueMinutes, difference)
		against("resizes", "%", resizes, change)
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
		text: "The mean JCT of heSRPT with divisible nodes is a lower bound for every policy if all jobs are submitted at once, as in this experiment. " +
			"No policy reaches it, because it overestimates speeds on fractions of a node and may assign the whole pool to one job. Numbers are the mean " +
			"JCT divided by the bound, as ranges over the pools.",
		charts: m.chartsOf("hesrpt-bound", "Mean JCT divided by the heSRPT bound", "mean JCT divided by the bound", batchSetting, []string{optimalPolicy, catalog.MaxMin, "total-time", "hesrpt"}, overBound),
	}
	for _, policy := range batchPolicies() {
		e.Results = append(e.Results, m.result(policy, "", threeDigits, nil, span(m.means(batchSetting, policy, overBound))))
	}
	return e
}
