package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// table is lines of cells that are aligned in columns, two spaces apart.
type table struct {
	rows         []tableRow
	widths       []int
	rightAligned map[int]bool
}

type tableRow struct {
	style style
	cells []string
}

// addRow adds a line; it may be shorter than others.
func (t *table) addRow(s style, cells ...string) {
	t.rows = append(t.rows, tableRow{style: s, cells: cells})
	for i, cell := range cells {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// String returns the lines, without trailing spaces.
func (t *table) String() string {
	var text strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row.cells {
			padding := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if t.rightAligned[i] {
				line.WriteString(padding + cell)
			} else {
				line.WriteString(cell + padding)
			}
		}
		text.WriteString(row.style.paint(strings.TrimRight(line.String(), " ")))
		text.WriteByte('\n')
	}
	return text.String()
}

// style is the ANSI escape code of a line, nothing for plain.
type style string

const plain style = ""

// colors are the styles a terminal is shown; the zero value shows none.
type colors struct {
	bold, start, scaleUp, scaleDown, wait, preempt style
}

// colorsFor returns the colors for a writer: none unless it is a terminal that
// wants them (https://no-color.org).
func colorsFor(w io.Writer, env lookupEnv) colors {
	file, isFile := w.(*os.File)
	if !isFile {
		return colors{}
	}
	info, err := file.Stat()
	noColor, _ := env("NO_COLOR")
	terminal, _ := env("TERM")
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || noColor != "" || terminal == "dumb" {
		return colors{}
	}
	return colors{
		bold:      "\x1b[1m",
		start:     "\x1b[32m",
		scaleUp:   "\x1b[36m",
		scaleDown: "\x1b[33m",
		wait:      "\x1b[2m",
		preempt:   "\x1b[31m",
	}
}

// ofChange returns the style of a job's line.
func (c colors) ofChange(change elastallocv1.Change) style {
	switch change {
	case elastallocv1.Change_CHANGE_START:
		return c.start
	case elastallocv1.Change_CHANGE_SCALE_UP:
		return c.scaleUp
	case elastallocv1.Change_CHANGE_SCALE_DOWN:
		return c.scaleDown
	case elastallocv1.Change_CHANGE_WAIT:
		return c.wait
	case elastallocv1.Change_CHANGE_PREEMPT:
		return c.preempt
	default:
		return plain
	}
}

// paint returns the text in the style.
func (s style) paint(text string) string {
	if s == plain {
		return text
	}
	return string(s) + text + "\x1b[0m"
}
