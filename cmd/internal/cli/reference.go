package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newFlagsCommand returns a hidden command that prints the reference of all commands, as in
// docs/reference/command-line.md.
func newFlagsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "flags", Short: "Print the reference of all commands as Markdown", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, command := range append([]*cobra.Command{root}, commandsOf(root)...) {
				if command.Hidden || !command.HasAvailableFlags() || command.Name() == "help" || command.Name() == "completion" {
					continue
				}
				var page strings.Builder
				if err := doc.GenMarkdown(command, &page); err != nil {
					return Failed(err)
				}
				text, _, _ := strings.Cut(page.String(), "### SEE ALSO") // It links files.
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", strings.TrimSpace(text)); err != nil {
					return Failed(err)
				}
			}
			return nil
		},
	}
}

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
