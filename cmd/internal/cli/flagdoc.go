package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
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

// writeFlags writes lists of the flags of the commands, as in docs/flags.md. Flags that several
// commands describe in the same words come first; each of these commands only names them.
func writeFlags(w io.Writer, root *cobra.Command) error {
	var commands []*cobra.Command
	times, shared := map[string]int{}, map[string]string{}
	for _, command := range root.Commands() {
		if command.Hidden || !command.Flags().HasFlags() {
			continue
		}
		commands = append(commands, command)
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if line := flagLine(flag); flag.Name != "help" {
				if times[line]++; times[line] > 1 && shared[flag.Name] == "" {
					shared[flag.Name] = line
				}
			}
		})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n## %s: shared by commands\n\n", root.Name())
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		text.WriteString(shared[name])
	}
	for _, command := range commands {
		var own strings.Builder
		var names []string
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			switch line := flagLine(flag); {
			case flag.Name == "help":
			case shared[flag.Name] != line:
				own.WriteString(line)
			default:
				names = append(names, "`--"+flag.Name+"`")
			}
		})
		fmt.Fprintf(&text, "\n## %s\n\n%s", command.CommandPath(), own.String())
		if len(names) > 0 {
			fmt.Fprintf(&text, "- Shared: %s\n", strings.Join(names, ", "))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// flagLine describes a flag, with its variable where that does not follow from its name.
func flagLine(flag *pflag.Flag) string {
	name := "`--" + flag.Name + "`"
	if flag.Shorthand != "" {
		name += ", `-" + flag.Shorthand + "`"
	}
	usage := strings.TrimSuffix(flag.Usage, " [$"+environmentName(flag)+"]")
	if kind := flag.Value.Type(); strings.Contains(kind, "|") {
		usage += ": " + strings.ReplaceAll(kind, "|", ", ")
	}
	if value := defaultOf(flag); value != "" {
		usage += " (default `" + value + "`)"
	}
	if len(flag.Annotations[variableAnnotation]) > 0 {
		usage += "; variable `" + environmentName(flag) + "`"
	}
	return "- " + name + ": " + usage + "\n"
}

// defaultOf returns the default of a flag as a reference shows it, "" for a zero value.
func defaultOf(flag *pflag.Flag) string {
	value := strings.Trim(flag.DefValue, "[]")
	if slices.Contains([]string{"", "0", "0s", "false"}, value) {
		return ""
	}
	return value
}
