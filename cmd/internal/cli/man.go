package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writeMan writes one page about a program and all its commands, in the macros of man(7). A
// release has those of its programs.
func writeMan(w io.Writer, root *cobra.Command) error {
	var page strings.Builder
	fmt.Fprintf(&page, ".TH %s 1 \"\" \"\" \"User Commands\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.I command\n[flags]\n.SH DESCRIPTION\n",
		strings.ToUpper(root.Name()), root.Name(), roff(root.Short), root.Name())
	page.WriteString(roffText(root.Long))
	page.WriteString(".SH COMMANDS\n")
	for _, command := range root.Commands() {
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
