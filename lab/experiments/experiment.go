package experiments

import (
	"fmt"
	"strconv"

	"github.com/elastalloc/elastalloc/lab/figures"
)

// Experiment is one of the paper's experiments, or one of ours, and what it found.
// Field names are those of results.json.
type Experiment struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Setup string `json:"setup"`
	// Paper is the paper's result in words, and PaperNumbers its numbers.
	Paper        string             `json:"paper"`
	PaperNumbers map[string]float64 `json:"paper_numbers,omitempty"`
	// Ours is our result in words, by source, and Difference what sets it apart.
	Ours       map[Source]string `json:"ours"`
	Difference string            `json:"difference"`
	// Rows are the numbers behind it, and Timings those of decision times.
	Rows    []Row    `json:"rows,omitempty"`
	Timings []Timing `json:"timings,omitempty"`

	table   table
	figures []drawing
}

// drawing is a figure that is drawn when it is asked for.
type drawing struct {
	name string
	draw func() (*figures.Figure, error)
}

// table is numbers laid out for a person.
type table struct {
	Header []string
	Rows   [][]string
}

// column is a column of a table over pools.
type column struct {
	header string
	cell   func(nodes int) string
}

// Experiments returns all experiments.
func (f *Findings) Experiments() []Experiment {
	return []Experiment{
		f.queueing(), f.totalTime(), f.additionalJobs(), f.heterogeneous(), f.etaDisturbance(),
		f.bugs(), f.scalingDelay(), f.decisionTimes(), f.variants(), f.bound(),
	}
}

// ours fills what is said of every source.
func (f *Findings) ours(say func(Source) string) map[Source]string {
	result := make(map[Source]string)
	for _, source := range f.sources() {
		result[source] = say(source)
	}
	return result
}

// eachSource joins what is said of every source: on the synthetic workload …, on
// the trace ….
func (f *Findings) eachSource(say func(Source) string) string {
	var words []string
	for _, source := range f.sources() {
		words = append(words, say(source)+" on "+source.name())
	}
	return listed(words)
}

// rowsOf returns the rows of a setting and some policies.
func (f *Findings) rowsOf(setting string, policies ...string) []Row {
	var rows []Row
	for _, row := range f.rows {
		for _, policy := range policies {
			if row.Setting == setting && row.Policy == policy {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// tabulate lays out columns over the pools, those of every source side by side.
func (f *Findings) tabulate(columns func(Source) []column) table {
	t := table{Header: []string{"nodes"}}
	for _, nodes := range f.pools {
		t.Rows = append(t.Rows, []string{strconv.Itoa(nodes)})
	}
	for _, source := range f.sources() {
		for _, c := range columns(source) {
			t.Header = append(t.Header, string(source)+": "+c.header)
			for i, nodes := range f.pools {
				t.Rows[i] = append(t.Rows[i], c.cell(nodes))
			}
		}
	}
	return t
}

// cell returns a column of a measure of a policy.
func (f *Findings) cell(
	header, setting string, source Source, policy string, measure func(*Row) Number, decimals int,
) column {
	return column{header, func(nodes int) string {
		row := f.row(setting, source, policy, nodes)
		return row.spread(measure(row), decimals)
	}}
}

// compared is an experiment on a mean time of the baseline.
func (f *Findings) compared(e Experiment, label string, measure func(*Row) Number) Experiment {
	e.Rows = f.rowsOf(baselineSetting, greedyPolicy, optimalPolicy)
	e.Ours = f.ours(func(s Source) string {
		c := f.contest(baselineSetting, s, measure)
		return c.headline()
	})
	e.table = f.tabulate(func(s Source) []column {
		c := f.contest(baselineSetting, s, measure)
		return []column{
			f.cell("greedy (min)", baselineSetting, s, greedyPolicy, measure, 1),
			f.cell("optimal (min)", baselineSetting, s, optimalPolicy, measure, 1),
			{"change", func(nodes int) string { return signedPercent(-c.reduction(c.at(nodes))) }},
		}
	})
	for _, s := range f.sources() {
		e.figures = append(e.figures, f.lines(e.Name+"-"+string(s), e.Title+", "+string(s), label,
			f.series(greedyPolicy, baselineSetting, s, greedyPolicy, measure),
			f.series(optimalPolicy, baselineSetting, s, optimalPolicy, measure)))
	}
	return e
}

func (f *Findings) queueing() Experiment {
	const paper = 0.32
	e := f.compared(Experiment{
		Name: "queueing-time", Title: "Queueing time",
		Setup:        "Jobs of 5 minutes and more; mean time from submission to first nodes, greedy against optimal.",
		Paper:        "Optimal always lower; largest decrease 32 %, at 150 nodes.",
		PaperNumbers: map[string]float64{"largest_decrease": paper, "at_nodes": 150},
	}, "mean queueing time (min)", queueMinutes)
	e.Difference = f.always(queueMinutes) + " " + sentence("the largest decrease is %s",
		f.eachSource(func(s Source) string {
			c := f.contest(baselineSetting, s, queueMinutes)
			best := c.reduction(c.largest())
			return fmt.Sprintf("%s (%s the paper's)", percent(best), against(100*best, 100*paper, 1))
		}))
	return e
}

func (f *Findings) totalTime() Experiment {
	e := f.compared(Experiment{
		Name: "total-time", Title: "Total time",
		Setup: "The same runs; mean time from submission to end.",
		Paper: "Optimal always lower; the curves are a figure without numbers.",
	}, "mean total time (min)", totalMinutes)
	e.Difference = f.always(totalMinutes) + " " + sentence("the change runs over the pools from %s",
		f.eachSource(func(s Source) string {
			c := f.contest(baselineSetting, s, totalMinutes)
			return spanned(changes(c.optimal, c.greedy), signedPercent)
		}))
	return e
}

// always says whether optimal is always lower, as it is in the paper.
func (f *Findings) always(measure func(*Row) Number) string {
	var always, not string
	for _, s := range f.sources() {
		if c := f.contest(baselineSetting, s, measure); len(c.notLower) == 0 {
			always += " and on " + s.name()
		} else {
			not += " and on " + s.name() + " at " + nodesList(c.exceptionPools())
		}
	}
	const and = len(" and ")
	switch {
	case not == "":
		return sentence("as in the paper, optimal is lower at every pool size, %s", always[and:])
	case always == "":
		return sentence("unlike in the paper, optimal is not always lower: %s it is not", not[and:])
	default:
		return sentence("as in the paper, optimal is lower at every pool size %s; unlike there, it is not %s",
			always[and:], not[and:])
	}
}

// at returns the position of a pool.
func (c *contest) at(nodes int) int {
	for i := range c.pools {
		if c.pools[i] == nodes {
			return i
		}
	}
	return 0
}

// exceptionPools returns the pools where optimal is not lower.
func (c *contest) exceptionPools() []int {
	pools := make([]int, len(c.notLower))
	for n, i := range c.notLower {
		pools[n] = c.pools[i]
	}
	return pools
}

// isBaseline reports whether a setting is the baseline again on a source: the
// heterogeneous one is where no job is too short for the baseline.
func (f *Findings) isBaseline(setting string, s Source) bool {
	return setting == heterogeneousSetting && f.bell(setting, s).jobs == f.bell(baselineSetting, s).jobs
}

// extras is an experiment on additional jobs under a setting, beside the baseline's.
func (f *Findings) extras(e Experiment, setting string) Experiment {
	e.Rows = f.rowsOf(setting, greedyPolicy, optimalPolicy)
	e.Ours = f.ours(func(s Source) string {
		here := f.bell(setting, s)
		if f.isBaseline(setting, s) {
			return here.headline() + "; no job is shorter than 5 minutes, so this is the baseline again"
		}
		return here.headline()
	})
	e.table = f.tabulate(func(s Source) []column {
		columns := []column{f.cell("additional per 100", setting, s, optimalPolicy, extraJobs, 1)}
		if setting != baselineSetting {
			columns = append(columns, f.cell("baseline", baselineSetting, s, optimalPolicy, extraJobs, 1))
		}
		return append(columns, column{"total time against greedy", func(nodes int) string {
			c := f.contest(setting, s, totalMinutes)
			return signedPercent(-c.reduction(c.at(nodes)))
		}})
	})
	var series []figures.Series
	for _, s := range f.sources() {
		series = append(series, f.series(string(s), setting, s, optimalPolicy, extraJobs))
		if setting != baselineSetting {
			series = append(series, f.series(string(s)+", baseline", baselineSetting, s, optimalPolicy, extraJobs))
		}
	}
	e.figures = append(e.figures, f.lines(e.Name, e.Title, "additional jobs per 100 of greedy", series...))
	return e
}

// largestAgainst says how the largest numbers of additional jobs relate to the paper's.
func (f *Findings) largestAgainst(setting string, paper float64) string {
	return f.eachSource(func(s Source) string {
		b := f.bell(setting, s)
		if !b.countable() {
			return "not counted"
		}
		return fmt.Sprintf("%s (%s the paper's %s)", signed(b.largest()), against(b.largest(), paper, 1), rounded(paper, 1))
	})
}

const paperExtra, paperHeterogeneous, paperBugs = 17.4, 24.1, 15.0

func (f *Findings) additionalJobs() Experiment {
	e := f.extras(Experiment{
		Name: "additional-jobs", Title: "Additional jobs",
		Setup: "The same runs; how many more jobs optimal has finished when greedy has finished 100, 200, …, " +
			"per 100, mean of these.",
		Paper:        "Up to 17.4 per 100, at 110 nodes; bell-shaped over the pool sizes.",
		PaperNumbers: map[string]float64{"largest": paperExtra, "at_nodes": 110},
	}, baselineSetting)
	e.Difference = sentence("the largest number is %s; %s", f.largestAgainst(baselineSetting, paperExtra), f.shape())
	return e
}

// shape says whether the additional jobs have the shape of a bell.
func (f *Findings) shape() string {
	return "over the pool sizes there is " + f.eachSource(func(s Source) string {
		b := f.bell(baselineSetting, s)
		switch {
		case !b.countable():
			return "nothing to count"
		case b.isBell():
			return fmt.Sprintf("a peak inside, at %d nodes, as in the paper,", b.pools[b.peak])
		default:
			return fmt.Sprintf("no bell but a largest number at the end, at %d nodes,", b.pools[b.peak])
		}
	})
}

func (f *Findings) heterogeneous() Experiment {
	e := f.extras(Experiment{
		Name: "heterogeneous-eta", Title: "Heterogeneous ETA",
		Setup:        "All jobs, also those of less than 5 minutes: 1,252 of the synthetic workload.",
		Paper:        "Up to 24.1 per 100, against 17.4 in the baseline.",
		PaperNumbers: map[string]float64{"largest": paperHeterogeneous, "largest_baseline": paperExtra},
	}, heterogeneousSetting)
	e.Difference = sentence("the paper's largest number rises by %s over the baseline's; ours changes by %s, and is %s",
		rounded(paperHeterogeneous-paperExtra, 1), f.eachSource(func(s Source) string {
			all, base := f.bell(heterogeneousSetting, s), f.bell(baselineSetting, s)
			return signed(all.largest() - base.largest())
		}), f.largestAgainst(heterogeneousSetting, paperHeterogeneous))
	return e
}

// changed returns how many additional jobs more than in the baseline there are,
// pool by pool.
func (f *Findings) changed(setting string, source Source) []float64 {
	return differences(means(f.over(setting, source, optimalPolicy, extraJobs)),
		means(f.over(baselineSetting, source, optimalPolicy, extraJobs)))
}

func (f *Findings) etaDisturbance() Experiment {
	e := f.extras(Experiment{
		Name: "eta-disturbance", Title: "ETA off by up to 10 %",
		Setup:        "The baseline, every ETA off by a share drawn from −10 % to +10 %.",
		Paper:        "0.6 to 2.4 additional jobs per 100 fewer than in the baseline.",
		PaperNumbers: map[string]float64{"least_fewer": 0.6, "most_fewer": 2.4},
	}, etaSetting)
	e.Difference = sentence("against the paper's −2.4 to −0.6, the additional jobs change over the pools by %s",
		f.eachSource(func(s Source) string { return spanned(f.changed(etaSetting, s), signed) }))
	return e
}

func (f *Findings) bugs() Experiment {
	e := f.extras(Experiment{
		Name: "bugs-and-kills", Title: "Bugs and killed jobs",
		Setup: "15 % of the jobs hang within 5 minutes of training, users kill 10 % at a random point of their work, " +
			"and the ETA of the other 75 % is off by up to 10 %.",
		Paper:        "Up to 15.0 per 100.",
		PaperNumbers: map[string]float64{"largest": paperBugs},
	}, bugSetting)
	e.Difference = sentence("the largest number is %s; against the baseline's it changes by %s, and the paper's by %s",
		f.largestAgainst(bugSetting, paperBugs), f.eachSource(func(s Source) string {
			base, here := f.bell(baselineSetting, s), f.bell(bugSetting, s)
			return signed(here.largest() - base.largest())
		}), signed(paperBugs-paperExtra))
	return e
}

func (f *Findings) scalingDelay() Experiment {
	e := f.extras(Experiment{
		Name: "scaling-delay", Title: "Scaling delay of 15 s",
		Setup:        "A job that starts or grows trains on as many nodes as before for 15 s.",
		Paper:        "0.9 additional jobs per 100 fewer to 1.8 more than in the baseline.",
		PaperNumbers: map[string]float64{"least_more": -0.9, "most_more": 1.8},
	}, delaySetting)
	e.Difference = sentence("against the paper's −0.9 to +1.8, the additional jobs change over the pools by %s",
		f.eachSource(func(s Source) string { return spanned(f.changed(delaySetting, s), signed) }))
	return e
}
