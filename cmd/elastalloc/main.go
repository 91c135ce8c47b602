// Command elastalloc decides how many nodes each elastic training job of a pool
// gets: as a server, or one decision at a time.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
)

func main() {
	// With the default rate, the memory profile grows to several MiB under load. This rate still
	// finds leaks.
	runtime.MemProfileRate = 4 << 20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal terminates the process at once.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.LookupEnv)
	stop()
	os.Exit(status)
}

// run executes the command line args and returns the exit status: 0 for success, 1 for failure, 2 for bad usage
// or bad input. Results go to stdout, errors to stderr.
func run(ctx context.Context, args []string, streams cli.Streams, env cli.LookupEnv) int {
	return cli.Run(ctx, newRootCommand(env), args, streams, env)
}

func newRootCommand(env cli.LookupEnv) *cobra.Command {
	root := &cobra.Command{
		Use:   "elastalloc",
		Short: "Decide how many nodes each elastic training job gets",
		Long: `elastalloc decides how many nodes each elastic training job of a pool gets over
a look-ahead horizon, and proves how good the decision is.

` + cli.Conventions,
	}
	root.AddCommand(
		newServeCommand(env),
		newAllocateCommand(env), newFillIdleCommand(env),
		newExplainCommand(env), newWhatIfCommand(env), newForecastCommand(env), newAuditCommand(env),
		newSnapshotCommand(),
	)
	return root
}
