package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// newFlagsCommand returns a hidden command that prints the reference of all commands, as in
// docs/reference/command-line.md.
func newFlagsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "flags", Short: "Print the reference of all commands as Markdown", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			common := commonFlags(root)
			var pages strings.Builder
			for _, command := range commandsOf(root) {
				if command.Hidden || !command.HasAvailableFlags() {
					continue
				}
				var page strings.Builder
				if err := doc.GenMarkdown(command, &page); err != nil {
					return Failed(err)
				}
				text, _, _ := strings.Cut(page.String(), "### SEE ALSO") // It links files.
				text, _, _ = strings.Cut(text, "### Options")
				text = strings.Replace(text, command.Short+"\n\n### Synopsis\n\n", "", 1) // The first sentence repeats it.
				fmt.Fprintf(&pages, "\n%s\n%s", strings.TrimSpace(text), optionsOf(command, common))
			}
			if common.HasFlags() {
				fmt.Fprintf(&pages, "\n## %s\n\n```\n%s```\n", commonHeading(root), common.FlagUsages())
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), pages.String())
			return Failed(err)
		},
	}
}

// commonFlags returns the flags that at least two commands have with the same meaning. The reference describes them
// once.
func commonFlags(root *cobra.Command) *pflag.FlagSet {
	common, first := pflag.NewFlagSet("", pflag.ContinueOnError), make(map[string]*pflag.Flag)
	for _, command := range commandsOf(root) {
		visitOptions(command, func(flag *pflag.Flag) {
			if other := first[flag.Name]; other == nil {
				first[flag.Name] = flag
			} else if sameFlag(flag, other) && common.Lookup(flag.Name) == nil {
				common.AddFlag(flag)
			}
		})
	}
	return common
}

// visitOptions visits the flags of a command that users see, without --help.
func visitOptions(command *cobra.Command, visit func(*pflag.Flag)) {
	command.NonInheritedFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && !flag.Hidden {
			visit(flag)
		}
	})
}

func sameFlag(a, b *pflag.Flag) bool {
	return b != nil && a.Usage == b.Usage && a.DefValue == b.DefValue && a.Value.Type() == b.Value.Type()
}

// optionsOf describes the flags of a command, and names the common ones.
func optionsOf(command *cobra.Command, common *pflag.FlagSet) string {
	own, shared := pflag.NewFlagSet("", pflag.ContinueOnError), []string(nil)
	visitOptions(command, func(flag *pflag.Flag) {
		if sameFlag(flag, common.Lookup(flag.Name)) {
			shared = append(shared, "`--"+flag.Name+"`")
		} else {
			own.AddFlag(flag)
		}
	})
	var options strings.Builder
	if own.HasFlags() {
		fmt.Fprintf(&options, "\n### Options\n\n```\n%s```\n", own.FlagUsages())
	}
	if len(shared) > 0 {
		heading := commonHeading(command.Root())
		fmt.Fprintf(&options, "\n[%s](#%s): %s\n", heading, strings.ToLower(strings.ReplaceAll(heading, " ", "-")), strings.Join(shared, ", "))
	}
	return options.String()
}

func commonHeading(root *cobra.Command) string { return "Common options of " + root.Name() }

// newManCommand returns a hidden command that writes manual pages for releases.
func newManCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages to a folder", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			return Failed(doc.GenManTree(root, nil, args[0]))
		},
	}
}
