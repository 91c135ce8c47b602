package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// runsTables lays out the runs for a person: how long jobs take, then at what price.
func runsTables(runs []*sim.Result, summary results.Summary, screen cli.Screen) string {
	times, price := screen.NewTable().AlignRight(1, 7), screen.NewTable().AlignRight(1, 6)
	timesHeader := []string{"POLICY", "QUEUE", "UNSERVED", "TOTAL", "P95", "MAX", "LATER"}
	priceHeader := []string{"POLICY", "SLOWDOWN", "RESCALES", "EXTRA/100", "PROVEN", "TIME"}
	if report.HasTeams(summary) {
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
			"  " + s.Policy, report.Minutes(s.MeanQueueSeconds), report.Minutes(s.MeanUnservedSeconds), report.Minutes(s.MeanTotalSeconds),
			report.Minutes(s.P95TotalSeconds), report.Minutes(s.MaxTotalSeconds), report.Later(s),
		}
		priceCells := []string{
			"  " + s.Policy, fmt.Sprintf("%.1f", s.MaxSlowdown), fmt.Sprintf("%.2f", report.PerJob(s)),
			extra[s.Policy+strconv.Itoa(s.Nodes)], proven, millis(s.SolveMillis.Median),
		}
		if report.HasTeams(summary) {
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

// joined returns notes as lines.
func joined(notes []string) string {
	text := ""
	for _, note := range notes {
		text += cli.Screen{}.Wrap("note: "+note) + "\n"
	}
	return text
}

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
