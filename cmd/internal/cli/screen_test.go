package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestScreenFor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Screen{
		"":             {},
		"COLUMNS=120":  {Width: 120},
		"COLUMNS=20":   {},
		"COLUMNS=wide": {},
	} {
		env := make(map[string]string)
		for assignment := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(assignment, "=")
			env[name] = value
		}
		lookup := func(name string) (string, bool) { value, set := env[name]; return value, set }
		if got := ScreenFor(new(strings.Builder), lookup); got != want {
			t.Errorf("with %q the screen is %+v; want %+v", text, got, want)
		}
	}
}

// TestTableFits lays out tables that are wider than a screen.
func TestTableFits(t *testing.T) {
	t.Parallel()
	for _, screen := range []Screen{{}, {Width: 100}} {
		table := screen.NewTable().AlignRight(1, 1)
		table.Clipped[0], table.Clipped[2], table.Wrapped = true, true, 3
		table.AddLine(Plain, strings.Repeat("heading ", 20))
		table.AddRow(Plain, "JOB", "NODES", "CHANGE", "WHY")
		table.AddRow(Plain, strings.Repeat("größe-", 12), "8 → 16", "wait: behind "+strings.Repeat("x", 30), strings.Repeat("word ", 12))
		text := table.String()
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > screen.Columns() {
				t.Errorf("a line has %d columns of %d: %s", n, screen.Columns(), line)
			}
		}
		if strings.Count(text, "word") != 12 || !strings.Contains(text, "größ") || strings.Count(text, "…") < 2 {
			t.Errorf("the table is\n%s", text)
		}
	}
	narrow := Screen{}.NewTable()
	narrow.AddRow(Plain, "a", "b")
	if got := narrow.String(); got != "a  b\n" {
		t.Errorf("a table that fits is %q", got)
	}
}
