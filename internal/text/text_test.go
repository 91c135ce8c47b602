package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "job-1": "job-1", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1",
		"@SUM(A1)": "'@SUM(A1)", "\t=1": `\t=1`, "\r=1": `\r=1`, "a\x1b": `a\x1b`,
	} {
		if got := Cell(text); got != want {
			t.Errorf("Cell(%q) = %q; want %q", text, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"empty":                  {"", ""},
		"short":                  {"größer", "größer"},
		"as long as may be":      {strings.Repeat("x", 200), strings.Repeat("x", 200)},
		"too long":               {strings.Repeat("x", 201), strings.Repeat("x", 200) + "…"},
		"at a character's start": {strings.Repeat("x", 199) + "ßß", strings.Repeat("x", 199) + "…"},
		"no UTF-8":               {"a\xffb", "a\uFFFDb"},
		"not to be obeyed":       {"a\x1b[2J\u009b2J\u202eb\x7f\n", `a\x1b[2J\u009b2J\u202eb\x7f\n`},
		"long and no UTF-8":      {strings.Repeat("\xbf", 300), "\uFFFD…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Shorten(test.text)
			if got != test.want || !utf8.ValidString(got) {
				t.Errorf("Shorten(%q) = %q; want %q", test.text, got, test.want)
			}
		})
	}
}
