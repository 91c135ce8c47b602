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
	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/lab/replay"
	"github.com/elastalloc/elastalloc/sim"
)

func newETAsCommand(env cli.LookupEnv) *cobra.Command {
	var recordings, callers []string
	var state string
	command := &cobra.Command{
		Use:   "etas --recording DIR",
		Short: "Say how wrong the ETAs were that a scheduler told",
		Long: `Read what a server has recorded (serve --record), and set what each job that
ended was told to have left beside what it took, by caller and by group.

 JOBS       jobs that ended; the others are left out, so long jobs are rare
 BIAS       median of what a job took by what was told at first: 0.5 where half
 P50, P90   factor within which half and nine in ten of them are right
 ETA_ERROR  what to send as eta_error: the root mean square of ln(took / told)
 HALFWAY    the same of what was told once half of that work was done

With --state, what the jobs took is written as a state of the library that makes
ETAs (client/eta, in Python elastalloc.eta), for jobs that tell none.`,
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
	flags.StringSliceVar(&recordings, "recording", nil, "folders of recordings, of several servers as well")
	flags.StringSliceVar(&callers, "caller", nil, "callers whose calls are read (default all, each a cluster of its own)")
	flags.StringVar(&state, "state", "", "file to write the state of client/eta to")
	cli.MarkRequired(command, "recording")
	return command
}

// jobEstimates returns what each caller told. Callers of whom nothing can be said are named on
// standard error; it is an error if there is no other.
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

// etasTable lays out how far off ETAs were: a row for each caller, and below it one for each of
// its groups where there are several.
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
			sim.Quantile(first, 0.5), sim.Quantile(factors, 0.5), sim.Quantile(factors, 0.9), math.Sqrt(square), math.Sqrt(halfway),
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

// writeETAState writes the state of a library that has seen the jobs end.
func writeETAState(path string, estimate []replay.CallerETAs) error {
	if len(estimate) > 1 {
		return fmt.Errorf("--state is of one cluster; choose its caller of %s", format.Count(len(estimate), "caller"))
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
