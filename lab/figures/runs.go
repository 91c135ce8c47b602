package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// Named is a figure and the name of its files without the extension.
type Named struct {
	Name   string
	Figure *Figure
}

// measure is a measure of runs over the size of the pool. NaN is omitted.
type measure struct {
	name, title, label string
	of                 func(*statistics.Summary) float64
}

// OfRuns returns a figure for each measure that any run has, and the histogram of decision times, for the
// policies of Summary.Shown. A measure is a line over pool sizes, or a bar if there is one pool.
func OfRuns(runs []*sim.Result, summary *results.Summary) ([]Named, error) {
	const minute = 60.0
	measures := []measure{
		{"total_time", "Job completion time (JCT)", "mean JCT (min)", func(s *statistics.Summary) float64 { return s.MeanTotalSeconds / minute }},
		{"queueing_time", "Queueing time", "mean per job (min)", func(s *statistics.Summary) float64 { return s.MeanQueueSeconds / minute }},
		{"unserved_time", "Time without nodes (queue and pauses)", "mean per job (min)",
			func(s *statistics.Summary) float64 { return s.MeanUnservedSeconds / minute }},
		{"changes", "Resizes after the start", "resizes per job", (*statistics.Summary).ResizesPerJob},
		{"later", "Jobs later than under ideal fair shares", "jobs (%)", func(s *statistics.Summary) float64 { return 100 * s.LaterThanIdeal }},
		{"additional_jobs", "Additional jobs when " + summary.Baseline() + " completed 100", "per 100 jobs", summary.ExtraJobs},
		{"worst_team", "The worst team compared with its own partition", "ratio of mean JCTs", func(s *statistics.Summary) float64 {
			if s.WorstTeam == nil {
				return math.NaN()
			}
			return *s.WorstTeam
		}},
		{"utilization", "Utilization while jobs are present", "nodes in use (%)",
			func(s *statistics.Summary) float64 { return 100 * float64(s.Utilization) }},
	}
	var named []Named
	for _, m := range measures {
		series := m.series(summary)
		if len(series) == 0 {
			continue
		}
		figure, err := Lines(format.InUnits(m.title, summary.Unit),
			format.InUnits("nodes in the pool", summary.Unit), format.InUnits(m.label, summary.Unit), series...)
		if len(summary.Pools()) == 1 {
			figure, err = Bars(format.InUnits(m.title, summary.Unit), format.InUnits(m.label, summary.Unit), series)
		}
		if err != nil {
			return nil, err
		}
		named = append(named, Named{Name: m.name, Figure: figure})
	}
	times, err := distribution(runs, summary)
	if err != nil {
		return nil, err
	}
	return appendDecisionTimes(append(named, Named{Name: "distribution", Figure: times}), runs, summary)
}

// appendDecisionTimes appends the histogram of decision times.
func appendDecisionTimes(named []Named, runs []*sim.Result, summary *results.Summary) ([]Named, error) {
	var times []Sample
	for _, policy := range summary.Shown() {
		sample := Sample{Name: policy}
		for _, run := range runs {
			if run.Policy == policy {
				sample.Values = append(sample.Values, statistics.SolveTimes(run)...)
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
	for n, policy := range summary.Shown() {
		s := Series{Name: policy, Style: n + 1, Minor: FixedSize(policy)}
		var points [][2]float64
		for _, nodes := range summary.PoolsOf(policy) {
			if y := m.of(summary.Run(policy, nodes)); !math.IsNaN(y) {
				points = append(points, [2]float64{float64(nodes), y})
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

// FixedSize reports whether a policy allocates requested nodes only. Results of such policies are often far
// from all others.
func FixedSize(policy string) bool {
	p, err := catalog.Find(policy)
	return err == nil && (p.FixedSize || p.Name == catalog.Recorded)
}

// smallestSlowdown is the smallest slowdown in a figure. A recorded job may be faster than alone in the pool.
const smallestSlowdown = 0.1

// Gantt returns a Gantt chart of the jobs of each run, with a common scale. Each job is a line, in the
// order of submission. It is thin and gray without nodes, and darker for more nodes. If there are more
// than 200 jobs, the charts show the busiest tenth of the time under the first run. unit is the name of a
// node.
func Gantt(unit string, runs ...*sim.Result) []Named {
	most, last := 1, lastEnd(runs)
	for _, run := range runs {
		for i := range run.Jobs {
			for _, held := range run.Jobs[i].Nodes {
				most = max(most, held.Nodes)
			}
		}
	}
	scale, name := timeScale(last)
	from, until, part := time.Duration(0), last, ""
	if len(runs) > 0 && len(runs[0].Jobs) > maxChartJobs {
		from, until = busiest(runs[0], last)
		part = ", busiest tenth"
	}
	line := func(nodes int) plot.Thumbnailer { return &plotter.Line{LineStyle: ganttStyle(nodes, most)} }
	var named []Named
	for _, run := range runs {
		f := newFigure(fmt.Sprintf("Jobs under %s, %s%s", run.Policy, format.InUnits(format.Plural(run.Nodes, "node"), unit), part),
			name+" since the first submission", "jobs by submission")
		jobs := presentJobs(run, from, until)
		g := gantt{jobs, most, scale, from, until}
		f.plot.Add(g)
		f.plot.X.Min, f.plot.X.Max = g.at(from), g.at(until)
		f.plot.Y.Tick.Marker = plot.ConstantTicks{}
		f.plot.X.Tick.Marker = plot.TickerFunc(roundTicks)
		f.padAxes()
		f.height = min(16*vg.Centimeter, max(9*vg.Centimeter, 6*vg.Centimeter+vg.Points(0.8)*vg.Length(len(jobs))))
		f.legend.Add(format.InUnits("no nodes", unit), line(0))
		for nodes := 1; nodes <= most; nodes *= 2 {
			f.legend.Add(format.InUnits(format.Plural(nodes, "node"), unit), line(nodes))
		}
		named = append(named, Named{Name: "jobs_" + fileName(run.Policy), Figure: f})
	}
	return named
}

type gantt struct {
	jobs        []sim.JobResult
	most        int
	unit        time.Duration // of the x axis
	from, until time.Duration // the time that is shown
}

func (g gantt) at(t time.Duration) float64 { return float64(t) / float64(g.unit) }

// ganttStyle returns the line style for a number of nodes.
func ganttStyle(nodes, most int) draw.LineStyle {
	if nodes == 0 {
		return draw.LineStyle{Color: color.Gray{Y: 0xb0}, Width: vg.Points(0.3)}
	}
	// From light to dark blue, as many steps as doublings.
	share := math.Log2(float64(nodes)+1) / math.Log2(float64(most)+1)
	mix := func(light, dark float64) uint8 { return uint8(light + share*(dark-light)) }
	return draw.LineStyle{Color: color.RGBA{mix(0xa6, 0x08), mix(0xc8, 0x30), mix(0xe6, 0x6b), 0xff}, Width: vg.Points(1.6)}
}

// DataRange returns the ranges of the axes.
func (g gantt) DataRange() (xmin, xmax, ymin, ymax float64) {
	return g.at(g.from), g.at(g.until), -float64(len(g.jobs)), 1
}

// Plot renders the jobs, the first at the top.
func (g gantt) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	// As thick as the room allows.
	thickest := min(vg.Points(4), 0.8*c.Size().Y/vg.Length(max(1, len(g.jobs))))
	for i := range g.jobs {
		job := &g.jobs[i]
		line := func(nodes int, from, to time.Duration) {
			style := ganttStyle(nodes, g.most)
			if nodes > 0 {
				style.Width = thickest
			}
			at := y(-float64(i))
			if from, to = max(from, g.from), min(to, g.until); from < to {
				c.StrokeLine2(style, x(g.at(from)), at, x(g.at(to)), at)
			}
		}
		at, nodes := job.Submit, 0
		for _, held := range job.Nodes {
			if held.At > at {
				line(nodes, at, held.At)
			}
			at, nodes = held.At, held.Nodes
		}
	}
}

// slowdownGroups is the number of groups of SlowdownByLength.
const slowdownGroups = 10

// SlowdownByLength plots the median and the 95th percentile of the slowdown for each tenth of the jobs, in
// ascending order of their time alone in the pool. A policy has the color of its position in policies.
func SlowdownByLength(policies []string, runs ...*sim.Result) (median, tail *Figure, err error) {
	var medians, tails []Series
	for _, run := range runs {
		jobs := slices.Clone(run.Jobs)
		slices.SortStableFunc(jobs, func(a, b sim.JobResult) int { return cmp.Compare(a.Alone, b.Alone) })
		m := Series{Name: run.Policy, Style: slices.Index(policies, run.Policy) + 1}
		p := m
		groups := min(slowdownGroups, len(jobs))
		for g := range groups {
			var values []float64
			for _, job := range jobs[g*len(jobs)/groups : (g+1)*len(jobs)/groups] {
				values = append(values, job.Slowdown())
			}
			x := float64(g + 1)
			m.X, m.Y = append(m.X, x), append(m.Y, logSlowdown(statistics.Quantile(values, 0.5)))
			p.X, p.Y = append(p.X, x), append(p.Y, logSlowdown(statistics.Quantile(values, 0.95)))
		}
		medians, tails = append(medians, m), append(tails, p)
	}
	const label = "tenth of the jobs, the shortest first"
	if median, err = Lines("Slowdown by length: median", label, "JCT by time alone", medians...); err != nil {
		return nil, nil, err
	}
	if tail, err = Lines("Slowdown by length: 95th percentile", label, "JCT by time alone", tails...); err != nil {
		return nil, nil, err
	}
	for _, figure := range []*Figure{median, tail} {
		figure.plot.Y.Tick.Marker = logTicks(1, 2, 5)
	}
	return median, tail, nil
}

// logSlowdown returns where a slowdown is on a logarithmic axis.
func logSlowdown(slowdown float64) float64 { return math.Log10(max(slowdown, smallestSlowdown)) }

// Bars plots a bar for each series, with its first value. A series has the color of other figures.
func Bars(title, label string, series []Series) (*Figure, error) {
	f := newFigure(title, label, "")
	var names []string
	var values []float64
	for _, s := range series {
		names, values = append(names, s.Name), append(values, s.Y[0])
	}
	for i, value := range values {
		// From top to bottom, with the colors of other figures.
		bar, err := plotter.NewBarChart(plotter.Values{value}, vg.Points(18))
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin = true, float64(len(values)-1-i)
		bar.Color, bar.LineStyle.Width = barStyle(series, i).line.Color, 0
		text, err := plotter.NewLabels(plotter.XYLabels{
			XYs: plotter.XYs{{X: value, Y: bar.XMin}}, Labels: []string{fmt.Sprintf("%.1f", value)},
		})
		if err != nil {
			return nil, err
		}
		text.TextStyle[0].YAlign = draw.YCenter
		text.Offset.X = vg.Points(4)
		text.TextStyle[0].Font = f.plot.X.Tick.Label.Font
		f.plot.Add(bar, text)
	}
	ticks := make(plot.ConstantTicks, len(names))
	for i, name := range names {
		// Spaces leave room for a mark: in a browser's font a name may be wider.
		ticks[i] = plot.Tick{Value: float64(len(names) - 1 - i), Label: name + "     "}
	}
	f.plot.Y.Tick.Marker = ticks
	f.plot.Y.Tick.Width = 0
	f.plot.Y.Min, f.plot.Y.Max = -0.7, float64(len(names))-0.3
	f.plot.X.Min, f.plot.X.Max = 1.12*slices.Min(append([]float64{0}, values...)), 1.18*slices.Max(append([]float64{1e-9}, values...))
	f.plot.X.Tick.Marker = plot.TickerFunc(roundTicks)
	return f, nil
}

// barStyle returns the style of a bar: that of its series, otherwise that of its position.
func barStyle(series []Series, i int) style {
	if series[i].Style > 0 {
		i = series[i].Style - 1
	}
	return styleOf(i)
}

// shortestTime is the shortest completion time in a figure with a logarithmic axis, in minutes.
const shortestTime = 0.1

// distribution plots the distribution of completion times for each policy of Summary.Shown on the smallest pool.
func distribution(runs []*sim.Result, summary *results.Summary) (*Figure, error) {
	const step = 0.05
	nodes := slices.Min(summary.Pools())
	var series []Series
	for n, policy := range summary.Shown() {
		for _, run := range runs {
			if run.Policy != policy || run.Nodes != nodes || len(run.Jobs) == 0 {
				continue
			}
			var times []float64
			for i := range run.Jobs {
				times = append(times, run.Jobs[i].TotalTime().Minutes())
			}
			s := Series{Name: policy, Style: n + 1}
			for k := range int(math.Round(1/step)) + 1 {
				share := step * float64(k)
				s.X, s.Y = append(s.X, math.Log10(max(statistics.Quantile(times, min(share, 1)), shortestTime))), append(s.Y, 100*share)
			}
			series = append(series, s)
		}
	}
	figure, err := Lines(format.InUnits(fmt.Sprintf("Distribution of JCT on %s", format.Plural(nodes, "node")), summary.Unit),
		"JCT (min)", "jobs complete (%)", series...)
	if err == nil {
		figure.plot.X.Tick.Marker = logTicks(1)
	}
	return figure, err
}

// fileName returns the name of a policy as a part of a file name. Programs and services have other characters.
func fileName(policy string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, policy)
}
