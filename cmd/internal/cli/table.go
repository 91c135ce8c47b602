package cli

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Table is lines of cells that are aligned in columns, two spaces apart.
type Table struct {
	// RightAligned has the numbers, from 0, of the columns that are aligned on the right.
	RightAligned map[int]bool

	rows   []tableRow
	widths []int
}

type tableRow struct {
	style Style
	cells []string
}

// AddRow adds a line in a style; it may be shorter than others.
func (t *Table) AddRow(s Style, cells ...string) {
	t.rows = append(t.rows, tableRow{style: s, cells: cells})
	for i, cell := range cells {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// String returns the lines, without trailing spaces.
func (t *Table) String() string {
	var text strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row.cells {
			padding := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if t.RightAligned[i] {
				line.WriteString(padding + cell)
			} else {
				line.WriteString(cell + padding)
			}
		}
		text.WriteString(row.style.Paint(strings.TrimRight(line.String(), " ")))
		text.WriteByte('\n')
	}
	return text.String()
}

// Style is the ANSI escape code of a line.
type Style string

// Plain is the style of a line without one.
const Plain Style = ""

// Colors are the styles a terminal is shown; the zero value shows none.
type Colors struct {
	Bold, Dim, Red, Green, Yellow, Cyan Style
}

// ColorsFor returns the colors for a writer: none unless it is a terminal that
// wants them (https://no-color.org).
func ColorsFor(w io.Writer, env LookupEnv) Colors {
	if !IsTerminal(w) || env.Get("NO_COLOR") != "" || env.Get("TERM") == "dumb" {
		return Colors{}
	}
	return Colors{
		Bold:   "\x1b[1m",
		Dim:    "\x1b[2m",
		Red:    "\x1b[31m",
		Green:  "\x1b[32m",
		Yellow: "\x1b[33m",
		Cyan:   "\x1b[36m",
	}
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Paint returns the text in the style.
func (s Style) Paint(text string) string {
	if s == Plain {
		return text
	}
	return string(s) + text + "\x1b[0m"
}
