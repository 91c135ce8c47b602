package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// TestProgressInLog checks that without a terminal, long work periodically writes a line with the remaining time,
// and short work writes none.
func TestProgressInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		bar := newProgress(&log, func(string) (string, bool) { return "", false })
		for done := 1; done <= 10; done++ {
			time.Sleep(12 * time.Second)
			bar.show(done, 10, "runs")
		}
		bar.clear()
		const want = "3 of 10 runs, about 1m24s left\n6 of 10 runs, about 48s left\n9 of 10 runs, about 12s left\n"
		if log.String() != want {
			t.Errorf("the log is\n%s\nwant\n%s", log.String(), want)
		}
	})
}

// TestProgressOnTerminal checks the progress line.
func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown strings.Builder
		bar := newProgress(&shown, func(string) (string, bool) { return "", false })
		bar.terminal = true
		time.Sleep(time.Minute)
		bar.show(1, 4, "runs")
		bar.clear()
		const want = "\r\x1b[K[█████···············] 1 of 4 runs, about 3m00s left\r\x1b[K"
		if shown.String() != want {
			t.Errorf("the terminal got %q; want %q", shown.String(), want)
		}
	})
}

// TestScreen checks that output for a terminal fits in 80 columns.
func TestScreen(t *testing.T) {
	for _, args := range []string{
		"bench -f ../../../examples/snapshot.json --backends exact,greedy --limit 1m --objective progress,total-time",
		"simulate --trace ../../../examples/trace.csv --nodes 70,110 --policy greedy,max-min,fifo --out " + t.TempDir() + "/simulated",
		"simulate --synthetic baseline --nodes 110 --policy fifo-partitions,borrowing-waiting --teams 4 --quotas equal --out " +
			t.TempDir() + "/teams",
	}[:testtier.Conformance.Examples(2, 3)] {
		stdout, stderr, status := clitest.RunOnTerminal(t, run, 80, nil, "", strings.Fields(args)...)
		if status != cli.ExitDone || stdout == "" {
			t.Errorf("%q: exit status %d, stderr %q", args, status, stderr)
		}
		stdout, _, _ = strings.Cut(stdout, "wrote ") // The name of the folder is not checked.
		clitest.CheckWidth(t, args, stdout, 80)
	}
}

func TestHelp(t *testing.T) {
	clitest.CheckHelp(t, run, "simulate", "replay", "paper", "bench", "audit", "etas", "trace", "trace convert", "recording", "recording show")
	clitest.CheckContains(t, "the help of etas", succeed(t, "etas", "--help"), "\n BIAS ", "\n HALFWAY ")
}

func TestMan(t *testing.T) {
	clitest.CheckMan(t, run, "elastalloc-lab", "elastalloc-lab replay", "elastalloc-lab trace convert")
}
