package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// outcome is the result of a long computation: files, and tables and lines for the terminal.
type outcome interface {
	Write(*results.Directory) error
	Tables() []report.Table
	Lead() []string
}

// produce does the computation, writes its results to the folder out, and prints them. It writes nothing
// before the computation is complete.
func produce(cmd *cobra.Command, env cli.LookupEnv, out string, work func(context.Context, *progress) (outcome, error)) error {
	directory, err := results.NewDirectory(out)
	if errors.Is(err, results.ErrNotEmpty) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("--out: %w", err)
	}
	if err != nil {
		return cli.Failed(err)
	}
	defer directory.Discard() //nolint:errcheck // A remaining directory has "partial" in its name.

	bar := newProgress(cmd.ErrOrStderr(), env)
	found, err := work(cmd.Context(), bar)
	bar.clear()
	if cmd.Context().Err() != nil {
		return cli.Failed(errors.New("interrupted; nothing was written"))
	}
	if err != nil {
		return cli.Failed(err)
	}
	if err := found.Write(directory); err != nil {
		return cli.Failed(err)
	}
	screen := cli.ScreenFor(cmd.OutOrStdout(), env)
	if unit := cmd.Flags().Lookup("unit"); unit != nil {
		screen.Unit = unit.Value.String()
	}
	printed := ""
	for _, table := range found.Tables() {
		printed += onScreen(table, screen) + "\n"
	}
	for _, line := range found.Lead() {
		printed += screen.Wrap(line) + "\n"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%swrote %d files to %s; begin with %s\n",
		printed, directory.Files(), out, filepath.Join(out, report.Name))
	return cli.Failed(err)
}

// longestFirst is the largest length of the first cell of a line that has other cells.
const longestFirst = 26

func onScreen(table report.Table, screen cli.Screen) string {
	t := screen.NewTable().AlignRight(1, len(table.Header))
	header := make([]string, len(table.Header))
	for i, name := range table.Header {
		header[i] = strings.ToUpper(name)
	}
	t.AddRow(screen.Bold, header...)
	indent := ""
	for n, row := range table.Rows {
		if len(row) == 1 {
			t.AddLine(screen.Bold, row[0])
			indent = "  "
			continue
		}
		cells := slices.Clone(row)
		for i := range cells {
			if table.Best[[2]int{n, i}] {
				cells[i] += "*"
			} else if i > 0 && len(table.Best) > 0 {
				cells[i] += " "
			}
		}
		if cells[0] = indent + cells[0]; len(cells[0]) > longestFirst {
			t.AddLine(cli.Plain, cells[0])
			cells[0] = ""
		}
		t.AddRow(cli.Plain, cells...)
	}
	legend := screen.NewTable()
	for _, line := range table.Legend {
		legend.AddRow(cli.Plain, strings.ToUpper(line[0]), line[1])
	}
	return t.String() + legend.String()
}

func runTasks(ctx context.Context, tasks []catalog.Task, allocator sim.Allocator, workers int, bar *progress) ([]*sim.Result, error) {
	done := 0
	bar.show(done, len(tasks), "runs")
	return catalog.RunAll(ctx, tasks, allocator, workers, func(*sim.Result) {
		done++
		bar.show(done, len(tasks), "runs")
	})
}

// originOf returns the origin of the results of a command.
func originOf(cmd *cobra.Command) results.Origin {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		// Lists are written in brackets, and not read so.
		words = append(words, "--"+flag.Name, strings.Trim(flag.Value.String(), "[]"))
	})
	return results.Origin{
		Command: strings.Join(words, " "), Version: cli.Version(), Time: time.Now().UTC().Truncate(time.Second),
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(),
	}
}

// progress shows the progress of a long computation: on a terminal as one line that is updated, otherwise as
// a line every 30 s. The zero value shows nothing.
type progress struct {
	w        io.Writer
	screen   cli.Screen
	terminal bool
	now      func() time.Time
	// begun is the start of the computation, and shown the time of the last line in a log.
	begun, shown time.Time
}

// logInterval is the time between two lines in a log.
const logInterval = 30 * time.Second

func newProgress(w io.Writer, env cli.LookupEnv) *progress {
	now := time.Now()
	return &progress{w: w, screen: cli.ScreenFor(w, env), terminal: cli.IsTerminal(w), now: time.Now, begun: now, shown: now}
}

// show shows the number of completed items.
func (p *progress) show(done, all int, what string) {
	if p.w == nil {
		return
	}
	now := p.now()
	if !p.terminal && now.Sub(p.shown) < logInterval {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%d of %d %s%s", done, all, text.Printable(what), timeLeft(now.Sub(p.begun), done, all))
	if p.terminal {
		p.clear()
		const width = 20
		full := width * done / max(1, all)
		line = cli.Clip("["+strings.Repeat("█", full)+strings.Repeat("·", width-full)+"] "+line, cmp.Or(p.screen.Width, cli.DefaultWidth)-1)
	} else {
		line += "\n"
	}
	fmt.Fprint(p.w, line)
}

// timeLeft returns the estimated remaining time, "" at the start and at the end.
func timeLeft(taken time.Duration, done, all int) string {
	if done < 1 || done >= all || taken < time.Second {
		return ""
	}
	left := time.Duration(float64(taken) / float64(done) * float64(all-done))
	return ", about " + format.CoarseDuration(left.Round(time.Second)) + " left"
}

func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
