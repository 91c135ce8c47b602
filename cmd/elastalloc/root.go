package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// lookupEnv returns the value of an environment variable and whether it is set.
type lookupEnv func(name string) (string, bool)

// get returns the value of a variable, "" where it is not set.
func (l lookupEnv) get(name string) string {
	value, _ := l(name)
	return value
}

// run executes the command line args and returns the exit status: 0 done, 1 the
// work failed, 2 bad usage or bad input. Results go to stdout, errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env lookupEnv) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err != nil {
		printError(stderr, command, err)
	}
	return exitStatus(err)
}

func newRootCommand(env lookupEnv) *cobra.Command {
	root := &cobra.Command{
		Use:   "elastalloc",
		Short: "Decide how many nodes each elastic training job gets",
		Long: `elastalloc decides how many nodes each elastic training job of a pool gets over
a look-ahead horizon, and proves how good the decision is.

Every flag can also be set by an environment variable, named in its description.
A flag on the command line wins; an empty variable counts as unset.

Exit status: 0 done, 1 the work failed, 2 bad usage or bad input.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return setFromEnvironment(cmd.Flags(), env)
		},
	}
	root.AddCommand(
		newServeCommand(env),
		newAllocateCommand(env),
		newBenchCommand(env),
		newSimulateCommand(env),
		newPaperCommand(),
		newSnapshotCommand(),
		newVersionCommand(),
	)
	describeEnvironment(root)
	return root
}
