package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newReferenceCommand returns a hidden command that writes a reference of the program.
func newReferenceCommand(root *cobra.Command, name, short string, write func(io.Writer, *cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use:    name,
		Short:  short,
		Hidden: true,
		Args:   NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Failed(write(cmd.OutOrStdout(), root))
		},
	}
}

// writeFlags writes a table of the flags of each command, as in docs/flags.md.
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
			value := defaultOf(flag)
			if value != "" {
				value = "`" + value + "`"
			}
			usage := strings.TrimSuffix(flag.Usage, " [$"+environmentName(flag)+"]")
			if kind := flag.Value.Type(); strings.Contains(kind, "|") {
				usage += ": " + strings.ReplaceAll(kind, "|", ", ")
			}
			fmt.Fprintf(&text, "| %s | %s | `%s` | %s |\n", name, value, environmentName(flag),
				strings.ReplaceAll(usage, "|", `\|`))
		})
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// defaultOf returns the default of a flag as a reference shows it, "" for none.
func defaultOf(flag *pflag.Flag) string {
	value := strings.Trim(flag.DefValue, "[]")
	if value == "" || value == "0s" {
		return ""
	}
	return value
}
