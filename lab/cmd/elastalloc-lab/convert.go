package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/lab/convert"
)

func newConvertCommand() *cobra.Command {
	var source, zone string
	command := &cobra.Command{
		Use:   "convert --from SOURCE FILE...",
		Short: "Convert the job history of a cluster to a trace",
		Long: `Convert the job history of a cluster to a trace in CSV, in the order of
submission. The files of a history, - for standard input, are in the format of
their source:

  slurm   what sacct -P prints, with a header or with the columns JobIDRaw,
          Submit, Start, ElapsedRaw, AllocTRES, User, Account, optionally State;
          with a header also Eligible and TimelimitRaw
  philly  cluster_job_log (Microsoft, 2017)
  helios  cluster_log.csv (SenseTime, 2020)
  pai     pai_job_table.csv, then pai_task_table.csv (Alibaba, 2020)
  itp     clusterNN.csv (Microsoft, 2021)

Jobs without GPUs, jobs that never started or are not complete, and jobs whose
data contradict each other are omitted. Omitted jobs are counted by reason on
standard error, with their lines. If no job is left, the exit status is 1.`,
		Example: `  sacct -a -X -P -S 2026-05-01 -E now --state=CD,F,TO,CA,OOM,NF,PR,DL,BF \
    -o JobIDRaw,Submit,Start,ElapsedRaw,AllocTRES,User,Account,State,\
  Eligible,TimelimitRaw |
    elastalloc-lab trace convert --from slurm - > trace.csv
  elastalloc-lab trace convert --from helios Venus/cluster_log.csv > venus.csv`,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("no FILE is given; must be at least one, - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if convert.Source(source) == convert.PAI && len(files) != 2 {
				return fmt.Errorf("%s given; must be two, pai_job_table.csv and pai_task_table.csv", format.Plural(len(files), "FILE"))
			}
			location, err := time.LoadLocation(zone)
			if err != nil {
				return fmt.Errorf("--time-zone is %q; must be the name of a time zone, such as Europe/Berlin, UTC or Local: %w", zone, err)
			}
			converter := convert.New(convert.Source(source), location)
			for i, name := range files {
				if slices.Contains(files[:i], name) {
					return fmt.Errorf("FILE %s is given twice", name)
				}
				file, err := cli.OpenText(cmd, name)
				if err != nil {
					return err
				}
				if name == cli.StandardInput {
					name = "standard input"
				}
				err = converter.Read(name, file)
				file.Close()
				if err != nil {
					return err
				}
			}
			history, err := converter.Finish()
			if err != nil {
				return err
			}
			return printHistory(cmd, history)
		},
	}
	flags := command.Flags()
	var sources []string
	for _, s := range convert.Sources() {
		sources = append(sources, string(s))
	}
	flags.Var(cli.ChoiceFlag{Value: &source, Choices: sources}, "from", "source of the job history")
	cli.SetVariable(flags, "from", "ELASTALLOC_CONVERT_FROM") // The command trace has a different --from.
	flags.StringVar(&zone, "time-zone", "Local", "time zone of Slurm's times without an offset, such as Europe/Berlin")
	cli.MarkRequired(command, "from")
	return command
}

// printHistory prints a trace, and the remarks on standard error.
func printHistory(cmd *cobra.Command, history *convert.History) error {
	remarkf := func(format string, args ...any) {
		for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
			fmt.Fprintln(cmd.ErrOrStderr(), text.Printable(line)) // It may quote others.
		}
	}
	for _, remark := range history.Remarks {
		remarkf("%s", remark)
	}
	if history.NoGPUs {
		remarkf("No AllocTRES has gres/gpu. AccountingStorageTRES in slurm.conf must contain gres/gpu.")
	}
	if len(history.Trace) == 0 {
		return cli.Failed(fmt.Errorf("no job is left of %d; nothing was written", history.Jobs))
	}
	var written bytes.Buffer
	if err := history.Trace.Write(&written); err != nil {
		return cli.Failed(err)
	}
	if len(history.Remarks) > 0 {
		remarkf("%d of %s written", len(history.Trace), format.Plural(history.Jobs, "job"))
	}
	if history.NoEligible {
		remarkf("The export has no column Eligible, so time spent on dependencies and array limits counts as time in the queue.")
	}
	_, err := written.WriteTo(cmd.OutOrStdout())
	return cli.Failed(err)
}
