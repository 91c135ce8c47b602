// Package text makes texts of callers fit for logs, statuses, spans and terminals.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shorten cuts a text of a caller, such as an id, to 200 bytes, at the end of a character, and
// replaces what is not UTF-8: one such text would keep a status from being sent, and all spans
// of its batch from being exported. What a terminal or a browser would obey is escaped as in Go.
func Shorten(text string) string {
	const longest = 200
	if len(text) <= longest {
		return Printable(text)
	}
	end := longest
	for end > longest-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return Printable(text[:end]) + "…"
}

// Printable replaces what is not UTF-8 and escapes, as Go does, what a terminal or a browser would
// obey.
func Printable(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return text // As most are.
	}
	var escaped strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsPrint(r) {
			escaped.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		escaped.WriteString(quoted[1 : len(quoted)-1])
	}
	return escaped.String()
}

// Cell makes a text of a caller fit for a cell of CSV: printable, and with a quote before what a
// spreadsheet would take for a formula.
func Cell(text string) string {
	text = Printable(text)
	if strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}
