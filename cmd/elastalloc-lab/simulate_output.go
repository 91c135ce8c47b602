package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// writeRuns writes the files of runs, with the page about them, and commits them.
func writeRuns(
	directory *results.Directory, runs []*sim.Result, summary results.Summary, seed uint64, page *report.Page,
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
	html, err := page.HTML()
	if err != nil {
		return err
	}
	if err := directory.Write(report.Name, html); err != nil {
		return err
	}
	drawn := []figures.Named{page.Figure}
	for _, section := range page.Sections {
		drawn = append(drawn, section.Figures...)
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

// runsTables lays out the runs for a person: how long jobs take, then at what price.
func runsTables(runs []*sim.Result, summary results.Summary, screen cli.Screen) string {
	times, price := screen.NewTable().AlignRight(1, 7), screen.NewTable().AlignRight(1, 6)
	timesHeader := []string{"POLICY", "QUEUE", "UNSERVED", "TOTAL", "P95", "MAX", "LATER"}
	priceHeader := []string{"POLICY", "SLOWDOWN", "RESCALES", "EXTRA/100", "PROVEN", "TIME"}
	if hasTeams(summary) {
		timesHeader, priceHeader = append(timesHeader, "HELD"), append(priceHeader, "WORST TEAM")
	}
	times.AddRow(screen.Bold, timesHeader...)
	price.AddRow(screen.Bold, priceHeader...)
	extra := make(map[string]string)
	for _, c := range summary.Comparisons {
		extra[c.Policy+strconv.Itoa(c.Nodes)] = fmt.Sprintf("%+.1f", c.ExtraJobsPer100)
	}
	for i, run := range runs {
		s := &summary.Runs[i]
		if i == 0 || s.Nodes != summary.Runs[i-1].Nodes {
			times.AddLine(screen.Bold, fmt.Sprintf("%d nodes", s.Nodes))
			price.AddLine(screen.Bold, fmt.Sprintf("%d nodes", s.Nodes))
		}
		proven := ""
		if share := run.ProvenShare(); share > 0 {
			proven = fmt.Sprintf("%.2f %%", math.Floor(1e4*share)/100) // 100 % means all.
		}
		timesCells := []string{
			"  " + s.Policy, minutes(s.MeanQueueSeconds), minutes(s.MeanUnservedSeconds), minutes(s.MeanTotalSeconds),
			minutes(s.P95TotalSeconds), minutes(s.MaxTotalSeconds), laterThanMaxMin(s),
		}
		priceCells := []string{
			"  " + s.Policy, fmt.Sprintf("%.1f", s.MaxSlowdown), fmt.Sprintf("%.2f", perJob(s)),
			extra[s.Policy+strconv.Itoa(s.Nodes)], proven, millis(s.SolveMillis.Median),
		}
		if hasTeams(summary) {
			worst := ""
			if s.WorstTeam != nil {
				worst = fmt.Sprintf("%.2f", *s.WorstTeam)
			}
			timesCells, priceCells = append(timesCells, fmt.Sprintf("%.0f %%", 100*s.Utilization)), append(priceCells, worst)
		}
		times.AddRow(cli.Plain, timesCells...)
		price.AddRow(cli.Plain, priceCells...)
	}
	return times.String() + "\n" + price.String()
}

// hasTeams reports whether teams shared the pools of the runs.
func hasTeams(summary results.Summary) bool { return len(summary.Runs[0].Teams) > 0 }

// tableFooter says what the columns are.
func tableFooter(baseline string, teams bool) string {
	text := `QUEUE      mean time to the first nodes, in minutes, as all times of jobs
UNSERVED   mean time without nodes: in the queue and in pauses
TOTAL      mean time from submission to end; P95, MAX: 95th percentile, maximum
LATER      share of jobs that end later than under equal shares (max-min)
SLOWDOWN   the largest of total time by the time alone in the pool
RESCALES   changes of nodes per job after its start
EXTRA/100  jobs that had ended beyond each 100 of ` + baseline + `
PROVEN     share of decisions proven optimal; TIME, the median of what one took
`
	if teams {
		text += `HELD       share of the pool's nodes held until the last submission
WORST TEAM a team's mean total time by the one under ` + sim.PartitionsPolicy + `
`
	}
	return text
}

// notes says what a reader of the results must know of the runs: what they leave out of the
// trace, and on which pools what really happened cannot be compared.
func (f *simulateFlags) notes(runs []*sim.Result, summary *results.Summary) []string {
	var notes []string
	cut := summary.Cut
	if cut.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%s left out as shorter than %v", jobsAre(cut.TooShort), f.minDuration))
	}
	if cut.Jobs > 0 {
		notes = append(notes, fmt.Sprintf("%s cut to %d nodes, and asked for up to %d GPUs: %d GPUs are not simulated",
			jobsAre(cut.Jobs), solver.DefaultMaxNodes, cut.MostGPUs, cut.GPUs))
	}
	for _, run := range runs {
		if run.Policy != sim.RecordedPolicy {
			continue
		}
		most := run.MostHeld()
		notes = append(notes, fmt.Sprintf("%s held up to %d nodes at once, and no restart is charged to it: compare it on a pool of the size that the cluster had",
			run.Policy, most))
		if small := slices.DeleteFunc(poolsOf(summary), func(nodes int) bool { return nodes >= most }); len(small) > 0 {
			notes = append(notes, fmt.Sprintf("a pool of %s nodes is smaller, so %s cannot be compared there", joinInts(small), run.Policy))
		}
		break // It is the same on every pool.
	}
	return notes
}

// jobsAre counts jobs in a sentence.
func jobsAre(n int) string {
	if n == 1 {
		return "1 job is"
	}
	return fmt.Sprintf("%d jobs are", n)
}

// joined returns notes as lines.
func joined(notes []string) string {
	text := ""
	for _, note := range notes {
		text += cli.Screen{}.Wrap("note: "+note) + "\n"
	}
	return text
}

// laterThanMaxMin writes the share of a run's jobs that end later than under equal shares,
// "" for equal shares themselves and where they were not run.
func laterThanMaxMin(s *sim.Summary) string {
	if s.LaterShare == nil || s.Policy == sim.MaxMinPolicy {
		return ""
	}
	return percent(*s.LaterShare)
}

// minutes writes seconds as minutes.
func minutes(seconds float64) string { return fmt.Sprintf("%.1f", seconds/60) }

// millis writes milliseconds.
func millis(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }

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
		return errors.New("want a duration, such as 90s, 5m or 300")
	}
	*f.value = value
	return nil
}

// Type returns the type shown in the help.
func (secondsFlag) Type() string { return "duration" }

// openOutput opens the folder of --out, which must be new or empty.
func openOutput(out string) (*results.Directory, error) {
	directory, err := results.NewDirectory(out)
	if errors.Is(err, results.ErrNotEmpty) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return directory, cli.Failed(err)
}
