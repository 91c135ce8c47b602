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

// writeFlags writes lists of the flags of the commands, as in docs/reference/command-line.md. Flags that several
// commands describe in the same words come first; each of these commands only names them.
func writeFlags(w io.Writer, root *cobra.Command) error {
	var commands []*cobra.Command
	times, shared := map[string]int{}, map[string]string{}
	for _, command := range commandsOf(root) {
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

// writeMan writes one page about a program and all its commands, in the macros of man(7). A
// release has those of its programs.
func writeMan(w io.Writer, root *cobra.Command) error {
	var page strings.Builder
	fmt.Fprintf(&page, ".TH %s 1 \"\" \"\" \"User Commands\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.I command\n[flags]\n.SH DESCRIPTION\n",
		strings.ToUpper(root.Name()), root.Name(), roff(root.Short), root.Name())
	page.WriteString(roffText(root.Long))
	page.WriteString(".SH COMMANDS\n")
	for _, command := range commandsOf(root) {
		if command.Hidden || command.Name() == "help" {
			continue
		}
		fmt.Fprintf(&page, ".SS %s\n", roff(command.UseLine()))
		if command.Long == "" {
			page.WriteString(roffText(command.Short + "."))
		}
		page.WriteString(roffText(command.Long))
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Hidden || flag.Name == "help" {
				return
			}
			name := "--" + flag.Name
			if flag.Shorthand != "" {
				name = "-" + flag.Shorthand + ", " + name
			}
			kind, usage := pflag.UnquoteUsage(flag)
			if value := defaultOf(flag); value != "" {
				usage += " (default " + value + ")"
			}
			fmt.Fprintf(&page, ".TP\n\\fB%s\\fR \\fI%s\\fR\n%s\n", roff(name), roff(kind), roff(usage))
		})
		if command.Example != "" {
			fmt.Fprintf(&page, ".PP\nExamples:\n.PP\n.nf\n%s\n.fi\n", roff(command.Example))
		}
	}
	_, err := io.WriteString(w, page.String())
	return err
}

// roffText writes paragraphs, and lines that are indented as they stand.
func roffText(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			b.WriteString(".PP\n")
		case line[0] == ' ':
			b.WriteString(".nf\n" + roff(line) + "\n.fi\n")
		default:
			b.WriteString(roff(line) + "\n")
		}
	}
	return b.String()
}

// roff escapes a text, in which a hyphen is one that can be pasted.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
