package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// writeResults writes the files of runs and commits them.
func writeResults(
	directory *results.Directory, runs []*sim.Result, summary results.Summary, baseline string, seed uint64,
) error {
	text, err := summary.JSON()
	if err != nil {
		return err
	}
	if err := directory.Write(results.SummaryName, text); err != nil {
		return err
	}
	if err := directory.Write(results.JobsName, results.JobsCSV(runs, seed)); err != nil {
		return err
	}
	drawn, err := figures.OfRuns(runs, baseline)
	if err != nil {
		return err
	}
	for _, figure := range drawn {
		if err := writeFigure(directory, figure); err != nil {
			return err
		}
	}
	return directory.Commit()
}

// writeFigure writes a figure as SVG and PNG.
func writeFigure(directory *results.Directory, named figures.Named) error {
	svg, err := named.Figure.SVG()
	if err != nil {
		return err
	}
	png, err := named.Figure.PNG()
	if err != nil {
		return err
	}
	if err := directory.Write(named.Name+".svg", svg); err != nil {
		return err
	}
	return directory.Write(named.Name+".png", png)
}

// runsTable lays out the runs for a person.
func runsTable(runs []*sim.Result, summary results.Summary, color cli.Colors) *cli.Table {
	t := &cli.Table{RightAligned: map[int]bool{0: true}}
	header := []string{"NODES", "POLICY", "QUEUE", "TOTAL", "EXTRA/100", "RESCALES", "DECISIONS", "PROVEN", "MEDIAN TIME", "P95"}
	for i := 2; i < len(header); i++ {
		t.RightAligned[i] = true
	}
	t.AddRow(color.Bold, header...)
	extra := make(map[string]string)
	for _, c := range summary.Comparisons {
		extra[c.Policy+strconv.Itoa(c.Nodes)] = fmt.Sprintf("%+.1f", c.ExtraJobsPer100)
	}
	for i, run := range runs {
		s := &summary.Runs[i]
		proven := ""
		if share := run.ProvenShare(); share > 0 {
			proven = fmt.Sprintf("%.2f %%", math.Floor(1e4*share)/100) // 100 % means all.
		}
		t.AddRow(cli.Plain, strconv.Itoa(s.Nodes), s.Policy, minutes(s.MeanQueueSeconds), minutes(s.MeanTotalSeconds),
			extra[s.Policy+strconv.Itoa(s.Nodes)], strconv.Itoa(s.Rescales), strconv.Itoa(s.Decisions), proven,
			millis(s.SolveMillis.Median), millis(s.SolveMillis.P95))
	}
	return t
}

// minutes writes seconds as minutes.
func minutes(seconds float64) string { return fmt.Sprintf("%.1f min", seconds/60) }

// millis writes milliseconds.
func millis(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }

// drawBar draws the progress of the work.
func drawBar(done, all int) string {
	const width = 30
	full := width * done / max(1, all)
	return "[" + strings.Repeat("█", full) + strings.Repeat("·", width-full) + "]"
}

// secondsFlag is a flag for a duration, such as 5m or 300s; a number alone is seconds.
type secondsFlag struct{ value *time.Duration }

// newSecondsFlag returns a flag that sets value, with the given default.
func newSecondsFlag(value *time.Duration, byDefault time.Duration) pflag.Value {
	*value = byDefault
	return secondsFlag{value: value}
}

// String returns the duration.
func (f secondsFlag) String() string {
	if f.value == nil {
		return ""
	}
	return f.value.String()
}

// Set parses a duration.
func (f secondsFlag) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("want a duration such as 5m, 300s or 300: %w", err)
	}
	*f.value = value
	return nil
}

// Type returns the type shown in the help.
func (secondsFlag) Type() string { return "duration" }

// openOutput opens the folder of --out, which must be new or empty.
func openOutput(out string) (*results.Directory, error) {
	directory, err := results.NewDirectory(out)
	if errors.Is(err, results.ErrNotEmpty) {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return directory, cli.Failed(err)
}
