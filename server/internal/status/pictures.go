package status

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/chart"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// Limits of the charts. They show the last six hours.
const (
	columns = 90
	each    = 4 * time.Minute // covered by a column
	// maxCarried is the number of columns without decisions that show the state of the last decision.
	maxCarried = 8
	// maxBars is the maximum number of jobs in the forecast.
	maxBars = 24
	// maxTeams is the maximum number of teams, which are the teams with the most nodes.
	maxTeams = chart.Colors - 1
)

// column is the state after the last decision of a column's time, and the totals of all its decisions.
type column struct {
	number                   int64 // Unix time divided by each
	InUse, Idle              int
	Running, Paused, Waiting int
	Started, Resized, Pauses int
	Price                    float64 // NaN if it is unknown
	Objective                solver.Objective
	Slowest                  time.Duration
	By                       map[solver.BackendName]int
	Teams                    map[string]int // nodes of the groups with the most nodes
}

// past is a ring buffer of columns, indexed by their numbers.
type past [columns]column

// add adds a decision that was made at a time.
func (p *past) add(at time.Time, event *ingress.Event) {
	number := at.Unix() / int64(each/time.Second)
	if number < 0 {
		return
	}
	c := &p[number%columns]
	if c.number != number {
		*c = column{number: number, By: make(map[solver.BackendName]int)}
	}
	c.InUse, c.Running, c.Paused, c.Waiting, c.Price = 0, 0, 0, 0, math.NaN()
	snapshot, teams := snapshotOf(event), make(map[string]int)
	jobs := snapshot.GetJobs()
	for i := range event.Decision.Allocations {
		a := &event.Decision.Allocations[i]
		c.InUse += a.Nodes
		if a.Nodes > 0 && i < len(jobs) && len(snapshot.GetGroups()) > 0 {
			teams[jobs[i].GetGroupId()] += a.Nodes
		}
		switch began := a.Current > 0 || i < len(jobs) && jobs[i].GetTrainingTime().AsDuration() > 0; {
		case a.Nodes > 0:
			c.Running++
		case began:
			c.Paused++
		default:
			c.Waiting++
		}
		switch a.Change {
		case solver.ChangeKeep, solver.ChangeWait:
		case solver.ChangeStart:
			c.Started++
		case solver.ChangePreempt:
			c.Pauses++
		default:
			c.Resized++
		}
	}
	c.Idle, c.Teams = max(0, event.Nodes-c.InUse), make(map[string]int)
	for _, id := range largest(teams) {
		c.Teams[text.Shorten(id)] = teams[id]
	}
	c.Slowest = max(c.Slowest, event.Total)
	if event.Report == nil {
		return
	}
	c.By[event.Report.Backend]++
	if prices := event.Report.NodePrices; len(prices) > 0 {
		c.Price, c.Objective = 0, event.Objective
		for _, price := range prices {
			c.Price += price / float64(len(prices))
		}
	}
}

// snapshotOf returns the snapshot of a request, or nil if it has none.
func snapshotOf(event *ingress.Event) *elastallocv1.Snapshot {
	request, ok := event.Request.(interface{ GetSnapshot() *elastallocv1.Snapshot })
	if !ok {
		return nil
	}
	return request.GetSnapshot()
}

// largest returns the teams with the most nodes, largest first.
func largest(nodes map[string]int) []string {
	teams := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(nodes[b], nodes[a]), cmp.Compare(a, b))
	})
	return teams[:min(maxTeams, len(teams))]
}

// copied returns a deep copy.
func (p *past) copied() past {
	c := *p
	for i := range c {
		c[i].By = maps.Clone(c[i].By)
	}
	return c
}

// picture is a chart with its legend.
type picture struct {
	Title, Note string
	Legend      []string
	SVG         template.HTML
}

// pastRow is a row of the table with the data of the charts.
type pastRow struct {
	column
	From            time.Time
	Backends, Teams string
}

// window is the columns of the time up to now, oldest first.
type window struct {
	begin   time.Time
	columns [columns]*column // nil without a decision
}

func (p *past) window(now time.Time) *window {
	first := now.Unix()/int64(each/time.Second) - columns + 1
	w := &window{begin: time.Unix(first*int64(each/time.Second), 0).UTC()}
	for n := range &w.columns {
		number := first + int64(n)
		if c := &p[(number%columns+columns)%columns]; c.number == number && c.By != nil {
			w.columns[n] = c
		}
	}
	return w
}

// rows returns the columns with decisions, newest first.
func (w *window) rows(backends []Backend) (rows []pastRow) {
	for n, c := range slices.Backward(w.columns[:]) {
		if c == nil {
			continue
		}
		var byBackend, byTeam []string
		for _, backend := range backends {
			if c.By[backend.Name] > 0 {
				byBackend = append(byBackend, fmt.Sprintf("%s %d", backend.Name, c.By[backend.Name]))
			}
		}
		for _, team := range largest(c.Teams) {
			byTeam = append(byTeam, fmt.Sprintf("%s %d", team, c.Teams[team]))
		}
		rows = append(rows, pastRow{
			column: *c, From: w.begin.Add(time.Duration(n) * each),
			Backends: strings.Join(byBackend, ", "), Teams: strings.Join(byTeam, ", "),
		})
	}
	return rows
}

// picture returns a chart with its legend. A column without a decision shows the last one with a decision, at most
// carried columns before it.
func (w *window) picture(title, note string, carried int, layers ...layer) picture {
	t := chart.TimeSeries{Title: title + ", the last " + format.CoarseDuration(columns*each), Start: w.begin, Interval: each}
	added := picture{Title: title, Note: note}
	for _, layer := range layers {
		series := slices.Repeat([]float64{math.NaN()}, columns)
		known := -columns
		for n := range series {
			if w.columns[n] != nil {
				known = n
			}
			if n-known <= carried {
				series[n] = layer.of(w.columns[known])
			}
		}
		t.Series = append(t.Series, series)
		if len(layers) > 1 { // The title names a single layer.
			added.Legend = append(added.Legend, layer.name)
		}
	}
	added.SVG = template.HTML(t.SVG()) //nolint:gosec // SVG escapes all text.
	return added
}

// teamLayers returns a layer for each of the teams with the most nodes in all columns, and one for all others. It
// returns nil without teams.
func (w *window) teamLayers() []layer {
	nodes := make(map[string]int)
	for _, c := range &w.columns {
		if c == nil {
			continue
		}
		for _, team := range largest(c.Teams) {
			nodes[team] += c.Teams[team]
		}
	}
	var shown []layer
	for _, team := range largest(nodes) {
		shown = append(shown, layer{team, func(c *column) float64 { return float64(c.Teams[team]) }})
	}
	if len(shown) == 0 {
		return nil
	}
	return append(shown[:len(shown):len(shown)], layer{"others", func(c *column) float64 {
		others := float64(c.InUse)
		for _, team := range shown {
			others -= team.of(c)
		}
		return others
	}})
}

// objective returns the objective of the last decision with prices.
func (w *window) objective() (last solver.Objective) {
	for _, c := range &w.columns {
		if c != nil {
			last = cmp.Or(c.Objective, last)
		}
	}
	return last
}

// pictures returns charts of the time up to now, and the columns with decisions, newest first.
func (p *past) pictures(now time.Time, backends []Backend) (pictures []picture, rows []pastRow) {
	w := p.window(now)
	pictures = append(pictures, w.picture("Nodes", "", maxCarried,
		layer{"in use", func(c *column) float64 { return float64(c.InUse) }},
		layer{"idle", func(c *column) float64 { return float64(c.Idle) }}))
	if teams := w.teamLayers(); teams != nil {
		pictures = append(pictures, w.picture("Nodes by team", "", maxCarried, teams...))
	}
	var decided []layer
	for _, backend := range backends {
		decided = append(decided, layer{string(backend.Name), func(c *column) float64 { return float64(c.By[backend.Name]) }})
	}
	objective := w.objective()
	unit := (&solver.Options{Objective: objective}).Spec().Unit.Name
	pictures = append(pictures,
		w.picture("Jobs", "", maxCarried,
			layer{"running", func(c *column) float64 { return float64(c.Running) }},
			layer{"waiting", func(c *column) float64 { return float64(c.Waiting) }},
			layer{"paused", func(c *column) float64 { return float64(c.Paused) }}),
		w.picture("Resizes, starts and pauses", "", 0,
			layer{"resizes", func(c *column) float64 { return float64(c.Resized) }},
			layer{"starts", func(c *column) float64 { return float64(c.Started) }},
			layer{"pauses", func(c *column) float64 { return float64(c.Pauses) }}),
		w.picture("Decisions by backend", "", 0, decided...),
		w.picture("Slowest call", "in milliseconds", 0, layer{"", func(c *column) float64 { return 1000 * c.Slowest.Seconds() }}),
		w.picture("Price of a node", "in "+unit, maxCarried, layer{"", func(c *column) float64 {
			if c.Objective != objective {
				return math.NaN() // in another unit
			}
			return c.Price
		}}))
	return pictures, w.rows(backends)
}

// layer is a series of a chart.
type layer struct {
	name string
	of   func(*column) float64
}

// forecasts returns a chart with the forecast of jobs for a wide screen and one for a phone, or nil if there is none.
func forecasts(jobs []decidedJob) []template.HTML {
	wide, narrow := bars(jobs, 1180, 420), bars(jobs, 380, 140)
	if wide == "" {
		return nil
	}
	return []template.HTML{wide, narrow}
}

// bars returns a chart of a width, with names of another width, or "" if there is no forecast.
func bars(jobs []decidedJob, width, nameWidth int) template.HTML {
	span := time.Minute
	for i := range jobs {
		for _, t := range []*time.Duration{jobs[i].Starts, jobs[i].Ends, jobs[i].endsHigh} {
			if t != nil {
				span = max(span, *t)
			}
		}
	}
	share := func(t *time.Duration) float64 {
		if t == nil {
			return 1
		}
		return float64(*t) / float64(span)
	}
	bars := chart.Timeline{
		Title: "Start and completion of the jobs of the last decision", Width: width,
		NameWidth: nameWidth, StartLabel: "decision", Span: span, Parts: max(2, width/200),
	}
	for i := range jobs {
		job := &jobs[i]
		if job.Starts == nil || len(bars.Bars) == maxBars {
			continue
		}
		bar := chart.Bar{
			Name: job.ID, Start: share(job.Starts), End: share(job.Ends), Open: job.Ends == nil,
			Title: fmt.Sprintf("%s: starts after %s", job.ID, format.CoarseDuration(*job.Starts)),
		}
		if job.Ends != nil {
			bar.Title += ", completes after " + format.CoarseDuration(*job.Ends)
		}
		if job.endsLow != nil && job.endsHigh != nil {
			bar.Low, bar.High = share(job.endsLow), share(job.endsHigh)
		}
		bars.Bars = append(bars.Bars, bar)
	}
	if len(bars.Bars) == 0 {
		return ""
	}
	return template.HTML(bars.SVG()) //nolint:gosec // SVG escapes all text.
}
