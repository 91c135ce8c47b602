package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

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
	// DefaultWidth is the width of a terminal that does not report its width, and of the help.
	DefaultWidth = 80

	// minClipped and minLast are the minimum widths of clipped columns and of a last column that is
	// wrapped, unless a table is folded.
	minClipped, minLast = 10, 15
)

// Screen describes a terminal. The zero value, for example for a pipe, has no styles and lines of any length.
type Screen struct {
	Bold, Dim, Red, Green, Yellow, Cyan Style
	// Width is the maximum number of columns of a line. 0 does not limit it.
	Width int
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
	t.rows = append(t.rows, tableRow{style: style, line: t.screen.Clip(t.screen.InUnits(line))})
}

// String returns the lines, without trailing spaces. If the table is wider than the screen, it shortens the cells of
// clipped columns, folds rows into several lines, and wraps cells.
func (t *Table) String() string {
	widths, folds := t.fit()
	var b strings.Builder
	for _, row := range t.rows {
		if row.cells == nil {
			b.WriteString(row.style.Paint(row.line) + "\n")
			continue
		}
		for _, line := range t.linesOf(row, widths, folds) {
			b.WriteString(row.style.Paint(line) + "\n")
		}
	}
	return b.String()
}

// linesOf returns the lines of a row: for each fold, as many as its cells have, with those from the second fold on
// indented.
func (t *Table) linesOf(row tableRow, widths, folds []int) []string {
	var lines []string
	for n, from := range folds {
		to, indent := len(widths), ""
		if n+1 < len(folds) {
			to = folds[n+1]
		}
		if n > 0 {
			indent = foldIndent
		}
		if from >= len(row.cells) {
			break
		}
		var parts [][]string
		height := 1
		for i := from; i < min(to, len(row.cells)); i++ {
			part := []string{row.cells[i]}
			switch {
			case utf8.RuneCountInString(row.cells[i]) <= widths[i]:
			case t.Clipped[i]:
				part[0] = clipMiddle(row.cells[i], widths[i])
			default:
				part = wrap(row.cells[i], widths[i])
			}
			parts, height = append(parts, part), max(height, len(part))
		}
		for l := range height {
			line := indent
			for i, part := range parts {
				cell, width := "", widths[from+i]
				if l < len(part) {
					cell = part[l]
				}
				if t.RightAligned[from+i] {
					line += fmt.Sprintf("%*s", width, cell)
				} else {
					line += fmt.Sprintf("%-*s", width, cell)
				}
				line += columnGap
			}
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return lines
}

// columnGap is between two columns, and foldIndent before the second and later lines of a folded row.
const columnGap, foldIndent = "  ", "  "

// fit returns the widths of the columns, and the first column of each line of a row. Without a limit, or if the table
// fits, rows have one line. It makes clipped columns narrower, the widest first, and then the last column. If that is
// not enough, it folds rows.
func (t *Table) fit() (widths, folds []int) {
	widths, folds = slices.Clone(t.widths), []int{0}
	last, limit := len(widths)-1, t.screen.Width
	if limit <= 0 || last < 0 {
		return widths, folds
	}
	rest := limit
	for _, width := range widths[:last] {
		rest -= width + len(columnGap)
	}
	for rest < min(minLast, widths[last]) {
		widest := -1
		for i, width := range widths[:last] {
			if t.Clipped[i] && width > minClipped && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		rest++
	}
	if rest >= min(minLast, widths[last]) {
		widths[last] = min(widths[last], rest)
		return widths, folds
	}
	used, room := 0, limit
	for i := range widths {
		if i > 0 && used+widths[i] > room {
			folds = append(folds, i)
			used, room = 0, max(1, limit-len(foldIndent))
		}
		widths[i] = min(widths[i], room)
		used += widths[i] + len(columnGap)
	}
	return widths, folds
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

// ScreenFor returns the screen for a writer. If the writer is a terminal, lines have at most its width, or COLUMNS
// if this variable is set. It has styles unless NO_COLOR is set (https://no-color.org). Otherwise, for example in a
// pipe, nothing is shortened.
func ScreenFor(w io.Writer, env LookupEnv) Screen {
	if !IsTerminal(w) {
		return Screen{}
	}
	s := Screen{Width: widthOf(w, env)}
	if env.Get("NO_COLOR") == "" && env.Get("TERM") != "dumb" {
		s.Bold, s.Dim, s.Red, s.Green, s.Yellow, s.Cyan = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"
	}
	return s
}

// widthOf returns the width of a terminal, in columns.
func widthOf(w io.Writer, env LookupEnv) int {
	if width, err := strconv.Atoi(env.Get("COLUMNS")); err == nil && width > 0 {
		return width
	}
	if file, isFile := w.(*os.File); isFile {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return DefaultWidth
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

// clipMiddle returns a text of at most a number of characters, with both ends of a long one: ids often differ only in
// their last characters.
func clipMiddle(long string, most int) string {
	runes := []rune(long)
	if len(runes) <= most {
		return long
	}
	tail := max(0, most-1) / 2
	return string(runes[:max(0, most-1-tail)]) + "…" + string(runes[len(runes)-tail:])
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

// Clip returns a printable text of at most one line of the screen.
func (s Screen) Clip(long string) string {
	if s.Width <= 0 {
		return text.Printable(long)
	}
	return Clip(long, s.Width)
}

// Wrap wraps a text into printable lines at most as wide as the screen.
func (s Screen) Wrap(long string) string {
	long = s.InUnits(text.Printable(long))
	if s.Width <= 0 {
		return strings.Join(strings.Fields(long), " ")
	}
	return strings.Join(wrap(long, s.Width), "\n")
}

// wrap breaks a long text into lines of at most width characters, between words if they are not longer.
func wrap(long string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(long) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for runes := []rune(line); len(runes) > width; runes = []rune(line) {
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
	}
	return append(lines, line)
}
