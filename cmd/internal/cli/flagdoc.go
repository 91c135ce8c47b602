package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newFlagsCommand returns the hidden command that prints the reference of all flags as
// Markdown, out of which docs/flags.md is generated.
func newFlagsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "flags",
		Short:  "Print the reference of all flags as Markdown",
		Hidden: true,
		Args:   NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Failed(writeFlags(cmd.OutOrStdout(), root))
		},
	}
}

// writeFlags writes a table of the flags of each command.
func writeFlags(w io.Writer, root *cobra.Command) error {
	var text strings.Builder
	for _, command := range root.Commands() {
		if !command.Flags().HasFlags() || command.Hidden {
			continue
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s.\n\n| flag | default | variable | |\n|---|---|---|---|\n",
			command.CommandPath(), command.Short)
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" {
				return
			}
			name := "`--" + flag.Name + "`"
			if flag.Shorthand != "" {
				name += ", `-" + flag.Shorthand + "`"
			}
			usage := strings.TrimSuffix(flag.Usage, " [$"+environmentName(flag)+"]")
			fmt.Fprintf(&text, "| %s | %s | `%s` | %s |\n", name, defaultOf(flag), environmentName(flag),
				strings.ReplaceAll(usage, "|", `\|`))
		})
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// defaultOf returns the default of a flag as the table shows it, nothing where there is
// none.
func defaultOf(flag *pflag.Flag) string {
	value := strings.Trim(flag.DefValue, "[]")
	if value == "" || value == "0s" {
		return ""
	}
	return "`" + value + "`"
}
