package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestTableFits lays out a table that is wider than a screen.
func TestTableFits(t *testing.T) {
	t.Parallel()
	const width = 80
	table := Screen{Width: width}.NewTable().AlignRight(1, 1)
	table.Clipped[0], table.Clipped[2] = true, true
	table.AddLine(Plain, strings.Repeat("heading ", 20))
	table.AddRow(Plain, "JOB", "NODES", "CHANGE", "WHY")
	table.AddRow(Plain, strings.Repeat("größe-", 12), "8 → 16", "wait: behind x", strings.Repeat("word ", 12))
	table.AddLine(Plain, "among them")
	table.AddRow(Plain, "a", "1")
	text := table.String()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("a line has %d columns of %d: %s", n, width, line)
		}
	}
	if strings.Count(text, "word") != 12 || !strings.Contains(text, "größ") ||
		!strings.Contains(text, "…") || !strings.Contains(text, "\namong them\na  ") {
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

// checkWholeRows checks that each row is one line with all its cells.
func checkWholeRows(t *rapid.T, text string, rows [][]string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != len(rows) {
		t.Fatalf("%d lines for %d rows:\n%s", len(lines), len(rows), text)
	}
	for n, row := range rows {
		for _, cell := range row {
			if !strings.Contains(lines[n], cell) {
				t.Fatalf("line %d lacks %q:\n%s", n, cell, text)
			}
		}
	}
}

// TestTableFitsAnyWidth checks that no line of a random table is wider than the screen, and that only clipped columns
// lose text. Without a limit, each row is one line with all its cells.
func TestTableFitsAnyWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		screen := Screen{Width: rapid.OneOf(rapid.Just(0), rapid.IntRange(40, 240)).Draw(t, "width")}
		columns := rapid.IntRange(1, 12).Draw(t, "columns")
		table := screen.NewTable()
		for i := range columns {
			table.RightAligned[i] = rapid.Bool().Draw(t, "right")
			table.Clipped[i] = rapid.Bool().Draw(t, "clipped")
		}
		cell := rapid.StringMatching(`[a-zé]{1,9}( [a-zé]{1,9}){0,12}|[a-zé-]{0,120}`)
		var rows [][]string
		for range rapid.IntRange(1, 8).Draw(t, "rows") {
			row := rapid.SliceOfN(cell, 1, columns).Draw(t, "row")
			rows = append(rows, slices.Clone(row))
			table.AddRow(Plain, row...)
		}
		text := table.String()
		if screen.Width == 0 {
			checkWholeRows(t, text, rows)
			return
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > screen.Width {
				t.Fatalf("a line has %d columns of %d:\n%s", n, screen.Width, text)
			}
		}
		letters := func(of string) int {
			return strings.Count(of, "é")
		}
		want, clipped := 0, false
		for _, row := range rows {
			for i, cell := range row {
				clipped = clipped || table.Clipped[i]
				want += letters(cell)
			}
		}
		if got := letters(text); got > want || !clipped && got != want {
			t.Fatalf("the text has %d of %d letters:\n%s", got, want, text)
		}
	})
}

// TestClippedIDsDiffer checks that ids that differ only at their end differ when they are shortened.
func TestClippedIDsDiffer(t *testing.T) {
	t.Parallel()
	table := Screen{Width: 40}.NewTable()
	table.Clipped[0] = true
	id := strings.Repeat("team-a/experiment-", 5)
	table.AddRow(Plain, id+"1", "keep")
	table.AddRow(Plain, id+"2", "keep")
	if lines := strings.Split(table.String(), "\n"); lines[0] == lines[1] || !strings.Contains(lines[0], "…") {
		t.Errorf("the lines are\n%s", table)
	}
}
