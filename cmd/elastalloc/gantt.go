package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

//go:embed gantt.html.tmpl
var ganttTemplate string

// The size of a drawn chart, in pixels.
const (
	chartWidth = 640.0
	rowHeight  = 20
	labelWidth = 220
)

// drawnRow is a job on a drawn chart; positions are in pixels.
type drawnRow struct {
	Job, Title                string
	Y                         int
	Start, Width              float64
	RangeStart, RangeWidth    float64
	Waits, Trains, Unfinished bool
}

// drawnTick is a time on the axis.
type drawnTick struct {
	X     float64
	Label string
}

// drawForecast returns a chart as SVG, or as a page that holds one.
func drawForecast(snapshot string, response *elastallocv1.ForecastResponse, page bool) (string, error) {
	g := newGantt(response)
	data := struct {
		Page, Complete        bool
		Title, Summary        string
		Width, Height, Bottom int
		Label                 int
		Rows                  []drawnRow
		Ticks                 []drawnTick
		ChartWidth            float64
	}{
		Page: page, Complete: response.GetComplete(), Title: "Forecast", Label: labelWidth, ChartWidth: chartWidth,
		Width: labelWidth + int(chartWidth) + 20, Height: len(g.jobs)*rowHeight + 60, Bottom: len(g.jobs)*rowHeight + 30,
		Summary: fmt.Sprintf("%d jobs, on average %s to the end and %s to the first nodes; %d decisions", len(g.jobs),
			format.Span(response.GetMeanTotal().AsDuration()), format.Span(response.GetMeanQueue().AsDuration()), response.GetDecisions()),
	}
	if g.ranges {
		data.Summary += "; yellow from when to when eight in ten simulations end a job"
	}
	if response.GetIfNothingElse() {
		data.Summary += "; if nothing else is submitted"
	}
	if snapshot != "" {
		data.Title = "Forecast of " + cli.Clip(snapshot, 60)
	}
	for quarter := range 5 {
		tick := drawnTick{X: float64(quarter) / 4 * chartWidth, Label: "now"}
		if quarter > 0 {
			tick.Label = format.Span(g.span / 4 * time.Duration(quarter))
		}
		data.Ticks = append(data.Ticks, tick)
	}
	for n, job := range g.jobs {
		row := drawnRow{
			Job: cli.Clip(job.GetJobId(), 32), Y: n*rowHeight + 24, Waits: g.at(job.GetStart(), chartWidth) > 0,
			Trains: job.GetStart() != nil, Unfinished: job.GetStart() != nil && job.GetEnd() == nil,
			Start: g.at(job.GetStart(), chartWidth),
			Title: fmt.Sprintf("%s: starts %s, ends %s", cli.Clip(job.GetJobId(), 60), when(job.GetStart()), when(job.GetEnd())),
		}
		row.Width = max(1, g.at(job.GetEnd(), chartWidth)-row.Start)
		if g.ranges && job.GetStart() != nil {
			row.RangeStart = g.at(job.GetEndLow(), chartWidth)
			row.RangeWidth = g.at(job.GetEndHigh(), chartWidth) - row.RangeStart
			row.Title += ", eight in ten " + between(job.GetEndLow(), job.GetEndHigh())
		}
		data.Rows = append(data.Rows, row)
	}
	t, err := template.New("gantt").Parse(ganttTemplate)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = t.Execute(&text, data)
	return text.String(), err
}
