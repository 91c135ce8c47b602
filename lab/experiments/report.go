package experiments

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"github.com/elastalloc/elastalloc/lab/figures"
)

// The names of the files and the folder of results.
const (
	ResultsName  = "results.json"
	ReportName   = "report.html"
	UnprovenName = "unproven"
)

// Results is the content of results.json.
type Results struct {
	// Seeds and Pools are what was run, and Trace the name of the trace, if any.
	Seeds       int          `json:"seeds"`
	Pools       []int        `json:"pools"`
	Trace       string       `json:"trace,omitempty"`
	Experiments []Experiment `json:"experiments"`
	Questions   []Question   `json:"questions"`
	Proof       Proof        `json:"proof"`
}

// Proof is what share of the decisions of optimal and its variants, in all runs, is
// proven optimal.
type Proof struct {
	Decisions int        `json:"decisions"`
	Proven    int        `json:"proven"`
	Share     float64    `json:"share"`
	Unproven  []Unproven `json:"unproven"`
}

// Results returns the numbers and the sentences on them.
func (f *Findings) Results() Results {
	return Results{
		Seeds: f.seeds, Pools: f.pools, Trace: f.traceName,
		Experiments: f.Experiments(), Questions: f.Questions(),
		Proof: Proof{
			Decisions: f.decisions, Proven: f.proven,
			Share:    float64(f.proven) / float64(max(1, f.decisions)),
			Unproven: append([]Unproven{}, f.unproven...),
		},
	}
}

// JSON returns the text of results.json.
func (r *Results) JSON() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(r)
	return text.Bytes(), err
}

//go:embed report.html.tmpl
var reportTemplate string

// Report returns report.html: one page that needs nothing but itself, with the
// figures given in it.
func (r *Results) Report(drawn []figures.Named) ([]byte, error) {
	pictures := make(map[string]template.HTML)
	for _, figure := range drawn {
		svg, err := figure.Figure.SVG()
		if err != nil {
			return nil, err
		}
		pictures[figure.Name] = inline(svg)
	}
	page, err := template.New(ReportName).Parse(reportTemplate)
	if err != nil {
		return nil, err
	}
	type section struct {
		*Experiment
		Synthetic, Trace string
		Table            table
		Pictures         []picture
	}
	data := struct {
		*Results
		Sections []section
	}{Results: r}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		s := section{Experiment: e, Synthetic: e.Ours[Synthetic], Trace: e.Ours[Trace], Table: e.table}
		for _, d := range e.figures {
			if _, ok := pictures[d.name]; !ok {
				return nil, fmt.Errorf("figure %s is missing", d.name)
			}
			s.Pictures = append(s.Pictures, picture{d.name, pictures[d.name]})
		}
		data.Sections = append(data.Sections, s)
	}
	var text bytes.Buffer
	err = page.Execute(&text, data)
	// A line does not break between a number and its per cent.
	return bytes.ReplaceAll(text.Bytes(), []byte(" %"), []byte("\u00a0%")), err
}

// picture is a figure in the page.
type picture struct {
	Name string
	SVG  template.HTML
}

// inline turns a document of SVG into an element of a page: without what comes
// before the element, and without the addresses that name its language, which a
// page knows.
func inline(svg []byte) template.HTML {
	text := string(svg)
	if at := strings.Index(text, "<svg"); at > 0 {
		text = text[at:]
	}
	text = strings.NewReplacer(
		`xmlns="http://www.w3.org/2000/svg"`, "", `xmlns:xlink="http://www.w3.org/1999/xlink"`, "",
	).Replace(text)
	return template.HTML(text) //nolint:gosec // Drawn by this program, which escapes what it writes.
}
