package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/chart"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

//go:embed gantt.html.tmpl
var ganttTemplate string

// drawForecast returns a chart as SVG, or as a page that holds one.
func drawForecast(snapshot string, response *elastallocv1.ForecastResponse, page bool) (string, error) {
	g := newGantt(response)
	title := "Forecast"
	if snapshot != "" {
		title = "Forecast of " + cli.Clip(snapshot, 60)
	}
	summary := fmt.Sprintf("%d jobs, on average %s to the end and %s to the first nodes; %d decisions", len(g.jobs),
		format.Span(response.GetMeanTotal().AsDuration()), format.Span(response.GetMeanQueue().AsDuration()), response.GetDecisions())
	if g.ranges {
		summary += "; yellow from when to when eight in ten simulations end a job"
	}
	if response.GetIfNothingElse() {
		summary += "; if nothing else is submitted"
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
		Complete       bool
		SVG            template.HTML
	}{title, summary, response.GetComplete(), template.HTML(drawn.SVG())}) //nolint:gosec // It escapes what it writes.
	return text.String(), err
}
