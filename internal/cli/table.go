package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
)

// Table is lines of cells in aligned columns, two spaces apart. Columns become narrower, within limits, to fit
// on a screen.
type Table struct {
	// RightAligned contains the indices of right-aligned columns.
	RightAligned map[int]bool
	// Clipped contains the indices of columns, for example of ids, whose cells are shortened if the table is
	// wider than the screen.
	Clipped map[int]bool

	screen Screen
	rows   []tableRow
	widths []int // of the columns
}

type tableRow struct {
	style Style
	cells []string // nil for a line that is in no column
	line  string
}

const (
	// Width is the number of columns of a screen.
	Width = 80

	// minClipped and minLast are the minimum widths of clipped columns and of a last column that is
	// wrapped.
	minClipped, minLast = 10, 15
)

// Screen describes a terminal. The zero value has no styles.
type Screen struct {
	Bold, Dim, Red, Green, Yellow, Cyan Style
	// Unit is the name of a node in texts. If it is empty, it is "node".
	Unit string
}

// InUnits replaces nodes by the screen's unit in a text of this project.
func (s Screen) InUnits(long string) string { return format.InUnits(long, s.Unit) }

// NewTable returns an empty table.
func (s Screen) NewTable() *Table {
	return &Table{RightAligned: make(map[int]bool), Clipped: make(map[int]bool), screen: s}
}

// AlignRight aligns columns on the right, from one to another, and returns the table.
func (t *Table) AlignRight(from, to int) *Table {
	for i := from; i <= to; i++ {
		t.RightAligned[i] = true
	}
	return t
}

// AddRow adds a line in a style. It may have fewer cells than other lines. Cells may have untrusted text; its
// control characters are replaced. Nodes are in the unit of the screen, except in clipped columns, which have ids.
func (t *Table) AddRow(style Style, cells ...string) {
	for i, cell := range cells {
		cells[i] = text.Printable(cell)
		if !t.Clipped[i] {
			cells[i] = t.screen.InUnits(cells[i])
		}
		if i >= len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cells[i]))
	}
	t.rows = append(t.rows, tableRow{style: style, cells: cells})
}

// AddLine adds a line without columns.
func (t *Table) AddLine(style Style, line string) {
	t.rows = append(t.rows, tableRow{style: style, line: Clip(t.screen.InUnits(line), Width)})
}

// String returns the lines, without trailing spaces. If the table is wider than the screen, it wraps the cells of
// the last column and shortens the cells of clipped columns.
func (t *Table) String() string {
	last, rest := t.fit()
	var aligned strings.Builder
	var lines []tableRow
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		if row.cells == nil {
			lines = append(lines, row)
			continue
		}
		parts := []string{row.cells[len(row.cells)-1]}
		if len(row.cells) == last+1 && utf8.RuneCountInString(parts[0]) > rest {
			parts = wrap(parts[0], rest)
		}
		for n, part := range parts {
			cells := make([]string, len(row.cells))
			if n == 0 {
				copy(cells, row.cells)
			}
			cells[len(cells)-1] = part
			for i, cell := range cells {
				if t.Clipped[i] {
					cell = Clip(cell, t.widths[i])
				}
				if t.RightAligned[i] {
					cell = fmt.Sprintf("%*s", t.widths[i], cell)
				}
				cells[i] = cell
			}
			fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
			lines = append(lines, tableRow{style: row.style, cells: cells})
		}
	}
	_ = w.Flush() // A builder takes all.
	rows := strings.Split(aligned.String(), "\n")
	var b strings.Builder
	for _, line := range lines {
		if line.cells != nil {
			line.line, rows = strings.TrimRight(rows[0], " "), rows[1:]
		}
		b.WriteString(line.style.Paint(line.line) + "\n")
	}
	return b.String()
}

// fit makes clipped columns narrower, the widest first, until the table fits on the screen. It returns the last
// column and its maximum width.
func (t *Table) fit() (last, rest int) {
	last, rest = len(t.widths)-1, Width
	for _, width := range t.widths[:max(last, 0)] {
		rest -= width + 2
	}
	for last >= 0 && rest < min(minLast, t.widths[last]) {
		widest := -1
		for i, width := range t.widths[:last] {
			if t.Clipped[i] && width > minClipped && (widest < 0 || width > t.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		t.widths[widest]--
		rest++
	}
	return last, max(rest, minLast)
}

// Style is the ANSI escape code of a line.
type Style string

// Plain is the empty style.
const Plain Style = ""

// Paint returns the text in the style.
func (s Style) Paint(line string) string {
	if s == Plain {
		return line
	}
	return string(s) + line + "\x1b[0m"
}

// ScreenFor returns the screen for a writer. It has styles if the writer is a terminal and NO_COLOR is unset
// (https://no-color.org).
func ScreenFor(w io.Writer, env LookupEnv) Screen {
	if !IsTerminal(w) || env.Get("NO_COLOR") != "" || env.Get("TERM") == "dumb" {
		return Screen{}
	}
	return Screen{Bold: "\x1b[1m", Dim: "\x1b[2m", Red: "\x1b[31m", Green: "\x1b[32m", Yellow: "\x1b[33m", Cyan: "\x1b[36m"}
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

// Clip returns a printable text of at most a number of characters. A shortened text ends with "…".
func Clip(long string, most int) string {
	long = text.Printable(long)
	runes := []rune(long)
	if len(runes) <= most {
		return long
	}
	return string(runes[:max(0, most-1)]) + "…"
}

// Wrap wraps a text into printable lines at most as wide as the screen, unless a word is longer.
func (s Screen) Wrap(long string) string {
	return strings.Join(wrap(s.InUnits(text.Printable(long)), Width), "\n")
}

// wrap breaks a long text into lines of at most width characters, as far as its words allow.
func wrap(long string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(long) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
