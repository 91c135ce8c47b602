// Command elastalloc-lab does the offline work around elastalloc: it simulates
// traces under allocation policies, repeats the experiments of the paper and compares
// backends. It alone links what draws figures.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
	stop()
	os.Exit(status)
}

// run executes the command line args and returns the exit status: 0 done, 1 the
// work failed, 2 bad usage or bad input. Results go to stdout, errors to stderr.
func run(ctx context.Context, args []string, streams cli.Streams, env cli.LookupEnv) int {
	return cli.Run(ctx, newRootCommand(env), args, streams, env)
}

func newRootCommand(env cli.LookupEnv) *cobra.Command {
	root := &cobra.Command{
		Use:   "elastalloc-lab",
		Short: "Simulate allocation policies and compare backends",
		Long: `elastalloc-lab does the offline work around elastalloc: it simulates traces and
replays recordings under allocation policies, repeats the experiments of the
paper and compares backends.

` + cli.Conventions,
	}
	root.AddCommand(
		newSimulateCommand(env),
		newReplayCommand(env),
		newPaperCommand(experiments.Config{Pools: experiments.Pools(), Generate: sim.Synthetic}, env),
		newBenchCommand(env),
		newAuditCommand(env),
		newETAsCommand(env),
		newTraceCommand(),
		newRecordingCommand(),
	)
	return root
}
