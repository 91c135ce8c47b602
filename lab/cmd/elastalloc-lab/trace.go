package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
)

func newTraceCommand() *cobra.Command {
	var file, synthetic string
	var seed uint64
	var from, length time.Duration
	command := &cobra.Command{
		Use:   "trace --trace FILE|--synthetic KIND",
		Short: "Print a synthetic workload, or a window of a trace, as a trace",
		Long: `Print a synthetic workload, or the jobs of a trace that were submitted within a
time window, as a trace in CSV. Times are since the first printed submission.`,
		Example: `  elastalloc-lab trace --synthetic heterogeneous > trace.csv
  elastalloc-lab trace --trace cluster.csv --from 1019h --for 50h > window.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from < 0 || length < 0 {
				return fmt.Errorf("--from is %v and --for is %v; both must be at least 0s", from, length)
			}
			var trace sim.Trace
			var err error
			if synthetic != "" {
				if trace, err = workloads.Synthetic(workloads.SyntheticKind(synthetic), seed); err != nil {
					return fmt.Errorf("--synthetic: %w", err)
				}
			} else if trace, _, err = readTraceFile(cmd, file); err != nil {
				return err
			}
			window := trace.Window(from, length)
			if len(window) == 0 {
				return fmt.Errorf("no job was submitted within the window, from %v on", from)
			}
			return cli.Failed(window.Write(cmd.OutOrStdout()))
		},
	}
	flags := command.Flags()
	flags.StringVar(&file, "trace", "", "trace in CSV, - for standard input")
	flags.Var(syntheticFlag(&synthetic), "synthetic", "synthetic workload")
	flags.Uint64Var(&seed, "seed", 1, "seed of all random numbers")
	flags.DurationVar(&from, "from", 0, "start of the window")
	flags.DurationVar(&length, "for", 0, "length of the window (default until the last submission)")
	command.MarkFlagsOneRequired("trace", "synthetic")
	command.MarkFlagsMutuallyExclusive("trace", "synthetic")
	command.MarkFlagsMutuallyExclusive("trace", "seed")
	command.AddCommand(newConvertCommand())
	return command
}
