// Command elastalloc-lab contains the offline tools of elastalloc. It simulates allocation policies on
// traces, replays recordings, repeats the experiments of the paper and compares backends. It is separate
// from elastalloc because it links the plotting library.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/lab/workloads"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal terminates the process immediately.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
	stop()
	os.Exit(status)
}

// run executes the command line args and returns the exit status: 0 for success, 1 for a failure, 2 for
// invalid usage or input. Results go to stdout, errors to stderr.
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
		newPaperCommand(experiments.Config{Pools: experiments.Pools(), Generate: workloads.Synthetic}, env),
		newBenchCommand(env),
		newAuditCommand(env),
		newETAsCommand(env),
		newTraceCommand(),
		newRecordingCommand(),
	)
	return root
}
