package cli

import (
	"os"
	"strings"
	"testing"
)

func TestColors(t *testing.T) {
	noEnv := func(string) (string, bool) { return "", false }
	if got := ColorsFor(new(strings.Builder), noEnv); got != (Colors{}) {
		t.Errorf("colors of a buffer are %+v; want none", got)
	}
	file, err := os.Create(t.TempDir() + "/table")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := ColorsFor(file, noEnv); got != (Colors{}) {
		t.Errorf("colors of a file are %+v; want none", got)
	}
	terminal, err := os.OpenFile("/dev/null", os.O_WRONLY, 0) // A character device, as a terminal is.
	if err != nil {
		t.Skip("no character device: ", err)
	}
	defer terminal.Close()
	if got := ColorsFor(terminal, noEnv); got.Green.Paint("x") != "\x1b[32mx\x1b[0m" {
		t.Errorf("green is painted %q", got.Green.Paint("x"))
	}
	noColor := func(name string) (string, bool) { return "1", name == "NO_COLOR" }
	if got := ColorsFor(terminal, noColor); got != (Colors{}) {
		t.Errorf("colors with NO_COLOR are %+v; want none", got)
	}
}
