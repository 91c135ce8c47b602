package experiments

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/lab/figures"
)

// Experiment is an experiment of the paper or an additional one, as written to results.json.
type Experiment struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Results compare our numbers with the paper, the most important number first.
	Results []Result `json:"results"`
	// Rows are the measures behind them, and Timings those of decision times.
	Rows    []Row    `json:"rows,omitempty"`
	Timings []Timing `json:"timings,omitempty"`

	// text describes the experiment, and charts show its results.
	text   string
	charts []chart
}

// Result is a quantity in the paper and in our runs: one number, or the smallest and the largest over the
// pools.
type Result struct {
	Quantity string `json:"quantity"`
	Unit     string `json:"unit,omitempty"`
	// Paper is empty if the paper has no number.
	Paper []float64 `json:"paper,omitempty"`
	// Ours lacks a source without a number, such as the additional jobs of a trace of
	// fewer than 100.
	Ours map[Source][]float64 `json:"ours"`

	digits digits
}

// Cells returns the result for a table: the quantity, the paper's number and those of
// the sources.
func (r *Result) Cells(sources []Source) []string {
	write := func(values []float64) string {
		text := r.digits.writeRange(values)
		switch {
		case len(values) == 0 || r.Unit == "":
		case r.Unit == "%":
			text += r.Unit
		default:
			text += " " + r.Unit
		}
		return text
	}
	cells := []string{r.Quantity, write(r.Paper)}
	for _, source := range sources {
		cells = append(cells, write(r.Ours[source]))
	}
	return cells
}

// numbers works out numbers from the runs of a source: one for each pool, or fewer made of
// those. NaN is no number.
type numbers func(Source) []float64

// result returns a quantity of every source.
func (m *measures) result(quantity, unit string, d digits, paper []float64, of numbers) Result {
	r := Result{Quantity: quantity, Unit: unit, Paper: paper, Ours: make(map[Source][]float64), digits: d}
	for _, source := range m.sources {
		if values := of(source); len(values) > 0 {
			r.Ours[source] = values
		}
	}
	return r
}

// means returns a measure of a policy on every pool.
func (m *measures) means(setting, policy string, of func(*Row) Number) numbers {
	return func(s Source) []float64 {
		values := make([]float64, len(m.pools))
		for i, nodes := range m.pools {
			values[i] = of(m.row(setting, s, policy, nodes)).Mean
		}
		return values
	}
}

// decreases returns by how many per cent optimal's mean is less than greedy's on each
// pool, 0 where greedy's is 0.
func (m *measures) decreases(setting string, of func(*Row) Number) numbers {
	return combine(m.means(setting, optimalPolicy, of), m.means(setting, greedyPolicy, of), func(optimal, greedy float64) float64 {
		if greedy == 0 {
			return 0
		}
		return 100 * (1 - optimal/greedy)
	})
}

// extra returns optimal's additional jobs on each pool; nothing where greedy has never
// finished 100 jobs.
func (m *measures) extra(setting string) numbers {
	means := m.means(setting, optimalPolicy, extraJobs)
	return func(s Source) []float64 {
		if m.row(setting, s, optimalPolicy, m.pools[0]).Jobs < 100 {
			return nil
		}
		return means(s)
	}
}

// combine works out numbers from two, value by value.
func combine(a, b numbers, f func(a, b float64) float64) numbers {
	return func(s Source) []float64 {
		left, right := a(s), b(s)
		values := make([]float64, min(len(left), len(right)))
		for i := range values {
			values[i] = f(left[i], right[i])
		}
		return values
	}
}

// difference is a - b, and change by how many per cent a is more than b.

func difference(a, b float64) float64 { return a - b }

func change(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return 100 * (a/b - 1)
}

// reduce makes one list of numbers into another, an empty one into none.
func reduce(of numbers, f func([]float64) []float64) numbers {
	return func(s Source) []float64 {
		if values := slices.DeleteFunc(of(s), math.IsNaN); len(values) > 0 {
			return f(values)
		}
		return nil
	}
}

// span returns the least and the largest number, and most the largest.

func span(of numbers) numbers {
	return reduce(of, func(values []float64) []float64 { return []float64{slices.Min(values), slices.Max(values)} })
}

func most(of numbers) numbers {
	return reduce(of, func(values []float64) []float64 { return []float64{slices.Max(values)} })
}

// at returns the number of a pool, by its position.
func at(of numbers, pool int) numbers {
	return reduce(of, func(values []float64) []float64 { return values[pool : pool+1] })
}

// poolOf returns the pool with the largest number.
func (m *measures) poolOf(of numbers) numbers {
	return reduce(of, func(values []float64) []float64 {
		return []float64{float64(m.pools[slices.Index(values, slices.Max(values))])}
	})
}

// notLower returns on how many pools a mean time of optimal is not less than greedy's.
func (m *measures) notLower(name, setting string, paper []float64, of func(*Row) Number) Result {
	fewer := combine(m.means(setting, optimalPolicy, of), m.means(setting, greedyPolicy, of), difference)
	return m.result("pool sizes without a lower mean "+name, "", whole, paper, reduce(fewer, func(values []float64) []float64 {
		return []float64{float64(len(slices.DeleteFunc(values, func(v float64) bool { return v < 0 })))}
	}))
}

// chart is the data of a figure: series over the pools, or samples of decision times.
type chart struct {
	name, title, label string
	series             []figures.Series
	samples            []figures.Sample
}

func (c *chart) draw() (figures.Named, error) {
	named := figures.Named{Name: "figure-" + c.name}
	var err error
	if c.samples != nil {
		named.Figure, err = figures.DecisionTimes(c.title, c.samples...)
	} else {
		named.Figure, err = figures.Lines(c.title, "nodes in the pool", c.label, c.series...)
	}
	return named, err
}

// series returns a policy's measure over the pools, with its spread where several
// runs were made.
func (m *measures) series(name, setting string, source Source, policy string, of func(*Row) Number) figures.Series {
	s := figures.Series{Name: name, Minor: figures.FixedSize(policy), X: m.poolsX()}
	runs := 1
	for _, nodes := range m.pools {
		row := m.row(setting, source, policy, nodes)
		n := of(row)
		runs = max(runs, row.Runs)
		s.Y, s.Spread = append(s.Y, n.Mean), append(s.Spread, n.Spread)
	}
	if runs == 1 {
		s.Spread = nil
	}
	return s
}

func (m *measures) poolsX() []float64 {
	x := make([]float64, len(m.pools))
	for i, nodes := range m.pools {
		x[i] = float64(nodes)
	}
	return x
}

// chartsOf returns a chart of a measure of policies for each source.
func (m *measures) chartsOf(name, title, label, setting string, policies []string, of func(*Row) Number) []chart {
	var charts []chart
	for _, source := range m.sources {
		c := chart{name: name + "-" + string(source), title: title + ", " + string(source), label: label}
		for _, policy := range policies {
			c.series = append(c.series, m.series(policy, setting, source, policy, of))
		}
		charts = append(charts, c)
	}
	return charts
}

// summary returns the chart of what optimal saves over greedy in the baseline.
func (m *measures) summary() chart {
	c := chart{name: "summary", title: "What optimal saves over greedy", label: "decrease of the mean (%)"}
	for _, source := range m.sources {
		c.series = append(c.series,
			figures.Series{Name: "queueing time, " + string(source), X: m.poolsX(), Y: m.decreases(baselineSetting, queueMinutes)(source)},
			figures.Series{Name: "JCT, " + string(source), X: m.poolsX(), Y: m.decreases(baselineSetting, totalMinutes)(source)})
	}
	c.series = append(c.series, figures.Series{
		Name: "queueing time, the paper", X: []float64{paperQueuePool}, Y: []float64{paperQueueDecrease},
	})
	return c
}
