package experiments

import (
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/lab/figures"
)

// The paper's numbers that several experiments use: decreases in per cent, additional
// jobs per 100 of greedy, and the pools at which they were found.
const (
	paperQueueDecrease, paperQueuePool = 32.0, 150.0
	paperExtra, paperExtraPool         = 17.4, 110.0
	paperHeterogeneous, paperBugs      = 24.1, 15.0
)

// meanTime is an experiment on a mean time of the baseline. The paper's optimal is
// lower on every pool.
func (m *measures) meanTime(e Experiment, label string, of func(*Row) Number, paperLargest, paperPool []float64) Experiment {
	decreases := func(s Source) []float64 { return m.compare(baselineSetting, s, of).decreases() }
	e.Results = []Result{
		m.result("largest decrease", "%", tenths, paperLargest, func(s Source) []float64 {
			return []float64{slices.Max(decreases(s))}
		}),
		m.result("at a pool of", "nodes", whole, paperPool, func(s Source) []float64 {
			return []float64{float64(m.pools[largest(decreases(s))])}
		}),
		m.notLower(label, baselineSetting, []float64{0}, of),
	}
	if len(paperPool) > 0 {
		if i := slices.Index(m.pools, int(paperPool[0])); i >= 0 {
			e.Results = append(e.Results, m.result(fmt.Sprintf("decrease at %d nodes", m.pools[i]), "%", tenths, paperLargest,
				func(s Source) []float64 { return []float64{decreases(s)[i]} }))
		}
	}
	e.Rows = m.rowsOf(baselineSetting, greedyPolicy, optimalPolicy)
	e.table = m.tabulate(func(s Source) []column {
		return []column{
			m.column("greedy (min)", baselineSetting, s, greedyPolicy, of, tenths),
			m.column("optimal (min)", baselineSetting, s, optimalPolicy, of, tenths),
			{"change (%)", func(pool int) string { return signedTenths.write(-decreases(s)[pool]) }},
			m.column("more jobs than nodes (% of decisions)", baselineSetting, s, optimalPolicy, crowded, tenths),
		}
	})
	for _, s := range m.sources {
		e.figures = append(e.figures, m.linesOf(e.Name, e.Title, "mean "+label+" (min)", baselineSetting, s,
			[]string{greedyPolicy, optimalPolicy}, of))
	}
	return e
}

func (m *measures) queueing() Experiment {
	return m.meanTime(Experiment{Name: "queueing-time", Title: "Queueing time"}, "queueing time", queueMinutes,
		[]float64{paperQueueDecrease}, []float64{paperQueuePool})
}

func (m *measures) totalTime() Experiment {
	return m.meanTime(Experiment{Name: "total-time", Title: "Total time"}, "total time", totalMinutes, nil, nil)
}

// extra returns a number worked out from optimal's additional jobs over the pools, and
// from those of the baseline; nothing where greedy has never finished 100 jobs.
func (m *measures) extra(setting string, of func(here, baseline []float64) []float64) func(Source) []float64 {
	return func(s Source) []float64 {
		if m.row(setting, s, optimalPolicy, m.pools[0]).Jobs < 100 {
			return nil
		}
		return of(m.means(setting, s, optimalPolicy, extraJobs), m.means(baselineSetting, s, optimalPolicy, extraJobs))
	}
}

// The numbers on additional jobs.

func (m *measures) largestExtra(setting string, paper float64) Result {
	return m.result("most additional jobs per 100", "", signedTenths, []float64{paper},
		m.extra(setting, func(here, _ []float64) []float64 { return []float64{slices.Max(here)} }))
}

func (m *measures) largestExtraPool(setting string, paper []float64) Result {
	return m.result("at a pool of", "nodes", whole, paper, m.extra(setting, func(here, _ []float64) []float64 {
		return []float64{float64(m.pools[largest(here)])}
	}))
}

func (m *measures) extraAt(setting string, pool int) Result {
	return m.result(fmt.Sprintf("at %d nodes", m.pools[pool]), "", signedTenths, nil,
		m.extra(setting, func(here, _ []float64) []float64 { return []float64{here[pool]} }))
}

func (m *measures) largestExtraChange(setting string, paper float64) Result {
	return m.result("change of the most", "", signedTenths, []float64{paper},
		m.extra(setting, func(here, baseline []float64) []float64 {
			return []float64{slices.Max(here) - slices.Max(baseline)}
		}))
}

func (m *measures) extraChange(setting string, paper ...float64) Result {
	return m.result("change of additional jobs per 100", "", signedTenths, paper,
		m.extra(setting, func(here, baseline []float64) []float64 { return span(differences(here, baseline)) }))
}

// totalChange returns how optimal's mean total time differs from the baseline's.
func (m *measures) totalChange(setting string) Result {
	return m.result("change of optimal's mean total time", "%", signedTenths, nil, func(s Source) []float64 {
		return span(changes(m.means(setting, s, optimalPolicy, totalMinutes),
			m.means(baselineSetting, s, optimalPolicy, totalMinutes)))
	})
}

// additional is an experiment on the additional jobs of a setting beside the
// baseline's. Whether optimal is still lower than greedy in mean times is added to
// the results.
func (m *measures) additional(e Experiment, setting string) Experiment {
	if setting != baselineSetting {
		e.Results = append(e.Results, m.notLower("queueing time", setting, nil, queueMinutes),
			m.notLower("total time", setting, nil, totalMinutes))
	}
	e.Rows = m.rowsOf(setting, greedyPolicy, optimalPolicy)
	e.table = m.tabulate(func(s Source) []column {
		columns := []column{m.column("additional per 100", setting, s, optimalPolicy, extraJobs, signedTenths)}
		if setting != baselineSetting {
			columns = append(columns, m.column("baseline", baselineSetting, s, optimalPolicy, extraJobs, signedTenths))
		}
		decreases := m.compare(setting, s, totalMinutes).decreases()
		return append(columns, column{"change of the mean total time (%)", func(pool int) string {
			return signedTenths.write(-decreases[pool])
		}})
	})
	var series []figures.Series
	for _, s := range m.sources {
		series = append(series, m.series(string(s), setting, s, optimalPolicy, extraJobs))
		if setting != baselineSetting {
			series = append(series, m.series(string(s)+", baseline", baselineSetting, s, optimalPolicy, extraJobs))
		}
	}
	if setting == baselineSetting {
		series = append(series, figures.Series{
			Name: "the paper", X: []float64{paperExtraPool}, Y: []float64{paperExtra},
		})
	}
	e.figures = append(e.figures, lines(e.Name, e.Title, "additional jobs per 100 of greedy", series...))
	return e
}

func (m *measures) additionalJobs() Experiment {
	return m.additional(Experiment{Name: "additional-jobs", Title: "Additional jobs", Results: []Result{
		m.largestExtra(baselineSetting, paperExtra),
		m.largestExtraPool(baselineSetting, []float64{paperExtraPool}),
		m.extraAt(baselineSetting, 0),
		m.extraAt(baselineSetting, len(m.pools)-1),
	}}, baselineSetting)
}

func (m *measures) heterogeneous() Experiment {
	return m.additional(Experiment{Name: "heterogeneous-eta", Title: "Heterogeneous ETA", Results: []Result{
		m.largestExtra(heterogeneousSetting, paperHeterogeneous),
		m.largestExtraPool(heterogeneousSetting, nil),
		m.largestExtraChange(heterogeneousSetting, paperHeterogeneous-paperExtra),
	}}, heterogeneousSetting)
}

func (m *measures) etaDisturbance() Experiment {
	return m.additional(Experiment{Name: "eta-disturbance", Title: "ETA off by up to 10 %", Results: []Result{
		m.extraChange(etaSetting, -2.4, -0.6),
		m.totalChange(etaSetting),
	}}, etaSetting)
}

func (m *measures) bugs() Experiment {
	return m.additional(Experiment{Name: "bugs-and-kills", Title: "Bugs and killed jobs", Results: []Result{
		m.largestExtra(bugSetting, paperBugs),
		m.largestExtraPool(bugSetting, nil),
		m.largestExtraChange(bugSetting, paperBugs-paperExtra),
		m.extraChange(bugSetting),
	}}, bugSetting)
}

func (m *measures) scalingDelay() Experiment {
	return m.additional(Experiment{Name: "scaling-delay", Title: "Scaling delay of 15 s", Results: []Result{
		m.extraChange(delaySetting, -0.9, 1.8),
		m.totalChange(delaySetting),
	}}, delaySetting)
}

// decisionTimes is the paper's experiment on the smallest pool.
func (m *measures) decisionTimes() Experiment {
	const smallest = 0.001 // ms; what is shorter counts as this in the figure
	e := Experiment{Name: "decision-times", Title: "Decision times", Timings: m.timings}
	for _, quantity := range []struct {
		name  string
		paper []float64
		of    func(*Timing) float64
	}{
		{"mean", []float64{400}, func(t *Timing) float64 { return t.Mean }},
		{"median", []float64{240}, func(t *Timing) float64 { return t.Median }},
		{"95th percentile", []float64{1490}, func(t *Timing) float64 { return t.P95 }},
		{"99th percentile", nil, func(t *Timing) float64 { return t.P99 }},
		{"maximum", []float64{2480}, func(t *Timing) float64 { return t.Max }},
	} {
		e.Results = append(e.Results, m.result(quantity.name, "ms", threeDigits, quantity.paper, func(s Source) []float64 {
			return []float64{quantity.of(m.timing(s))}
		}))
	}
	e.Results = append(e.Results, m.result("decisions", "", whole, nil, func(s Source) []float64 {
		return []float64{float64(m.timing(s).Decisions)}
	}))
	var samples []figures.Sample
	for _, s := range m.sources {
		samples = append(samples, figures.Sample{Name: string(s), Values: m.timing(s).millis})
	}
	e.figures = []drawing{{e.Name, func() (*figures.Figure, error) {
		return figures.Histogram(fmt.Sprintf("Decision times of optimal, %d nodes", m.pools[0]),
			"time of a decision (ms)", "share of decisions (%)", smallest, samples...)
	}}}
	return e
}
