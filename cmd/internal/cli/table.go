package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
)

// Table is lines of cells that are aligned in columns, two spaces apart, and fit on a screen
// as far as its columns may become narrower.
type Table struct {
	// RightAligned has the numbers, from 0, of the columns that are aligned on the right.
	RightAligned map[int]bool
	// Clipped has the columns, such as those of ids, whose cells are cut off where the table
	// would be wider than the screen.
	Clipped map[int]bool
	// Wrapped breaks the cells of this column, the last one, into lines; 0 is none.
	Wrapped int

	screen Screen
	rows   []tableRow
}

type tableRow struct {
	style Style
	cells []string
	// whole says that the one cell is a line of its own, in no column.
	whole bool
}

// Width is how many columns a screen has that does not say.
const Width = 80

// Screen is what text for a person is written to. The zero value has no styles.
type Screen struct {
	Bold, Dim, Red, Green, Yellow, Cyan Style
	// Width is the number of columns; 0 is that of the constant.
	Width int
	// Unit is what texts of this project call a node; "" is a node.
	Unit string
}

// InUnits returns a text of this project that calls a node by the screen's unit.
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

// AddRow adds a line in a style; it may be shorter than others. Cells may hold texts of others,
// which cannot drive the terminal. Nodes are in the units of the screen, except in clipped columns,
// which hold ids.
func (t *Table) AddRow(style Style, cells ...string) {
	for i, cell := range cells {
		cells[i] = text.Printable(cell)
		if !t.Clipped[i] {
			cells[i] = t.screen.InUnits(cells[i])
		}
	}
	t.rows = append(t.rows, tableRow{style: style, cells: cells})
}

// AddLine adds a line that is in no column.
func (t *Table) AddLine(style Style, line string) {
	t.rows = append(t.rows, tableRow{style: style, cells: []string{Clip(t.screen.InUnits(line), t.screen.Columns())}, whole: true})
}

// String returns the lines, without trailing spaces.
func (t *Table) String() string {
	widths := t.widths()
	var b strings.Builder
	for _, row := range t.rows {
		if row.whole {
			b.WriteString(row.style.Paint(row.cells[0]) + "\n")
			continue
		}
		for _, cells := range t.lines(row.cells, widths) {
			var line strings.Builder
			for i, cell := range cells {
				if i > 0 {
					line.WriteString("  ")
				}
				padding := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
				if t.RightAligned[i] {
					line.WriteString(padding + cell)
				} else {
					line.WriteString(cell + padding)
				}
			}
			b.WriteString(row.style.Paint(strings.TrimRight(line.String(), " ")) + "\n")
		}
	}
	return b.String()
}

func (t *Table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row.cells {
			if row.whole {
				break
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	over := 2*(len(widths)-1) - t.screen.Columns()
	for _, width := range widths {
		over += width
	}
	const least, leastWrapped = 10, 15 // of cells that are cut off, and of those broken into lines
	if last := len(widths) - 1; over > 0 && t.Wrapped > 0 && last == t.Wrapped {
		wrapped := min(widths[last], max(leastWrapped, widths[last]-over))
		over -= widths[last] - wrapped
		widths[last] = wrapped
	}
	for ; over > 0; over-- {
		widest := -1
		for i, width := range widths {
			if t.Clipped[i] && width > least && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// lines returns the cells of a row as they fit: one line, more where the last one is broken.
func (t *Table) lines(cells []string, widths []int) [][]string {
	fit := make([]string, len(cells))
	for i, cell := range cells {
		fit[i] = cell
		if t.Clipped[i] {
			fit[i] = Clip(cell, widths[i])
		}
	}
	if t.Wrapped == 0 || len(cells) != t.Wrapped+1 || utf8.RuneCountInString(cells[t.Wrapped]) <= widths[t.Wrapped] {
		return [][]string{fit}
	}
	var lines [][]string
	for n, part := range wrap(cells[t.Wrapped], widths[t.Wrapped]) {
		if n > 0 {
			fit = make([]string, len(cells))
		}
		fit[t.Wrapped] = part
		lines = append(lines, fit)
	}
	return lines
}

// Style is the ANSI escape code of a line.
type Style string

// Plain is the style of a line without one.
const Plain Style = ""

// Paint returns the text in the style.
func (s Style) Paint(line string) string {
	if s == Plain {
		return line
	}
	return string(s) + line + "\x1b[0m"
}

// ScreenFor returns the screen for a writer, with styles where it is a terminal that wants
// them (https://no-color.org), and as many columns as $COLUMNS says.
func ScreenFor(w io.Writer, env LookupEnv) Screen {
	var s Screen
	if columns, err := strconv.Atoi(env.Get("COLUMNS")); err == nil && columns >= Width {
		s.Width = columns
	}
	if IsTerminal(w) && env.Get("NO_COLOR") == "" && env.Get("TERM") != "dumb" {
		s.Bold, s.Dim, s.Red, s.Green, s.Yellow, s.Cyan = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"
	}
	return s
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

// Columns returns the number of columns.
func (s Screen) Columns() int {
	if s.Width > 0 {
		return s.Width
	}
	return Width
}

// Clip returns a printable text of at most this many characters, with a mark where it is cut.
func Clip(long string, most int) string {
	long = text.Printable(long)
	runes := []rune(long)
	if len(runes) <= most {
		return long
	}
	return string(runes[:max(0, most-1)]) + "…"
}

// Wrap breaks a text into printable lines no wider than the screen, as far as its words allow.
func (s Screen) Wrap(long string) string {
	return strings.Join(wrap(s.InUnits(text.Printable(long)), s.Columns()), "\n")
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
