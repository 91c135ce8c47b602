package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTableFits lays out a table that is wider than a screen.
func TestTableFits(t *testing.T) {
	t.Parallel()
	table := Screen{}.NewTable().AlignRight(1, 1)
	table.Clipped[0], table.Clipped[2] = true, true
	table.AddLine(Plain, strings.Repeat("heading ", 20))
	table.AddRow(Plain, "JOB", "NODES", "CHANGE", "WHY")
	table.AddRow(Plain, strings.Repeat("größe-", 12), "8 → 16", "wait: behind x", strings.Repeat("word ", 12))
	table.AddLine(Plain, "among them")
	table.AddRow(Plain, "a", "1")
	text := table.String()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > Width {
			t.Errorf("a line has %d columns of %d: %s", n, Width, line)
		}
	}
	if strings.Count(text, "word") != 12 || !strings.Contains(text, "größ") || strings.Count(text, "…") < 2 || !strings.Contains(text, "\namong them\na  ") {
		t.Errorf("the table is\n%s", text)
	}
	if got := (Screen{}).NewTable().String(); got != "" {
		t.Errorf("an empty table is %q", got)
	}
	narrow := Screen{}.NewTable()
	narrow.AddRow(Plain, "a", "b")
	if got := narrow.String(); got != "a  b\n" {
		t.Errorf("a table that fits is %q", got)
	}
}
