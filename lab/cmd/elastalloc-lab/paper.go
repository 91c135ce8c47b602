package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/sim"
)

type paperFlags struct {
	config     experiments.Config
	trace, out string
}

func newPaperCommand(config experiments.Config, env cli.LookupEnv) *cobra.Command {
	f := paperFlags{config: config}
	command := &cobra.Command{
		Use:   "paper --out DIR",
		Short: "Repeat the experiments of the paper",
		Long: `Repeat all experiments of the paper on synthetic workloads with several seeds,
and optionally on a trace, and write the results to a folder:

 report.html   comparison with the paper; all figures are also SVG and PNG
 results.json  all numbers
 unproven/     requests of decisions that were not proven optimal

Runs with reported decision times are first, one at a time. Other runs are
concurrent. Nothing is written before all runs are complete.`,
		Example: `  elastalloc-lab paper --out paper
  elastalloc-lab paper --trace trace.csv --out paper`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, env) },
	}
	flags := command.Flags()
	flags.StringVar(&f.out, "out", "", "new or empty folder for the results")
	flags.StringVar(&f.trace, "trace", "", "additional trace in CSV, - for standard input")
	flags.IntVar(&f.config.GPUsPerNode, "gpus-per-node", sim.DefaultGPUsPerNode, "GPUs of one node of the trace")
	flags.IntVar(&f.config.Seeds, "seeds", 3, "number of synthetic workloads and of disturbances")
	flags.IntVar(&f.config.Workers, "workers", runtime.GOMAXPROCS(0), "number of concurrent runs")
	cli.OnePerCore(flags, "workers")
	cli.MarkRequired(command, "out")
	return command
}

func (f *paperFlags) run(cmd *cobra.Command, env cli.LookupEnv) error {
	config, err := f.complete(cmd)
	if err != nil {
		return err
	}
	allocator, err := newAllocator(nil, nil)
	if err != nil {
		return err
	}
	return produce(cmd, env, f.out, func(ctx context.Context, bar *progress) (outcome, error) {
		return experiments.Run(ctx, config, allocator, func(done, all int) { bar.show(done, all, "runs") })
	})
}

// complete reads the trace and returns the configuration, or an error that names every invalid flag.
func (f *paperFlags) complete(cmd *cobra.Command) (experiments.Config, error) {
	config := f.config
	config.Origin = originOf(cmd)
	if f.trace != "" {
		var err error
		if config.Trace, config.TraceName, err = readTraceFile(cmd, f.trace); err != nil {
			return config, err
		}
	}
	err := config.Validate()
	return config, err
}
