package main

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// paperFlags are the flags of paper.
type paperFlags struct {
	config     experiments.Config
	trace, out string
}

// newPaperCommand returns the command with the paper's pools and the synthetic
// workloads.
func newPaperCommand(env cli.LookupEnv) *cobra.Command {
	return paperCommand(experiments.Config{Pools: experiments.Pools(), Draw: experiments.Draw}, env)
}

// paperCommand returns the command for given pools and workloads.
func paperCommand(config experiments.Config, env cli.LookupEnv) *cobra.Command {
	f := paperFlags{config: config}
	command := &cobra.Command{
		Use:   "paper --out DIR",
		Short: "Repeat the experiments of the paper",
		Long: `Repeat all experiments of the paper on synthetic workloads of several seeds, and
on a trace if one is given. The results are set beside the paper's in report.html;
results.json has all numbers, every figure is there as SVG and PNG, and the
folder unproven has the requests of decisions that were not proven optimal.

The runs whose decision times are reported come first and one at a time, the
others side by side. Nothing is written before all are done.`,
		Example: `  elastalloc-lab paper --out paper
  elastalloc-lab paper --trace trace.csv --out paper`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, env) },
	}
	flags := command.Flags()
	flags.StringVar(&f.out, "out", "", "new or empty folder for the results")
	flags.StringVar(&f.trace, "trace", "", "trace in CSV to run as well, - for standard input")
	flags.IntVar(&f.config.GPUsPerNode, "gpus-per-node", sim.DefaultGPUsPerNode, "GPUs of one node of the trace")
	flags.IntVar(&f.config.Seeds, "seeds", 3, "number of synthetic workloads and of disturbances")
	flags.IntVar(&f.config.Workers, "workers", runtime.GOMAXPROCS(0), "number of runs at once")
	cli.OnePerCore(flags, "workers")
	cli.MarkRequired(command, "out")
	return command
}

// run makes the experiments and writes their results.
func (f *paperFlags) run(cmd *cobra.Command, env cli.LookupEnv) error {
	ctx := cmd.Context()
	config, err := f.complete(cmd)
	if err != nil {
		return err
	}
	allocator, err := newAllocator(nil, nil)
	if err != nil {
		return err
	}
	directory, err := openOutput(f.out)
	if err != nil {
		return err
	}
	defer directory.Discard() //nolint:errcheck // What is left is named as partial.

	bar := newProgress(cmd.ErrOrStderr(), env)
	found, err := experiments.Run(ctx, config, allocator, func(done, all int) {
		bar.show(done, all, "runs")
	})
	bar.clear()
	if ctx.Err() != nil {
		return cli.Failed(errors.New("interrupted; nothing was written"))
	}
	if err != nil {
		return cli.Failed(err)
	}
	if err := writePaper(directory, found); err != nil {
		return cli.Failed(err)
	}
	out := cmd.OutOrStdout()
	_, err = fmt.Fprintf(out, "%s\nSee %s.\n", paperTable(found, cli.ScreenFor(out, env)), filepath.Join(f.out, experiments.ReportName))
	return cli.Failed(err)
}

// complete reads the trace and returns the configuration, or an error that names
// every bad flag.
func (f *paperFlags) complete(cmd *cobra.Command) (experiments.Config, error) {
	config := f.config
	config.Origin = originOf(cmd)
	if f.trace != "" {
		var err error
		if config.Trace, config.TraceName, err = readTraceFile(cmd, f.trace); err != nil {
			return config, err
		}
	}
	err := config.Validate()
	return config, err
}

// originOf says what makes the results of a command.
func originOf(cmd *cobra.Command) results.Origin {
	return results.Origin{
		Command: commandLine(cmd), Version: cli.Version(), Time: time.Now().UTC().Truncate(time.Second),
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(),
	}
}

// commandLine returns the command with the flags that were set.
func commandLine(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		// Lists are written in brackets, and not read so.
		words = append(words, "--"+flag.Name, strings.Trim(flag.Value.String(), "[]"))
	})
	return strings.Join(words, " ")
}

// writePaper writes all files of the results.
func writePaper(directory *results.Directory, found *experiments.Results) error {
	drawn, err := found.Figures()
	if err != nil {
		return err
	}
	text, err := found.JSON()
	if err != nil {
		return err
	}
	page, err := found.Report(drawn)
	if err != nil {
		return err
	}
	for _, figure := range drawn {
		if err := report.WriteFigure(directory, figures.Named{Name: "figure-" + figure.Name, Figure: figure.Figure}); err != nil {
			return err
		}
	}
	for i := range found.Proof.Unproven {
		unproven := &found.Proof.Unproven[i]
		request, err := unproven.JSON()
		if err != nil {
			return err
		}
		if err := directory.Write(path.Join(experiments.UnprovenName, unproven.File), request); err != nil {
			return err
		}
	}
	if err := directory.Write(experiments.ReportName, page); err != nil {
		return err
	}
	if err := directory.Write(experiments.ResultsName, text); err != nil {
		return err
	}
	return directory.Commit()
}

// longestQuantity is how long what is measured may be to stand beside its figures.
const longestQuantity = 24

// paperTable lays out our results beside the paper's.
func paperTable(found *experiments.Results, screen cli.Screen) *cli.Table {
	t := screen.NewTable().AlignRight(1, 3)
	header := []string{"", "PAPER"}
	for _, source := range found.Sources() {
		header = append(header, strings.ToUpper(string(source)))
	}
	t.AddRow(screen.Bold, header...)
	for i := range found.Experiments {
		e := &found.Experiments[i]
		for n := range e.Results {
			if n == 0 {
				t.AddLine(screen.Bold, e.Title)
			}
			cells := e.Results[n].Cells(found.Sources())
			cells[0] = "  " + cells[0]
			if len(cells[0]) > longestQuantity {
				t.AddLine(cli.Plain, cells[0])
				cells[0] = ""
			}
			t.AddRow(cli.Plain, cells...)
		}
	}
	return t
}
