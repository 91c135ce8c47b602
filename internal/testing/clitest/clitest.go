// Package clitest tests command lines: in this process, as a built program, and
// against golden files.
package clitest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Main is a program's command line: args to exit status.
type Main func(ctx context.Context, args []string, streams cli.Streams, env cli.LookupEnv) int

// Run executes a command line in this process, with env as its whole environment.
func Run(t *testing.T, main Main, env map[string]string, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	lookup := func(name string) (string, bool) {
		value, set := env[name]
		return value, set
	}
	var out, errs bytes.Buffer
	status = main(t.Context(), args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs}, lookup)
	return out.String(), errs.String(), status
}

// BuildAndTest builds the command in the working directory, sets binary to its path,
// runs the tests and returns the exit status for TestMain.
func BuildAndTest(m *testing.M, binary *string) int {
	program, remove, err := Build(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	*binary = program
	return m.Run()
}

// Build builds the command of a package as it is shipped, statically, into a folder
// of its own, which remove removes.
func Build(pkg string) (binary string, remove func(), err error) {
	directory, err := os.MkdirTemp("", "elastalloc")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(directory) }
	binary = filepath.Join(directory, "program")
	build := exec.Command("go", "build", "-o", binary, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return binary, remove, nil
}

// Record writes calls of Allocate to a recording, and returns its folder.
func Record(t *testing.T, calls ...recording.Entry) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "recording")
	w, err := recording.New(recording.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		call.Method = "Allocate"
		w.Record(call, 100)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// CompareGolden compares a text with the file of a name in testdata; go test -update
// rewrites it.
func CompareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// CheckContains checks that a text has all parts.
func CheckContains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// CheckWidth checks that no line of a text has more columns.
func CheckWidth(t *testing.T, what, text string, columns int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%s has a line of %d columns: %s", what, n, line)
		}
	}
}

// CheckHelp checks that the help of a program's commands fits on any screen.
func CheckHelp(t *testing.T, main Main, commands ...string) {
	t.Helper()
	for _, command := range append(commands, "version", "") {
		stdout, stderr, status := Run(t, main, nil, "", strings.Fields(command+" --help")...)
		if status != cli.ExitDone || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%s --help ends with %d, %q", command, status, stderr)
		}
		help, _, _ := strings.Cut(stdout, "\nUse \"") // cobra's own last line.
		CheckWidth(t, "the help of "+command, help, cli.DefaultWidth)
	}
}

// CheckMan checks that a program writes the manual pages of some commands.
func CheckMan(t *testing.T, main Main, commands ...string) {
	t.Helper()
	folder := t.TempDir()
	if _, stderr, status := Run(t, main, nil, "", "man", folder); status != cli.ExitDone {
		t.Fatalf("man ends with %d, %q", status, stderr)
	}
	for _, command := range commands {
		page, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(command, " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), `.TH "`) || !strings.Contains(string(page), ".SH OPTIONS") {
			t.Errorf("the page of %s is %q, %v", command, page, err)
		}
	}
}

// UTF16 returns a text as PowerShell writes it: in UTF-16 with a byte order mark.
func UTF16(text string, bigEndian bool) string {
	var encoded []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		low, high := byte(unit), byte(unit>>8)
		if bigEndian {
			low, high = high, low
		}
		encoded = append(encoded, low, high)
	}
	return string(encoded)
}
