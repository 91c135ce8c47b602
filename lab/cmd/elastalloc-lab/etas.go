package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/replay"
	"github.com/elastalloc/elastalloc/lab/statistics"
)

func newETAsCommand(env cli.LookupEnv) *cobra.Command {
	var recordings, callers []string
	var state string
	command := &cobra.Command{
		Use:   "etas --recording DIR",
		Short: "Measure the errors of recorded ETAs",
		Long: `Compare the remaining ETAs in a recording (serve --record) with the actual
remaining times of completed jobs, by caller and by group.

 JOBS       number of completed jobs; long jobs are underrepresented
 BIAS       median of actual / estimated for the first ETA of each job: 0.5 if
            jobs take half of their ETA
 P50, P90   factor within which 50% and 90% of the first ETAs are correct
 ETA_ERROR  value for eta_error: root mean square of ln(actual / estimated)
 HALFWAY    ETA_ERROR for the ETAs after half of the work

--state writes the actual times as a state of the library for estimates
(client/eta, in Python elastalloc.eta), which estimates ETAs of jobs without a
user estimate.`,
		Example: `  elastalloc-lab etas --recording recordings --state etas.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(recordings) == 0 {
				return errors.New("--recording is empty")
			}
			estimate, err := jobEstimates(cmd, recordings, callers)
			if err != nil {
				return recordingError(cmd, err)
			}
			out := cmd.OutOrStdout()
			if _, err := fmt.Fprint(out, etasTable(estimate, cli.ScreenFor(out, env))); err != nil || state == "" {
				return cli.Failed(err)
			}
			return cli.Failed(writeETAState(state, estimate))
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&recordings, "recording", nil, "folders of recordings, from one or more servers")
	flags.StringSliceVar(&callers, "caller", nil, "callers to evaluate, each as a separate cluster (default all)")
	flags.StringVar(&state, "state", "", "file for the state of client/eta")
	cli.MarkRequired(command, "recording")
	return command
}

// jobEstimates returns the estimates of each caller. It reports callers that cannot be evaluated on standard
// error, and returns an error if there are no others.
func jobEstimates(cmd *cobra.Command, recordings, callers []string) ([]replay.CallerETAs, error) {
	all, err := replay.ETAsOf(readerOf(cmd, recordings), callers)
	if err != nil {
		return nil, err
	}
	var estimate []replay.CallerETAs
	last := errors.New("it has no decisions")
	for _, of := range all {
		if of.Err == nil {
			estimate = append(estimate, of)
			continue
		}
		if last = of.Err; len(all) > 1 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v\n", last)
		}
	}
	if len(estimate) == 0 {
		return nil, last
	}
	return estimate, nil
}

// etasTable returns the table of the errors of ETAs, with a row for each caller, followed by its groups if
// there are several.
func etasTable(estimate []replay.CallerETAs, screen cli.Screen) string {
	table := screen.NewTable().AlignRight(1, 6)
	table.AddRow(screen.Bold, "CALLER", "JOBS", "BIAS", "P50", "P90", "ETA_ERROR", "HALFWAY")
	row := func(name string, jobs []replay.JobEstimate) {
		first, factors := make([]float64, len(jobs)), make([]float64, len(jobs))
		square, halfway := 0.0, 0.0
		for i, job := range jobs {
			first[i], factors[i] = math.Exp(job.First), math.Exp(math.Abs(job.First))
			square += job.First * job.First / float64(len(jobs))
			halfway += job.Halfway * job.Halfway / float64(len(jobs))
		}
		cells := []string{name, strconv.Itoa(len(jobs))}
		for _, value := range []float64{
			statistics.Quantile(first, 0.5), statistics.Quantile(factors, 0.5),
			statistics.Quantile(factors, 0.9), math.Sqrt(square), math.Sqrt(halfway),
		} {
			cells = append(cells, strconv.FormatFloat(value, 'f', 2, 64))
		}
		table.AddRow(cli.Plain, cells...)
	}
	for _, c := range estimate {
		row(c.Caller, c.Jobs)
		groups := make(map[string][]replay.JobEstimate)
		for _, job := range c.Jobs {
			groups[job.Group] = append(groups[job.Group], job)
		}
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			if len(groups) > 1 {
				row("  "+group, groups[group])
			}
		}
	}
	return table.String()
}

// writeETAState writes the state of client/eta after the completion of the jobs.
func writeETAState(path string, estimate []replay.CallerETAs) error {
	if len(estimate) > 1 {
		return fmt.Errorf("--state is for one cluster, and there are %s; --caller must be set", format.Plural(len(estimate), "caller"))
	}
	var e eta.Estimator
	for _, job := range estimate[0].Jobs {
		e.Completed(eta.Job{WorkDone: job.Work})
	}
	text, err := json.Marshal(&e)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
