package experiments

import (
	"slices"
	"strconv"

	"github.com/elastalloc/elastalloc/lab/figures"
)

// Experiment is one of the paper's experiments, or one of ours. Field names are those
// of results.json.
type Experiment struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Results set our numbers beside the paper's, the most telling one first.
	Results []Result `json:"results"`
	// Rows are the measures behind them, and Timings those of decision times.
	Rows    []Row    `json:"rows,omitempty"`
	Timings []Timing `json:"timings,omitempty"`

	table   table
	figures []drawing
}

// Result is a quantity in the paper and in our runs: one number, or the least and the
// largest over the pools.
type Result struct {
	Quantity string `json:"quantity"`
	Unit     string `json:"unit,omitempty"`
	// Paper is empty where the paper has no number.
	Paper []float64 `json:"paper,omitempty"`
	// Ours lacks a source without a number, such as the additional jobs of a trace of
	// fewer than 100.
	Ours map[Source][]float64 `json:"ours"`

	format format
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

func (r *Result) write(values []float64) string {
	text := r.format.writeRange(values)
	if len(values) > 0 && r.Unit != "" {
		text += " " + r.Unit
	}
	return text
}

// result returns a quantity of every source.
func (m *measures) result(quantity, unit string, f format, paper []float64, ours func(Source) []float64) Result {
	r := Result{Quantity: quantity, Unit: unit, Paper: paper, Ours: make(map[Source][]float64), format: f}
	for _, source := range m.sources {
		if values := ours(source); len(values) > 0 {
			r.Ours[source] = values
		}
	}
	return r
}

// span returns the least and the largest of values, nothing if there are no values.
func span(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	return []float64{slices.Min(values), slices.Max(values)}
}

// comparison is a mean time of optimal and of greedy over the pools.
type comparison struct{ optimal, greedy []float64 }

func (m *measures) compare(setting string, source Source, of func(*Row) Number) comparison {
	return comparison{
		optimal: m.means(setting, source, optimalPolicy, of),
		greedy:  m.means(setting, source, greedyPolicy, of),
	}
}

// decreases returns by how many per cent optimal's mean is less than greedy's on each
// pool, 0 where greedy's is 0.
func (c comparison) decreases() []float64 {
	decreases := make([]float64, len(c.greedy))
	for i, greedy := range c.greedy {
		if greedy != 0 {
			decreases[i] = 100 * (1 - c.optimal[i]/greedy)
		}
	}
	return decreases
}

// notLower returns on how many pools optimal's mean is not less than greedy's.
func (c comparison) notLower() float64 {
	count := 0
	for i := range c.greedy {
		if c.optimal[i] >= c.greedy[i] {
			count++
		}
	}
	return float64(count)
}

// notLower returns on how many pools a mean time of optimal is not less than greedy's.
func (m *measures) notLower(name, setting string, paper []float64, of func(*Row) Number) Result {
	return m.result("pool sizes without a lower mean "+name, "", whole, paper, func(s Source) []float64 {
		return []float64{m.compare(setting, s, of).notLower()}
	})
}

// largest returns the position of the largest value.
func largest(values []float64) int {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return best
}

// changes returns 100 * (a/b - 1), value by value, without those where b is 0.
func changes(a, b []float64) []float64 {
	var list []float64
	for i := range a {
		if b[i] != 0 {
			list = append(list, 100*(a[i]/b[i]-1))
		}
	}
	return list
}

// differences returns a - b, value by value.
func differences(a, b []float64) []float64 {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = a[i] - b[i]
	}
	return list
}

// table is numbers laid out for readers.
type table struct {
	Header []string
	Rows   [][]string
}

// column is a column of a table over pools.
type column struct {
	header string
	cell   func(pool int) string
}

// tabulate lays out columns over the pools, those of every source side by side.
func (m *measures) tabulate(columns func(Source) []column) table {
	t := table{Header: []string{"nodes"}}
	for _, nodes := range m.pools {
		t.Rows = append(t.Rows, []string{strconv.Itoa(nodes)})
	}
	for _, source := range m.sources {
		for _, c := range columns(source) {
			t.Header = append(t.Header, string(source)+": "+c.header)
			for i := range m.pools {
				t.Rows[i] = append(t.Rows[i], c.cell(i))
			}
		}
	}
	return t
}

// column returns the column of a measure of a policy.
func (m *measures) column(
	header, setting string, source Source, policy string, of func(*Row) Number, f format,
) column {
	return column{header, func(pool int) string {
		row := m.row(setting, source, policy, m.pools[pool])
		return f.writeSpread(of(row), row.Runs)
	}}
}

// drawing is a figure that is drawn when it is asked for.
type drawing struct {
	name string
	draw func() (*figures.Figure, error)
}

// series returns a policy's measure over the pools, with its spread where several
// runs were made.
func (m *measures) series(name, setting string, source Source, policy string, of func(*Row) Number) figures.Series {
	s := figures.Series{Name: name, Minor: figures.FixedSize(policy)}
	runs := 1
	for _, nodes := range m.pools {
		row := m.row(setting, source, policy, nodes)
		n := of(row)
		runs = max(runs, row.Runs)
		s.X, s.Y, s.Spread = append(s.X, float64(nodes)), append(s.Y, n.Mean), append(s.Spread, n.Spread)
	}
	if runs == 1 {
		s.Spread = nil
	}
	return s
}

// lines returns a drawing of series over the pools.
func lines(name, title, label string, series ...figures.Series) drawing {
	return drawing{name, func() (*figures.Figure, error) {
		return figures.Lines(title, "nodes in the pool", label, series...)
	}}
}

// linesOf returns a drawing of a measure of policies over the pools.
func (m *measures) linesOf(
	name, title, label, setting string, source Source, policies []string, of func(*Row) Number,
) drawing {
	var series []figures.Series
	for _, policy := range policies {
		series = append(series, m.series(policy, setting, source, policy, of))
	}
	return lines(name+"-"+string(source), title+", "+string(source), label, series...)
}

// summary returns the drawing of what optimal saves over greedy in the baseline.
func (m *measures) summary() drawing {
	var series []figures.Series
	for _, source := range m.sources {
		for _, measure := range []struct {
			name string
			of   func(*Row) Number
		}{{"queueing time", queueMinutes}, {"total time", totalMinutes}} {
			s := figures.Series{Name: measure.name + ", " + string(source)}
			for _, nodes := range m.pools {
				s.X = append(s.X, float64(nodes))
			}
			s.Y = m.compare(baselineSetting, source, measure.of).decreases()
			series = append(series, s)
		}
	}
	series = append(series, figures.Series{
		Name: "queueing time, the paper", X: []float64{paperQueuePool}, Y: []float64{paperQueueDecrease},
	})
	return lines(summaryName, "What optimal saves over greedy", "decrease of the mean (%)", series...)
}

// experiments returns all experiments.
func (m *measures) experiments() []Experiment {
	return []Experiment{
		m.queueing(), m.totalTime(), m.additionalJobs(), m.heterogeneous(), m.etaDisturbance(),
		m.bugs(), m.scalingDelay(), m.decisionTimes(), m.variants(), m.bound(),
	}
}
