package cli

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestStyles(t *testing.T) {
	noEnv := func(string) (string, bool) { return "", false }
	if got := ScreenFor(new(strings.Builder), noEnv); got != (Screen{}) {
		t.Errorf("the screen of a buffer is %+v; want none", got)
	}
	file, err := os.Create(t.TempDir() + "/table")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := ScreenFor(file, noEnv); got != (Screen{}) {
		t.Errorf("the screen of a file is %+v; want none", got)
	}
	terminal, err := os.OpenFile("/dev/null", os.O_WRONLY, 0) // A character device, as a terminal is.
	if err != nil {
		t.Skip("no character device: ", err)
	}
	defer terminal.Close()
	if got := ScreenFor(terminal, noEnv); got.Green.Paint("x") != "\x1b[32mx\x1b[0m" {
		t.Errorf("green is painted %q", got.Green.Paint("x"))
	}
	noColor := func(name string) (string, bool) {
		if name == "NO_COLOR" {
			return "1", true
		}
		return "", false
	}
	if got, want := ScreenFor(terminal, noColor), (Screen{Width: DefaultWidth}); got != want {
		t.Errorf("the screen with NO_COLOR is %+v; want %+v", got, want)
	}
}

func TestDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "1d08h": day + 8*time.Hour, "0.5d": day / 2, "-1d2h": -day - 2*time.Hour, "90m": 90 * time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1d ", "1d2", "days", "infd", "1e9d", "200000d"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is %v; want an error", text, got)
		}
	}
}
