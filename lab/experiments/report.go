package experiments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
)

// The names of the file of all numbers, and of the folder of requests.
const (
	resultsName  = "results.json"
	unprovenName = "unproven"
)

// Results contains the results of all runs, as written to results.json.
type Results struct {
	Origin results.Origin `json:"origin"`
	// Seeds and Pools are what was run, and Trace the name of the trace, if any.
	Seeds       int          `json:"seeds"`
	Pools       []int        `json:"pools"`
	Trace       string       `json:"trace,omitempty"`
	Experiments []Experiment `json:"experiments"`
	Proof       Proof        `json:"proof"`

	sources []Source
	summary chart
}

// Proof counts the decisions of policies that optimize, and the decisions that were proven optimal.
type Proof struct {
	Decisions int        `json:"decisions"`
	Proven    int        `json:"proven"`
	Unproven  []Unproven `json:"unproven"`
}

// Write writes the page, results.json, the figures and the unproven requests, and commits them.
func (r *Results) Write(directory *results.Directory) error {
	text, err := r.json()
	if err != nil {
		return err
	}
	files := map[string][]byte{resultsName: text}
	for i := range r.Proof.Unproven {
		request, err := r.Proof.Unproven[i].JSON()
		if err != nil {
			return err
		}
		files[path.Join(unprovenName, r.Proof.Unproven[i].File)] = request
	}
	page, err := r.page()
	if err != nil {
		return err
	}
	return page.Write(directory, files)
}

func (r *Results) json() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(r)
	return text.Bytes(), err
}

// page returns the report, which compares our results with the paper.
func (r *Results) page() (*report.Page, error) {
	on := format.Plural(r.Seeds, "synthetic workload")
	if r.Trace != "" {
		on += " and the trace " + r.Trace
	}
	proof := fmt.Sprintf("%d of %d decisions of policies that optimize were proven optimal.", r.Proof.Proven, r.Proof.Decisions)
	if len(r.Proof.Unproven) > 0 {
		proof += " The others are in the folder " + unprovenName + "."
	}
	page := &report.Page{
		Title: "The paper's experiments, repeated", Origin: r.Origin,
		Lead: slices.Concat([]string{
			"The experiments of Hu et al., An Optimal Resource Allocator of Elastic Training for Deep Learning Jobs on Cloud, on " + on +
				": the paper's optimal, which maximizes training progress, compared with its greedy.",
		}, r.Lead(), []string{proof}),
	}
	header := r.header()
	headlines := report.Table{Header: append([]string{""}, header...), TextColumns: []int{1}}
	page.Sections = []report.Section{{Name: "summary", Title: "Summary"}}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		if len(e.Results[0].Paper) > 0 {
			headlines.Rows = append(headlines.Rows, append([]string{e.Title}, e.Results[0].Cells(r.sources)...))
		}
		table := report.Table{Header: header}
		for n := range e.Results {
			table.Rows = append(table.Rows, e.Results[n].Cells(r.sources))
		}
		section := report.Section{Name: e.Name, Title: e.Title, Text: []string{e.text}, Tables: []report.Table{table}}
		if len(e.Rows) > 0 {
			section.Tables = append(section.Tables, everyPool(e.Rows))
		}
		for n := range e.charts {
			figure, err := e.charts[n].draw()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", figure.Name, err)
			}
			section.Figures = append(section.Figures, figure)
		}
		page.Sections = append(page.Sections, section)
	}
	page.Sections[0].Tables = []report.Table{headlines}
	page.Sections = append(page.Sections, report.Section{Name: "workloads", Title: "Workloads", Text: workloadsText()})
	var err error
	page.Figure, err = r.summary.draw()
	return page, err
}

func (r *Results) header() []string {
	header := []string{"", "the paper"}
	for _, source := range r.sources {
		header = append(header, string(source))
	}
	return header
}

// Tables returns a table that compares our results with the paper.
func (r *Results) Tables() []report.Table {
	table := report.Table{Header: r.header()}
	for i := range r.Experiments {
		table.Rows = append(table.Rows, []string{r.Experiments[i].Title})
		for n := range r.Experiments[i].Results {
			table.Rows = append(table.Rows, r.Experiments[i].Results[n].Cells(r.sources))
		}
	}
	return []report.Table{table}
}

func everyPool(rows []Row) report.Table {
	table := report.Table{Title: "Every pool", Header: []string{
		"policy", "workload", "nodes", "queueing (min)", "JCT (min)", "additional per 100", "resizes", "more jobs than nodes (% of decisions)",
	}, TextColumns: []int{1}}
	for i := range rows {
		r := &rows[i]
		table.Rows = append(table.Rows, []string{
			r.Policy, string(r.Source), strconv.Itoa(r.Nodes),
			tenths.writeSpread(queueMinutes(r), r.Runs), tenths.writeSpread(totalMinutes(r), r.Runs),
			signedTenths.writeSpread(extraJobs(r), r.Runs), whole.writeSpread(r.Resizes, r.Runs), tenths.writeSpread(crowded(r), r.Runs),
		})
	}
	return table
}

func workloadsText() []string {
	return []string{
		"The paper's trace is not public. The synthetic workload has its counts " +
			"(447 jobs of 5 minutes and more, 805 shorter ones), its span and " +
			"its mean durations. The tail of the durations and the daily wave of submissions are our choice.",
		"The paper does not state on how many nodes its mean of 232.6 minutes was measured. Here it is 4, calibrated on the pools of the paper " +
			"and not on the results of any policy. Results for 4, 8 and 16 were known when that criterion was chosen.",
		"The jobs of a trace are made elastic with the speed curve of the paper: each doubling of the nodes keeps 80% of the ideal speedup.",
		"With more jobs than nodes, the model of the paper has no solution. " +
			"Admission therefore precedes it: running jobs, then the queue in order, " +
			"each with at least one node.",
		"Numbers are means over the seeds, ± the standard deviation between seeds.",
	}
}

// Lead returns a line for each source with the improvement of optimal over greedy.
func (r *Results) Lead() []string {
	cells := make(map[string][]string) // of the sources, by experiment and quantity
	for i := range r.Experiments {
		e := &r.Experiments[i]
		for n := range e.Results {
			cells[e.Name+" "+e.Results[n].Quantity] = e.Results[n].Cells(r.sources)[2:]
		}
	}
	var lines []string
	for i, source := range r.sources {
		is := func(what string) string { return cells[what][i] }
		lines = append(lines,
			fmt.Sprintf("%s: the mean job completion time (JCT) is up to %s lower than with greedy (%s), the mean queueing time up to %s (%s). "+
				"They are not lower on %s and %s of %d pools.", source,
				is("total-time largest decrease"), is("total-time at a pool of"),
				is("queueing-time largest decrease"), is("queueing-time at a pool of"),
				is("total-time pool sizes without a lower mean JCT"), is("queueing-time pool sizes without a lower mean queueing time"), len(r.Pools)))
	}
	return lines
}

// digits is the format of a number.
type digits int

const (
	whole        digits = iota // 12
	tenths                     // 1.2
	signedTenths               // +1.2
	threeDigits                // 0.123, 1.23, 12.3, 123
)

// maxDecimals is how far a small number is written out.
const maxDecimals = 6

// nothing represents a missing number in a table.
const nothing = "–"

// write writes a number. One that would round to zero gets more decimals, so that "0" means
// less than 10^-maxDecimals.
func (d digits) write(value float64) string {
	decimals := 1
	switch d {
	case whole:
		decimals = 0
	case threeDigits:
		decimals = max(0, 2-int(math.Floor(math.Log10(max(math.Abs(value), 0.1)))))
	}
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	for ; strings.Trim(text, "-0.") == ""; decimals++ {
		if decimals >= maxDecimals {
			return "0"
		}
		text = strconv.FormatFloat(value, 'f', decimals+1, 64)
	}
	switch {
	case value < 0:
		return strings.Replace(text, "-", "−", 1)
	case d == signedTenths:
		return "+" + text
	default:
		return text
	}
}

// writeRange returns one number, or the smallest and the largest of several.
func (d digits) writeRange(values []float64) string {
	if len(values) == 0 {
		return nothing
	}
	least, most := d.write(slices.Min(values)), d.write(slices.Max(values))
	if least == most {
		return most
	}
	return least + " to " + most
}

// writeSpread returns a number and, of several runs, its standard deviation.
func (d digits) writeSpread(n Number, runs int) string {
	if runs < 2 {
		return d.write(n.Mean)
	}
	return d.write(n.Mean) + " ± " + d.write(n.Spread)
}
