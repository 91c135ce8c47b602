package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand(program string) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  NoArgs,
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

// versionLine returns the version for a person.
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
