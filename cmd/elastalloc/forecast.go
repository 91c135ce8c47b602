package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/chart"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// The output formats of forecast beside table and json.
const (
	outputSVG  = "svg"
	outputHTML = "html"
)

func newForecastCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	var cadence, until time.Duration
	var asked elastallocv1.ForecastRequest
	command := &cobra.Command{
		Use:   "forecast -f FILE",
		Short: "Say when the jobs of one snapshot start and end",
		Long: `Simulate the cluster from one snapshot on, to the second, in this process or at
a server, deciding again and again: when each job starts and ends.

The input is an AllocateRequest in protojson. Flags win over the options in it.
With --eta-error or --arrivals-per-hour, or jobs that have an eta_error, times
are medians over several simulations in which what is really left of each job is
drawn, and the chart shows from when to when eight in ten of them start and end.`,
		Example: `  elastalloc forecast -f request.json
  elastalloc forecast -f request.json --eta-error 0.2 -o svg > forecast.svg`,
		RunE: f.asking(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (answer, error) {
			asked.Snapshot, asked.Options = request.GetSnapshot(), request.GetOptions()
			if cmd.Flags().Changed("cadence") {
				asked.Cadence = durationpb.New(cadence)
			}
			if cmd.Flags().Changed("until") {
				asked.Until = durationpb.New(until)
			}
			response, err := allocator.Forecast(cmd.Context(), &asked)
			return answer{message: response, show: func(screen cli.Screen) (string, error) {
				if f.output == cli.OutputTable {
					return forecastText(response, screen), nil
				}
				return drawForecast(request.GetSnapshot().GetId(), f.unit, response, f.output == outputHTML)
			}}, f.requestError(cmd.Context(), err)
		}),
	}
	f.add(command, outputSVG, outputHTML)
	f.addOptions(command, wholeBudget)
	cli.MarkRequired(command, "file")
	flags := command.Flags()
	flags.DurationVar(&cadence, "cadence", 0, "time between two decisions (default the step of the horizon)")
	flags.BoolVar(&asked.EveryEvent, "every-event", false, "decide a second after each end of a job, too")
	flags.Float64Var(&asked.EtaError, "eta-error", 0, "how far remaining ETAs may be off, 0.2 for 20 %")
	flags.Float64Var(&asked.ArrivalsPerHour, "arrivals-per-hour", 0, "submissions to expect, of jobs like those of the snapshot")
	flags.Int32Var(&asked.Samples, "samples", 0, "number of simulations (default 20 where anything is drawn, else 1)")
	flags.Uint64Var(&asked.Seed, "seed", 0, "seed of what is drawn")
	flags.DurationVar(&until, "until", 0, "how far to simulate (default 30 days)")
	return command
}

// gantt places times on a chart.
type gantt struct {
	jobs   []*elastallocv1.JobForecast
	span   time.Duration // what the chart shows
	ranges bool          // starts and ends are ranges
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

// at returns where a time is on a chart of the given width; the end for one that is unset.
func (g *gantt) at(t *durationpb.Duration, width float64) float64 {
	if t == nil {
		return width
	}
	return max(0, min(1, t.AsDuration().Seconds()/g.span.Seconds())) * width
}

// when returns a time for reading: "now", a span, or a dash where it is unset.
func when(t *durationpb.Duration) string {
	switch {
	case t == nil:
		return "–"
	case t.AsDuration() == 0:
		return "now"
	default:
		return format.Span(t.AsDuration())
	}
}

// between returns a range of times, or one time where the two are one.
func between(low, high *durationpb.Duration) string {
	if when(low) == when(high) {
		return when(low)
	}
	return when(low) + "–" + when(high)
}

// forecastText draws when each job waits and trains.
func forecastText(response *elastallocv1.ForecastResponse, screen cli.Screen) string {
	g := newGantt(response)
	t := screen.NewTable()
	t.Clipped[0] = true
	header := []string{"JOB", "STARTS", "ENDS"}
	width := 34
	if g.ranges {
		header, width = append(header, "8 IN 10 END"), 20
	}
	scale := "0" + strings.Repeat(" ", max(1, width-1-len(format.Span(g.span)))) + format.Span(g.span)
	t.AddRow(screen.Bold, append(header, scale)...)
	for _, job := range g.jobs {
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
	text := t.String() + "\n"
	if n := len(g.jobs); n > 0 {
		total, queue := means(response)
		text += screen.InUnits(fmt.Sprintf("mean        %s to the end, %s to the first nodes\n", total, queue))
	}
	text += fmt.Sprintf("decisions   %d\n", response.GetDecisions())
	if response.GetIfNothingElse() {
		text += "holds       if nothing else is submitted (see --arrivals-per-hour)\n"
	}
	if response.GetStalled() {
		text += screen.Yellow.Paint("stalled     "+stalled) + "\n"
	} else if !response.GetComplete() {
		text += screen.Yellow.Paint("incomplete  the time budget or 200,000 decisions ended the simulation: --budget gives it more time, a longer --cadence takes fewer") + "\n"
	}
	return text
}

// stalled explains a forecast that stalled.
const stalled = "no job made progress in 1,000 decisions in a row, so the simulation stopped: jobs without an end never complete under these options, or restart for longer than that"

// means returns the mean times to the end and to the first nodes, where there are any.
func means(f *elastallocv1.ForecastResponse) (total, queue string) {
	mean := func(of *durationpb.Duration, time func(*elastallocv1.JobForecast) *durationpb.Duration) string {
		comes := func(job *elastallocv1.JobForecast) bool { return time(job) != nil }
		if of.AsDuration() == 0 && !slices.ContainsFunc(f.GetJobs(), comes) {
			return format.None
		}
		return format.Span(of.AsDuration())
	}
	return mean(f.GetMeanTotal(), (*elastallocv1.JobForecast).GetEnd), mean(f.GetMeanQueue(), (*elastallocv1.JobForecast).GetStart)
}

// bar draws a job: dots while it waits, blocks while it trains, lighter ones from when to
// when eight in ten simulations end it.
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

// drawForecast returns a chart as SVG, or as a page that holds one.
func drawForecast(snapshot, unit string, response *elastallocv1.ForecastResponse, page bool) (string, error) {
	g := newGantt(response)
	title := "Forecast"
	if snapshot != "" {
		title = "Forecast of " + cli.Clip(snapshot, 60)
	}
	total, queue := means(response)
	summary := fmt.Sprintf("%d jobs, on average %s to the end and %s to the first nodes; %d decisions", len(g.jobs), total, queue, response.GetDecisions())
	summary = format.InUnits(summary, unit)
	if g.ranges {
		summary += "; yellow from when to when eight in ten simulations end a job"
	}
	if response.GetIfNothingElse() {
		summary += "; if nothing else is submitted"
	}
	if response.GetStalled() {
		summary += "; " + stalled
	}
	drawn := chart.Bars{Title: title + ": " + summary, Width: 880, Label: 220, Begin: "now", Span: g.span, Parts: 4}
	for _, job := range g.jobs {
		bar := chart.Bar{
			Name: job.GetJobId(), Start: g.at(job.GetStart(), 1), End: g.at(job.GetEnd(), 1),
			Never: job.GetStart() == nil, Open: job.GetEnd() == nil,
			Title: fmt.Sprintf("%s: starts %s, ends %s", cli.Clip(job.GetJobId(), 60), when(job.GetStart()), when(job.GetEnd())),
		}
		if g.ranges && job.GetStart() != nil {
			bar.Low, bar.High = g.at(job.GetEndLow(), 1), g.at(job.GetEndHigh(), 1)
			bar.Title += ", eight in ten " + between(job.GetEndLow(), job.GetEndHigh())
		}
		drawn.Bars = append(drawn.Bars, bar)
	}
	if !page {
		return drawn.SVG(), nil
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
	}{title, summary, !response.GetComplete() && !response.GetStalled(), template.HTML(drawn.SVG())}) //nolint:gosec // It escapes what it writes.
	return text.String(), err
}
