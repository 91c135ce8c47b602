package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestFlagsCommand checks that the reference describes a flag of several commands once, unless its meaning differs.
func TestFlagsCommand(t *testing.T) {
	root := &cobra.Command{Use: "program"}
	for _, name := range []string{"one", "two", "three"} {
		command := &cobra.Command{Use: name, Short: "Do it", Long: "Do " + name + ".", Run: func(*cobra.Command, []string) {}}
		command.Flags().Int("work", 1, "limit of steps")
		command.Flags().String("out", "", "folder of "+name)
		root.AddCommand(command)
	}
	root.AddCommand(newFlagsCommand(root))
	var page strings.Builder
	root.SetOut(&page)
	root.SetArgs([]string{"flags"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for text, times := range map[string]int{
		"limit of steps": 1, "## Common options of program": 1, "](#common-options-of-program): `--work`": 3,
		"folder of one": 1, "folder of two": 1, "folder of three": 1, "--help": 0, "Do it": 0, "Do two.": 1,
	} {
		if got := strings.Count(page.String(), text); got != times {
			t.Errorf("%q is there %d times; must be %d:\n%s", text, got, times, page.String())
		}
	}
}
