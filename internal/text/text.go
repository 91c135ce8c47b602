// Package text makes texts of others fit for logs, statuses and spans.
package text

import (
	"strings"
	"unicode/utf8"
)

// Shorten cuts a text that somebody else may make as long as a message, such as an id,
// to 200 bytes, at the end of a character, and replaces what is not UTF-8: one such text
// would keep a status from being sent, and all spans of its batch from being exported.
func Shorten(text string) string {
	const longest = 200
	if len(text) <= longest {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	end := longest
	for end > longest-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\uFFFD") + "…"
}
