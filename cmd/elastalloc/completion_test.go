package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/cli"
)

// TestExample decides the example that allocate prints.
func TestExample(t *testing.T) {
	clitest.CheckContains(t, "the decision", succeed(t, succeed(t, "", "allocate", "--example"), "allocate", "-f", "-"), "1 start, 1 scale up")
}

func TestVersion(t *testing.T) {
	line := succeed(t, "", "version")
	if other := succeed(t, "", "--version"); other != line {
		t.Errorf("--version prints %q; want %q", other, line)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(succeed(t, "", "version", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if want := strings.Join([]string{got["program"], got["version"], got["go"], got["os"] + "/" + got["arch"]}, " ") + "\n"; want != line {
		t.Errorf("the JSON contains %q; the line is %q", want, line)
	}
}

// TestCompletion checks the completion of flag values in shells.
func TestCompletion(t *testing.T) {
	backends := func(before string) (completed []string) {
		for _, name := range elastalloc.BackendNames() {
			completed = append(completed, before+string(name))
		}
		return completed
	}
	for args, want := range map[string][]string{
		"allocate --backend ":              backends(""),
		"allocate --output ":               {"table", "json", "csv"},
		"forecast --output ":               {"table", "json", "csv", "svg", "html"},
		"explain --formulation ":           {"one-hot", "paper"},
		"serve --backends cbc,":            backends("cbc,"),
		"serve --log-level ":               {"debug", "info", "warn", "error"},
		"version --output ":                {"table", "json"},
		"explain -f example.json --job ":   {"running", "queued"},
		"whatif -f example.json --remove ": {"running", "queued"},
		"explain -f missing.json --job ":   {},
		"allocate -f ":                     {"json"}, // The extension of the files.
	} {
		stdout, stderr, status := runWith(t, nil, "", append([]string{"__complete"}, strings.Split(args, " ")...)...)
		got := strings.Fields(stdout)
		if status != cli.ExitDone || len(got) < 1 || !slices.Equal(got[:len(got)-1], want) {
			t.Errorf("%q is completed by %q, exit status %d, stderr %q; want %q", args, got, status, stderr, want)
		}
	}
}
