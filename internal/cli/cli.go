// Package cli has the parts that the command lines of this module share: flags that environment variables
// also set, input, tables for a terminal and the exit status.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/text"
)

// Conventions is the help text on flags and exit statuses of all programs.
const Conventions = `Every flag can also be set by an environment variable, --max-jobs by
ELASTALLOC_MAX_JOBS. A flag on the command line overrides it. An empty variable
counts as unset.

Exit status: 0 success, 1 failure, 2 bad usage or bad input.`

// The output formats of commands that have several.
const (
	OutputTable = "table"
	OutputJSON  = "json"
)

// LookupEnv returns the value of an environment variable and whether it is set, like os.LookupEnv.
type LookupEnv func(name string) (string, bool)

// Get returns the value of a variable, or "" if it is not set.
func (l LookupEnv) Get(name string) string {
	value, _ := l(name)
	return value
}

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run executes the command line args with root and returns the exit status. Flags that args
// do not set take the values of their variables.
func Run(ctx context.Context, root *cobra.Command, args []string, streams Streams, env LookupEnv) int {
	root.AddCommand(newVersionCommand(root.Name()), newFlagsCommand(root), newManCommand(root))
	root.SilenceUsage, root.SilenceErrors = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return setFromEnvironment(cmd.Flags(), env)
	}
	wrapFlags(root)
	root.Version = Version()
	root.SetVersionTemplate(versionLine(root.Name()))
	completeEnums(root)
	acceptDays(root)
	describeEnvironment(root)
	for _, command := range append(commandsOf(root), root) {
		command.DisableFlagsInUseLine = true
	}
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	command, err := root.ExecuteContextC(ctx)
	if err != nil {
		for line := range strings.SplitSeq(command.CommandPath()+": "+describe(command, err), "\n") {
			fmt.Fprintln(streams.Err, text.Printable(line)) // It may quote others.
		}
	}
	return exitStatus(err)
}

// commandsOf returns the commands below one, each before its own. The commands of completion, which
// the library adds, are left out.
func commandsOf(command *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range command.Commands() {
		all = append(all, sub)
		if sub.Name() != "completion" {
			all = append(all, commandsOf(sub)...)
		}
	}
	return all
}

// OnePerCore states in the help that the default of a flag is the number of cores.
func OnePerCore(flags *pflag.FlagSet, name string) { flags.Lookup(name).DefValue = "one per core" }

// MarkRequired makes flags of a command required.
func MarkRequired(command *cobra.Command, names ...string) {
	for _, name := range names {
		_ = command.MarkFlagRequired(name) // Fails only for a flag that is not there.
	}
}

// The exit statuses.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitBadInput = 2
)

// failedError is a failure. Every other error is bad usage or bad input.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

// Failed marks an error as a failure. It returns nil for nil.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return failedError{err}
}

// ErrInterrupted is the failure of a command that a signal interrupted.
var ErrInterrupted = Failed(errors.New("interrupted"))

func exitStatus(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, new(failedError)):
		return ExitFailed
	default:
		return ExitBadInput
	}
}

func newVersionCommand(program string) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == OutputTable {
				_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine(program))
				return Failed(err)
			}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return Failed(encoder.Encode(map[string]string{
				"program": program, "version": Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
			}))
		},
	}
	AddOutput(command.Flags(), &output)
	return command
}

// versionLine returns the version as a line of text.
func versionLine(program string) string {
	return fmt.Sprintf("%s %s %s %s/%s\n", program, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Version returns the version that the Go command stamped the binary with.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
