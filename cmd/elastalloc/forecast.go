package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/chart"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// The output formats of forecast in addition to table and json.
const (
	outputSVG  = "svg"
	outputHTML = "html"
)

func newForecastCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	var cadence, until time.Duration
	var sent elastallocv1.ForecastRequest
	command := &cobra.Command{
		Use:   "forecast -f FILE",
		Short: "Forecast when the jobs of one snapshot start and complete",
		Long: `Simulate the cluster from one snapshot on, with all later decisions, in this
process or at a server, and print when each job starts and completes.

The input is an AllocateRequest in protojson. Flags override its options. With
--eta-error, --arrivals-per-hour or jobs with an eta_error, the remaining work
of the jobs is random, and the times are medians of several simulations. The
chart then shows the 80% intervals of the times.`,
		Example: `  elastalloc forecast -f request.json
  elastalloc forecast -f request.json --eta-error 0.2 -o svg > forecast.svg`,
		RunE: f.run(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (result, error) {
			sent.Snapshot, sent.Options = request.GetSnapshot(), request.GetOptions()
			if cmd.Flags().Changed("cadence") {
				sent.Cadence = durationpb.New(cadence)
			}
			if cmd.Flags().Changed("until") {
				sent.Until = durationpb.New(until)
			}
			response, err := allocator.Forecast(cmd.Context(), &sent)
			l := forecastList(response)
			return result{message: response, list: l, format: func(screen cli.Screen) (string, error) {
				if f.output == cli.OutputTable {
					return forecastText(response, l, screen), nil
				}
				return drawForecast(request.GetSnapshot().GetId(), f.unit, response, f.output == outputHTML)
			}}, f.requestError(cmd.Context(), err)
		}),
	}
	f.add(command, outputSVG, outputHTML)
	f.addOptions(command, analysisBudget)
	f.addList(command, forecastColumns())
	cli.MarkRequired(command, "file")
	flags := command.Flags()
	flags.DurationVar(&cadence, "cadence", 0, "time between two decisions (default the step of the horizon)")
	flags.BoolVar(&sent.EveryEvent, "every-event", false, "also decide 1s after each completion of a job")
	flags.Float64Var(&sent.EtaError, "eta-error", 0, "relative error of remaining ETAs, 0.2 for 20%")
	flags.Float64Var(&sent.ArrivalsPerHour, "arrivals-per-hour", 0, "rate of submissions, of jobs like the jobs of the snapshot")
	flags.Int32Var(&sent.Samples, "samples", 0, "number of simulations (default 20 for random times, otherwise 1)")
	flags.Uint64Var(&sent.Seed, "seed", 0, "seed of the random numbers")
	flags.DurationVar(&until, "until", 0, "maximum simulated time (default 30 days)")
	return command
}

// gantt is the data of a Gantt chart.
type gantt struct {
	jobs   []*elastallocv1.JobForecast
	span   time.Duration // length of the time axis
	ranges bool          // starts and completions are intervals
}

func newGantt(response *elastallocv1.ForecastResponse) gantt {
	g := gantt{jobs: response.GetJobs()}
	for _, job := range g.jobs {
		for _, t := range []*durationpb.Duration{job.GetStart(), job.GetEnd(), job.GetStartHigh(), job.GetEndHigh()} {
			g.span = max(g.span, t.AsDuration())
		}
		g.ranges = g.ranges || job.GetEndLow().AsDuration() != job.GetEndHigh().AsDuration()
	}
	g.span = max(g.span, time.Minute)
	return g
}

// at returns the position of a time on a chart of a width, or the width if the time is unset.
func (g *gantt) at(t *durationpb.Duration, width float64) float64 {
	if t == nil {
		return width
	}
	return max(0, min(1, t.AsDuration().Seconds()/g.span.Seconds())) * width
}

// when formats a time: "now", a duration, or a dash if it is unset.
func when(t *durationpb.Duration) string {
	switch {
	case t == nil:
		return "–"
	case t.AsDuration() == 0:
		return "now"
	default:
		return format.CoarseDuration(t.AsDuration())
	}
}

// between formats an interval, or one time if both ends have the same text.
func between(low, high *durationpb.Duration) string {
	if when(low) == when(high) {
		return when(low)
	}
	return when(low) + "–" + when(high)
}

// forecastColumns are the columns of the list of forecast.
func forecastColumns() []string {
	return []string{"job_id", "start_s", "start_low_s", "start_high_s", "end_s", "end_low_s", "end_high_s", "resizes"}
}

func forecastList(response *elastallocv1.ForecastResponse) *list {
	return newList(forecastColumns(), len(response.GetJobs()), func(i int) []string {
		job := response.GetJobs()[i]
		row := []string{job.GetJobId()}
		for _, t := range []*durationpb.Duration{
			job.GetStart(), job.GetStartLow(), job.GetStartHigh(), job.GetEnd(), job.GetEndLow(), job.GetEndHigh(),
		} {
			value := ""
			if t != nil {
				value = seconds(t.AsDuration())
			}
			row = append(row, value)
		}
		return append(row, number(job.GetResizes()))
	})
}

// forecastText returns a table of the jobs of a list with a Gantt chart.
func forecastText(response *elastallocv1.ForecastResponse, l *list, screen cli.Screen) string {
	g := newGantt(response)
	t := screen.NewTable()
	t.Clipped[0] = true
	header := []string{"JOB", "STARTS", "ENDS"}
	width := cmp.Or(screen.Width, cli.DefaultWidth) - 46 // leaves space for the other columns
	if g.ranges {
		header, width = append(header, "80% RANGE"), width-14
	}
	width = max(minBar, width)
	scale := "0" + strings.Repeat(" ", max(1, width-1-len(format.CoarseDuration(g.span)))) + format.CoarseDuration(g.span)
	t.AddRow(screen.Bold, append(header, scale)...)
	for _, i := range l.order {
		job := g.jobs[i]
		style := cli.Plain
		if job.GetStart() == nil {
			style = screen.Dim
		}
		cells := []string{job.GetJobId(), when(job.GetStart()), when(job.GetEnd())}
		if g.ranges {
			cells = append(cells, between(job.GetEndLow(), job.GetEndHigh()))
		}
		t.AddRow(style, append(cells, g.bar(job, width))...)
	}
	summary := screen.NewTable()
	if n := len(g.jobs); n > 0 {
		total, queue := means(response)
		summary.AddRow(cli.Plain, "mean", fmt.Sprintf("%s to the completion, %s to the first nodes", total, queue))
	}
	summary.AddRow(cli.Plain, "decisions", strconv.FormatInt(response.GetDecisions(), 10))
	if response.GetIfNothingElse() {
		summary.AddRow(cli.Plain, "condition", "no other job is submitted (see --arrivals-per-hour)")
	}
	if response.GetStalled() {
		summary.AddRow(screen.Yellow, "stalled", stalled)
	} else if !response.GetComplete() {
		summary.AddRow(screen.Yellow, "incomplete",
			"the simulation stopped at the time budget or at 200,000 decisions: increase --budget or --cadence")
	}
	return t.String() + l.note() + "\n" + summary.String()
}

// minBar is the minimum width of the bars of a chart in a table.
const minBar = 20

// stalled explains a forecast that stalled.
const stalled = "no job makes progress, so the simulation stopped: jobs without a completion time " +
	"never complete with these options and size limits, or restart for longer than 1,000 decisions"

// means returns the mean times to the completion and to the first nodes, or dashes if there are none.
func means(f *elastallocv1.ForecastResponse) (total, queue string) {
	mean := func(of *durationpb.Duration, time func(*elastallocv1.JobForecast) *durationpb.Duration) string {
		isSet := func(job *elastallocv1.JobForecast) bool { return time(job) != nil }
		if of.AsDuration() == 0 && !slices.ContainsFunc(f.GetJobs(), isSet) {
			return format.None
		}
		return format.CoarseDuration(of.AsDuration())
	}
	return mean(f.GetMeanTotal(), (*elastallocv1.JobForecast).GetEnd), mean(f.GetMeanQueue(), (*elastallocv1.JobForecast).GetStart)
}

// bar returns the bar of a job: dots while it waits, blocks while it trains, and lighter blocks for the 80%
// interval of its completion.
func (g *gantt) bar(job *elastallocv1.JobForecast, width int) string {
	cells := []rune(strings.Repeat(" ", width))
	fill := func(from, to float64, r rune) {
		for n := int(from); n < min(width, max(int(to+0.5), int(from)+1)); n++ {
			cells[n] = r
		}
	}
	start, end := g.at(job.GetStart(), float64(width)), g.at(job.GetEnd(), float64(width))
	if start >= 0.5 {
		fill(0, start, '·')
	}
	if job.GetStart() != nil {
		fill(start, end, '█')
		if g.ranges {
			fill(max(start, g.at(job.GetEndLow(), float64(width))), g.at(job.GetEndHigh(), float64(width)), '▒')
		}
	}
	return string(cells)
}

//go:embed gantt.html.tmpl
var ganttTemplate string

// drawForecast returns a chart as SVG, or as an HTML page.
func drawForecast(snapshot, unit string, response *elastallocv1.ForecastResponse, page bool) (string, error) {
	g := newGantt(response)
	title := "Forecast"
	if snapshot != "" {
		title = "Forecast of " + cli.Clip(snapshot, 60)
	}
	total, queue := means(response)
	summary := fmt.Sprintf("%d jobs, on average %s to the completion and %s to the first nodes; %d decisions",
		len(g.jobs), total, queue, response.GetDecisions())
	summary = format.InUnits(summary, unit)
	if g.ranges {
		summary += "; yellow: 80% interval of the completion"
	}
	if response.GetIfNothingElse() {
		summary += "; if no other job is submitted"
	}
	if response.GetStalled() {
		summary += "; " + stalled
	}
	bars := chart.Timeline{Title: title + ": " + summary, Width: 880, NameWidth: 220, StartLabel: "now", Span: g.span, Parts: 4}
	for _, job := range g.jobs {
		bar := chart.Bar{
			Name: job.GetJobId(), Start: g.at(job.GetStart(), 1), End: g.at(job.GetEnd(), 1),
			Hidden: job.GetStart() == nil, Open: job.GetEnd() == nil,
			Title: fmt.Sprintf("%s: starts %s, completes %s", cli.Clip(job.GetJobId(), 60), when(job.GetStart()), when(job.GetEnd())),
		}
		if g.ranges && job.GetStart() != nil {
			bar.Low, bar.High = g.at(job.GetEndLow(), 1), g.at(job.GetEndHigh(), 1)
			bar.Title += ", 80% interval " + between(job.GetEndLow(), job.GetEndHigh())
		}
		bars.Bars = append(bars.Bars, bar)
	}
	if !page {
		return bars.SVG(), nil
	}
	t, err := template.New("gantt").Parse(ganttTemplate)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = t.Execute(&text, struct {
		Title, Summary string
		Cut            bool
		SVG            template.HTML
	}{title, summary, !response.GetComplete() && !response.GetStalled(), template.HTML(bars.SVG())}) //nolint:gosec // SVG escapes all text.
	return text.String(), err
}
