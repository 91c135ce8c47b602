package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(clitest.BuildAndTest(m, &binary))
}

// runWith executes a command line in this process.
func runWith(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return clitest.Run(t, run, env, "", args...)
}

// succeed executes a command line that must succeed, and returns its output.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := runWith(t, nil, args...)
	// On a busy machine, short work may take half a minute and print its progress.
	unexpected := regexp.MustCompile(`(?m)^\d+ of \d+ .*\n`).ReplaceAllString(stderr, "")
	if status != cli.ExitDone || unexpected != "" {
		t.Fatalf("%q: exit status %d, stderr %q", args, status, stderr)
	}
	return stdout
}

// read returns the content of a file.
func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readJSON reads a file.
func readJSON(t *testing.T, into any, elements ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, elements...)), into); err != nil {
		t.Fatal(err)
	}
}

// write writes a file into a folder and returns its path.
func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// filesIn returns the names of the files of a folder, none if it is missing.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
