package cli

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/internal/text"
)

// Width is how many columns a screen has that does not say.
const Width = 80

// Screen is what text for a person is written to. The zero value has no styles.
type Screen struct {
	Bold, Dim, Red, Green, Yellow, Cyan Style
	// Width is the number of columns; 0 is that of the constant.
	Width int
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
	return strings.Join(wrap(text.Printable(long), s.Columns()), "\n")
}

// reflow breaks the paragraphs of a text into lines as wide as a screen; lines that are
// indented stay as they are.
func reflow(long string) string {
	var lines, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			lines = append(lines, wrap(strings.Join(paragraph, " "), Width)...)
			paragraph = nil
		}
	}
	for line := range strings.Lines(long) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == ' ' {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(lines, "\n")
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
