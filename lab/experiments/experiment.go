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
	Ours values `json:"ours"`

	digits digits
}

// Cells returns the result for a table: the quantity, the paper's number and those of
// the sources.
func (r *Result) Cells(sources []Source) []string {
	cells := []string{r.Quantity, r.write(r.Paper)}
	for _, source := range sources {
		cells = append(cells, r.write(r.Ours[source]))
	}
	return cells
}

// write returns numbers with their unit.
func (r *Result) write(numbers []float64) string {
	text := r.digits.writeRange(numbers)
	switch {
	case len(numbers) == 0 || r.Unit == "":
		return text
	case r.Unit == "%":
		return text + r.Unit
	default:
		return text + " " + r.Unit
	}
}

// values are numbers of the sources: one for each pool, or fewer made of those. NaN is no number. A source without numbers
// is missing.
type values map[Source][]float64

// means returns a measure of a policy on every pool.
func (m *measures) means(setting, policy string, of func(*Row) Number) values {
	found := make(values)
	for _, source := range m.sources {
		for _, nodes := range m.pools {
			found[source] = append(found[source], of(m.row(setting, source, policy, nodes)).Mean)
		}
	}
	return found
}

// decreases returns by how many per cent optimal's mean is less than greedy's on each
// pool, 0 where greedy's is 0.
func (m *measures) decreases(setting string, of func(*Row) Number) values {
	optimal, greedy := m.means(setting, optimalPolicy, of), m.means(setting, greedyPolicy, of)
	for source, means := range optimal {
		for i := range means {
			if means[i] = 100 * (1 - means[i]/greedy[source][i]); greedy[source][i] == 0 {
				means[i] = 0
			}
		}
	}
	return optimal
}

// extra returns optimal's additional jobs on each pool. Sources in which greedy has never finished 100 jobs are missing.
func (m *measures) extra(setting string) values {
	found := m.means(setting, optimalPolicy, extraJobs)
	for _, source := range m.sources {
		if m.row(setting, source, optimalPolicy, m.pools[0]).Jobs < 100 {
			delete(found, source)
		}
	}
	return found
}

// difference returns a - b, number by number.
func difference(a, b values) values {
	found := make(values)
	for source, numbers := range a {
		for i := range min(len(numbers), len(b[source])) {
			found[source] = append(found[source], numbers[i]-b[source][i])
		}
	}
	return found
}

// change returns by how many per cent a is more than b, number by number, NaN where b is 0.
func change(a, b values) values {
	found := make(values)
	for source, numbers := range a {
		for i := range min(len(numbers), len(b[source])) {
			percent := math.NaN()
			if b[source][i] != 0 {
				percent = 100 * (numbers[i]/b[source][i] - 1)
			}
			found[source] = append(found[source], percent)
		}
	}
	return found
}

// known returns the numbers that are not NaN.
func (v values) known() values {
	found := make(values)
	for source, numbers := range v {
		if numbers = slices.DeleteFunc(slices.Clone(numbers), math.IsNaN); len(numbers) > 0 {
			found[source] = numbers
		}
	}
	return found
}

// span returns the smallest and the largest number.
func (v values) span() values {
	found := v.known()
	for source, numbers := range found {
		found[source] = []float64{slices.Min(numbers), slices.Max(numbers)}
	}
	return found
}

// largest returns the largest number.
func (v values) largest() values {
	found := v.known()
	for source, numbers := range found {
		found[source] = []float64{slices.Max(numbers)}
	}
	return found
}

// at returns the number of a pool, by its position.
func (v values) at(pool int) values {
	found := v.known()
	for source, numbers := range found {
		found[source] = numbers[pool : pool+1]
	}
	return found
}

// notNegative returns how many numbers are at least 0.
func (v values) notNegative() values {
	found := v.known()
	for source, numbers := range found {
		count := 0.0
		for _, number := range numbers {
			if number >= 0 {
				count++
			}
		}
		found[source] = []float64{count}
	}
	return found
}

// poolOf returns the pool with the largest number.
func (m *measures) poolOf(v values) values {
	found := v.known()
	for source, numbers := range found {
		found[source] = []float64{float64(m.pools[slices.Index(numbers, slices.Max(numbers))])}
	}
	return found
}

// notLower returns on how many pools a mean time of optimal is not less than greedy's.
func (m *measures) notLower(name, setting string, paper []float64, of func(*Row) Number) Result {
	fewer := difference(m.means(setting, optimalPolicy, of), m.means(setting, greedyPolicy, of))
	return Result{Quantity: "pool sizes without a lower mean " + name, Paper: paper, digits: whole, Ours: fewer.notNegative()}
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
	queue, total := m.decreases(baselineSetting, queueMinutes), m.decreases(baselineSetting, totalMinutes)
	for _, source := range m.sources {
		c.series = append(c.series,
			figures.Series{Name: "queueing time, " + string(source), X: m.poolsX(), Y: queue[source]},
			figures.Series{Name: "JCT, " + string(source), X: m.poolsX(), Y: total[source]})
	}
	c.series = append(c.series, figures.Series{
		Name: "queueing time, the paper", X: []float64{paperQueuePool}, Y: []float64{paperQueueDecrease},
	})
	return c
}
