package main

import (
	"os"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
)

// TestScreen checks that a long horizon and a long path in a warning fit in 80 columns. TestWidths checks other
// tables and widths.
func TestScreen(t *testing.T) {
	const snapshot = " -f ../../examples/snapshot.json"
	text, err := os.ReadFile("../../examples/snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	far := strings.Replace(string(text), `"steps": 5`, `"steps": 24`, 1)
	for _, args := range []string{
		"allocate -f -", "allocate --plan -f -", "allocate --objective total-time --plan" + snapshot, "allocate --backend cbc" + snapshot,
		"explain --job moe-router-probe" + snapshot, "forecast --eta-error 0.2 --samples 2" + snapshot,
	} {
		env := map[string]string{"ELASTALLOC_CBC": "/nonexistent/" + strings.Repeat("a b/", 20)}
		stdout, stderr, status := clitest.RunOnTerminal(t, run, 80, env, far, strings.Fields(args)...)
		if status != cli.ExitDone || stdout == "" {
			t.Errorf("%q: exit status %d, stderr %q", args, status, stderr)
		}
		clitest.CheckWidth(t, args, stdout, 80)
	}
}

func TestHelp(t *testing.T) {
	clitest.CheckHelp(t, run, "serve", "allocate", "fill-idle", "explain", "whatif", "forecast", "audit", "snapshot")
}

func TestMan(t *testing.T) {
	clitest.CheckMan(t, run, "elastalloc", "elastalloc serve", "elastalloc allocate")
}
