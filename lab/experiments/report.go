package experiments

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
)

// The names of the files and the folder of results.
const (
	ResultsName  = "results.json"
	ReportName   = "report.html"
	UnprovenName = "unproven"

	summaryName = "summary"
)

// Results is what all runs have shown, and the content of results.json.
type Results struct {
	Origin results.Origin `json:"origin"`
	// Seeds and Pools are what was run, and Trace the name of the trace, if any.
	Seeds       int          `json:"seeds"`
	Pools       []int        `json:"pools"`
	Trace       string       `json:"trace,omitempty"`
	Experiments []Experiment `json:"experiments"`
	Proof       Proof        `json:"proof"`

	sources []Source
	summary drawing
}

// Proof counts the decisions that ask for an optimum, in all runs, and those of them that
// were proven optimal.
type Proof struct {
	Decisions int        `json:"decisions"`
	Proven    int        `json:"proven"`
	Unproven  []Unproven `json:"unproven"`
}

// Sources returns where the workloads are from.
func (r *Results) Sources() []Source { return r.sources }

// JSON returns the text of results.json.
func (r *Results) JSON() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(r)
	return text.Bytes(), err
}

// Figures draws all figures: the summary, then those of the experiments.
func (r *Results) Figures() ([]figures.Named, error) {
	drawings := []drawing{r.summary}
	for i := range r.Experiments {
		drawings = append(drawings, r.Experiments[i].figures...)
	}
	named := make([]figures.Named, len(drawings))
	for i, d := range drawings {
		figure, err := d.draw()
		if err != nil {
			return nil, fmt.Errorf("figure %s: %w", d.name, err)
		}
		named[i] = figures.Named{Name: d.name, Figure: figure}
	}
	return named, nil
}

//go:embed report.html.tmpl
var reportTemplate string

// section is an experiment in the page.
type section struct {
	*Experiment
	// Text is what the template says of the experiment.
	Text     template.HTML
	Table    table
	Pictures []picture
}

// picture is a figure in the page.
type picture struct {
	Name string
	SVG  template.HTML
}

// Report returns report.html: one page that needs nothing but itself, with the
// figures that Figures has drawn.
func (r *Results) Report(drawn []figures.Named) ([]byte, error) {
	page, err := template.New(ReportName).Funcs(template.FuncMap{"style": report.Style, "count": count}).Parse(reportTemplate)
	if err != nil {
		return nil, err
	}
	pictures := make([]picture, len(drawn))
	for i, figure := range drawn {
		svg, err := figure.Figure.SVG()
		if err != nil {
			return nil, err
		}
		pictures[i] = picture{figure.Name, report.Inline(svg)}
	}
	data := struct {
		*Results
		Summary  picture
		Sections []section
	}{Results: r, Summary: pictures[0]}
	pictures = pictures[1:]
	for i := range r.Experiments {
		e := &r.Experiments[i]
		var text strings.Builder
		if err := page.ExecuteTemplate(&text, e.Name, r); err != nil {
			return nil, err
		}
		data.Sections = append(data.Sections, section{
			Experiment: e, Table: e.table, Pictures: pictures[:len(e.figures)],
			Text: template.HTML(text.String()), //nolint:gosec // Of the template, which has escaped it.
		})
		pictures = pictures[len(e.figures):]
	}
	var text bytes.Buffer
	err = page.Execute(&text, data)
	// A line does not break between a number and its unit.
	return bytes.ReplaceAll(text.Bytes(), []byte(" %"), []byte("\u00a0%")), err
}

// Verdicts returns a line for each source: how far the paper's policy is ahead of its greedy.
func (r *Results) Verdicts() []string {
	cells := make(map[string][]string) // of the sources, by experiment and quantity
	for i := range r.Experiments {
		e := &r.Experiments[i]
		for n := range e.Results {
			result := &e.Results[n]
			cells[e.Name+" "+result.Quantity] = result.Cells(r.sources)[2:]
		}
	}
	var lines []string
	for i, source := range r.sources {
		is := func(what string) string {
			if found := cells[what]; i < len(found) {
				return found[i]
			}
			return nothing
		}
		lines = append(lines, fmt.Sprintf("%s: mean total time is up to %s below greedy's (%s), mean queueing time up to %s (%s); "+
			"they are not below it on %s and %s of %d pools.", source,
			is("total-time largest decrease"), is("total-time at a pool of"),
			is("queueing-time largest decrease"), is("queueing-time at a pool of"),
			is("total-time pool sizes without a lower mean total time"), is("queueing-time pool sizes without a lower mean queueing time"), len(r.Pools)))
	}
	return lines
}

// Headline returns the result that the summary shows beside the paper's, nil of an
// experiment that is not the paper's.
func (s section) Headline() *Result {
	if len(s.Results) == 0 || len(s.Results[0].Paper) == 0 {
		return nil
	}
	return &s.Results[0]
}
