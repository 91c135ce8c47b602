package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/wiring"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/lab/figures"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// paperFlags are the flags of paper.
type paperFlags struct {
	config     experiments.Config
	trace, out string
	force      bool
}

// newPaperCommand returns the command with the paper's pools and the synthetic
// workloads.
func newPaperCommand() *cobra.Command {
	return paperCommand(experiments.Config{Pools: experiments.Pools(), Draw: experiments.Draw})
}

// paperCommand returns the command for given pools and workloads.
func paperCommand(config experiments.Config) *cobra.Command {
	f := paperFlags{config: config}
	command := &cobra.Command{
		Use:   "paper --out DIR",
		Short: "Repeat the paper's experiments and report what they find",
		Long: `Repeat all experiments of the paper on synthetic workloads of several seeds, and
on a trace if one is given, and set what they find beside the paper's results:
report.html is a page to read, results.json has the numbers, and every figure is
there as SVG and PNG. Decisions that were not proven optimal are kept as requests
in the folder unproven.

The runs whose decision times are reported are made first and one at a time, the
others side by side. Nothing is written before all is done. A folder that holds
files is refused unless --force is given: files of the same name are then replaced.`,
		Example: `  elastalloc-lab paper --out paper
  elastalloc-lab paper --trace trace.csv --out paper --force`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.repeat(cmd) },
	}
	flags := command.Flags()
	flags.StringVar(&f.out, "out", "", "folder for the results")
	flags.StringVar(&f.trace, "trace", "", "trace in CSV to run as well, - for standard input")
	flags.IntVar(&f.config.GPUsPerNode, "gpus-per-node", sim.DefaultGPUsPerNode, "GPUs of one node of the trace")
	flags.IntVar(&f.config.Seeds, "seeds", 3, "synthetic workloads and disturbances to draw")
	flags.IntVar(&f.config.Workers, "workers", runtime.GOMAXPROCS(0), "runs made at once")
	flags.BoolVar(&f.force, "force", false, "write into a folder that holds files")
	cli.MarkRequired(command, "out")
	return command
}

// repeat makes the experiments and writes what they found.
func (f *paperFlags) repeat(cmd *cobra.Command) error {
	ctx := cmd.Context()
	config, err := f.complete(cmd)
	if err != nil {
		return err
	}
	decider, err := newDecider(ctx, nil, wiring.DefaultPrograms())
	if err != nil {
		return err
	}
	directory, err := openOutput(f.out, f.force)
	if err != nil {
		return err
	}
	defer directory.Discard() //nolint:errcheck // What is left is named as partial.

	bar := newProgress(cmd.ErrOrStderr())
	findings, err := experiments.Run(ctx, config, decider, func(done, all int) {
		bar.show("%s %d of %d runs", drawBar(done, all), done, all)
	})
	bar.clear()
	if ctx.Err() != nil {
		return cli.Failed(errors.New("interrupted; nothing was written"))
	}
	if err != nil {
		return cli.Failed(err)
	}
	found := findings.Results()
	if err := f.write(directory, &found, findings.Unproven()); err != nil {
		return cli.Failed(err)
	}
	for i := range found.Experiments {
		e := &found.Experiments[i]
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n  the paper: %s\n  ours:      %s\n",
			e.Title, e.Paper, e.Difference); err != nil {
			return cli.Failed(err)
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "See %s.\n", filepath.Join(f.out, experiments.ReportName))
	return cli.Failed(err)
}

// complete reads the trace and returns the configuration, or an error that names
// all that no work can be done with.
func (f *paperFlags) complete(cmd *cobra.Command) (experiments.Config, error) {
	config := f.config
	if f.trace != "" {
		input, err := cli.OpenInput(cmd, f.trace)
		if err != nil {
			return config, err
		}
		defer input.Close()
		if config.Trace, err = sim.ReadTrace(input); err != nil {
			return config, fmt.Errorf("%s: %w", f.trace, err)
		}
		config.TraceName = strings.TrimSuffix(filepath.Base(f.trace), filepath.Ext(f.trace))
	}
	err := config.Validate()
	return config, err
}

// write writes all files and lets them appear. The page and the numbers are what
// says that results are whole: they are gone while others are replaced, and come
// after the folder of unproven decisions, which appears on its own.
func (f *paperFlags) write(
	directory *results.Directory, found *experiments.Results, unproven []experiments.Unproven,
) error {
	drawn, err := experiments.Figures(found.Experiments)
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
		if err := writeFigure(directory, figures.Named{Name: "figure-" + figure.Name, Figure: figure.Figure}); err != nil {
			return err
		}
	}
	for _, name := range []string{experiments.ResultsName, experiments.ReportName} {
		if err := os.Remove(filepath.Join(f.out, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	last := directory
	if len(unproven) > 0 {
		if err := directory.Commit(); err != nil {
			return err
		}
		if err := writeUnproven(filepath.Join(f.out, experiments.UnprovenName), unproven); err != nil {
			return err
		}
		// The figures are there by now.
		if last, err = results.NewDirectory(f.out, true); err != nil {
			return err
		}
		defer last.Discard() //nolint:errcheck // What is left is named as partial.
	}
	if err := last.Write(experiments.ReportName, page); err != nil {
		return err
	}
	if err := last.Write(experiments.ResultsName, text); err != nil {
		return err
	}
	return last.Commit()
}

// writeUnproven writes the requests of decisions that were not proven optimal.
func writeUnproven(folder string, unproven []experiments.Unproven) error {
	directory, err := results.NewDirectory(folder, true)
	if err != nil {
		return err
	}
	defer directory.Discard() //nolint:errcheck // What is left is named as partial.
	for i := range unproven {
		text, err := unproven[i].JSON()
		if err != nil {
			return err
		}
		if err := directory.Write(unproven[i].File, text); err != nil {
			return err
		}
	}
	return directory.Commit()
}
