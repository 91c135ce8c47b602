package clitest

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/elastalloc/elastalloc/internal/cli"
)

// RunOnTerminal executes a command line like Run, with a terminal of a width, without colors, as standard output.
func RunOnTerminal(
	t *testing.T, main Main, columns int, env map[string]string, stdin string, args ...string,
) (stdout, stderr string, status int) {
	t.Helper()
	screen, keyboard := openTerminal(t, columns)
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(keyboard) // The end of a terminal is an error.
		shown <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	env = maps.Clone(env)
	if env == nil {
		env = make(map[string]string)
	}
	env["NO_COLOR"] = "1"
	lookup := func(name string) (string, bool) {
		value, set := env[name]
		return value, set
	}
	var errs strings.Builder
	status = main(t.Context(), args, cli.Streams{In: strings.NewReader(stdin), Out: screen, Err: &errs}, lookup)
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	return <-shown, errs.String(), status
}

// openTerminal opens both ends of a terminal of a width.
func openTerminal(t *testing.T, columns int) (screen, keyboard *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals: ", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, keyboard
}
