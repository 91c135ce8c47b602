package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/replay"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

type replayFlags struct {
	recordings []string
	callers    []string
	policies   []string
	frequency  time.Duration
	totalTime  map[string]string
	workers    int
	out        string
	programs   cli.Programs
}

func newReplayCommand(env cli.LookupEnv) *cobra.Command {
	var f replayFlags
	command := &cobra.Command{
		Use:   "replay --recording DIR --out DIR",
		Short: "Compare policies with the recorded schedule of a server",
		Long: `Reconstruct the schedule of a cluster from a recording (serve --record),
simulate policies on the same jobs and the same pool, and write the results to a
folder:

 report.html    report with all figures
 summary.json   measures of every run as for simulate, with the policy ` + catalog.Recorded + `
 jobs.csv       every job of every run
 replay.json    facts that the snapshots do not contain
 decisions.csv  differences between the decisions of one policy and the recorded
                schedule, with reasons; the policy is the first that can decide
                on recorded snapshots

All figures are for the jobs that completed within the recording. The help of
elastalloc-lab simulate describes the policies. The total-time policies have the
parameters of the last recorded decision, unless a policy sets its own.`,
		Example: `  elastalloc-lab replay --recording recordings --out replayed
  elastalloc-lab replay --recording pod-0,pod-1 --policy optimal --out replayed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.replay(cmd, env) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&f.recordings, "recording", nil, "folders of recordings of one cluster, from one or more servers")
	flags.StringSliceVar(&f.callers, "caller", nil, "callers of one cluster; must be set if the recording has calls of several clusters")
	flags.StringSliceVar(&f.policies, "policy", []string{"total-time", "optimal", "greedy", catalog.MaxMin}, "policies to simulate")
	flags.Var((*secondsFlag)(&f.frequency), "frequency", "time between decisions of the policies (default the step of the recorded horizons)")
	flags.StringToStringVar(&f.totalTime, "total-time", nil,
		"parameters of the total-time policies as `name=value`, in place of the recorded ones, with the names of the API")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "number of concurrent runs")
	cli.OnePerCore(flags, "workers")
	flags.StringVar(&f.out, "out", "", "new or empty folder for the results")
	cli.AddProgramFlags(flags, &f.programs)
	cli.MarkRequired(command, "recording", "out")
	cli.CompleteValues(command, "policy", catalog.Names(catalog.All())...)
	return command
}

func (f *replayFlags) replay(cmd *cobra.Command, env cli.LookupEnv) error {
	policies, err := f.check()
	if err != nil {
		return err
	}
	name := filepath.Base(filepath.Clean(f.recordings[0]))
	r, err := replay.New(readerOf(cmd, f.recordings), replay.Options{Name: name, Callers: f.callers, Frequency: f.frequency})
	if err != nil {
		return recordingError(cmd, err)
	}
	if len(r.Config.NodeTypes) > 0 && !cmd.Flags().Changed("policy") {
		f.policies = []string{"total-time", "type-partitions"}
		if policies, err = f.check(); err != nil {
			return err
		}
	}
	if err := f.setTotalTime(policies, r.TotalTime()); err != nil {
		return err
	}
	allocator, err := newAllocator(policies, f.programs)
	if err != nil {
		return err
	}
	for i := range policies {
		if err := policies[i].Check(&r.Workload, &r.Config); err != nil {
			return err
		}
	}
	return produce(cmd, env, f.out, func(ctx context.Context, bar *progress) (outcome, error) {
		found, err := f.run(ctx, r, policies, allocator, bar)
		if found != nil {
			found.Origin = originOf(cmd)
		}
		return found, err
	})
}

// setTotalTime sets the parameters of the total-time policies: the recorded ones, and those of the flag in their place.
func (f *replayFlags) setTotalTime(policies []catalog.Policy, recorded solver.TotalTimeOptions) error {
	for i := range policies {
		o := policies[i].Options
		if o.Objective == solver.ObjectiveTotalTime && o.TotalTime == (solver.TotalTimeOptions{}) {
			o.TotalTime = recorded
			policies[i].Options = o
		}
	}
	var bad []string
	totalTimeFlag(f.totalTime).apply(policies, func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) })
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n  "))
	}
	return nil
}

// readerOf returns a reader of recordings, which stops if the command is interrupted. It reports
// damaged parts on standard error.
func readerOf(cmd *cobra.Command, recordings []string) replay.Reader {
	return func(yield func(recording.Entry) error) ([]recording.ReadError, error) {
		readErrors, err := recording.Read(recordings, func(e recording.Entry) error { return cmp.Or(cmd.Context().Err(), yield(e)) })
		for _, readError := range readErrors {
			fmt.Fprintln(cmd.ErrOrStderr(), text.Printable(readError.String()))
		}
		return readErrors, err
	}
}

// recordingError is the error of a command that could not read recordings.
func recordingError(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return cli.ErrInterrupted
	}
	return fmt.Errorf("--recording: %w", err)
}

func (f *replayFlags) check() ([]catalog.Policy, error) {
	var bad []string
	addf := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if len(f.recordings) == 0 {
		addf("--recording is empty")
	}
	policies := findPolicies(f.policies, addf)
	if f.frequency < 0 || f.frequency%time.Second != 0 {
		addf("--frequency is %v; must be whole seconds, at least 1s", f.frequency)
	}
	if f.workers < 1 {
		addf("--workers is %d; must be at least 1", f.workers)
	}
	if len(bad) > 0 {
		return nil, errors.New(strings.Join(bad, "\n  "))
	}
	// The recorded schedule is always included.
	return slices.DeleteFunc(policies, func(p catalog.Policy) bool { return p.Name == catalog.Recorded }), nil
}

// run simulates the policies, and makes decisions of one policy on the recorded snapshots.
func (f *replayFlags) run(
	ctx context.Context, r *replay.Replay, policies []catalog.Policy, allocator *elastalloc.Allocator, bar *progress,
) (*report.Replayed, error) {
	recorded, err := r.Recorded(ctx)
	if err != nil {
		return nil, err
	}
	tasks := make([]catalog.Task, len(policies))
	for i, policy := range policies {
		tasks[i] = catalog.Task{Workload: r.Workload, Policy: policy, Config: r.Config}
	}
	runs, err := runTasks(ctx, tasks, allocator, f.workers, bar)
	if err != nil {
		return nil, err
	}
	found := &report.Replayed{
		Replay: r, Runs: []*sim.Result{recorded},
		Details: []report.Detail{{Policy: catalog.Recorded, IdleNodeHours: r.IdleNodeHours(nil)}},
	}
	for i, run := range runs {
		found.Runs = append(found.Runs, r.Compared(run))
		found.Details = append(found.Details, report.DetailOf(r, policies[i].Name, run, recorded))
	}
	found.Summary = results.Summarize(found.Runs, catalog.Recorded, 0, sim.Cuts{})
	found.Conclude()
	asked := slices.IndexFunc(policies, func(p catalog.Policy) bool { return p.PassesSnapshots() })
	if asked < 0 {
		return found, nil
	}
	found.DecisionPolicy = policies[asked].Name
	found.Calls, err = r.Differences(ctx, policies[asked], allocator, func(done, all int) {
		bar.show(done, all, "recorded snapshots")
	})
	if err != nil {
		return nil, err
	}
	found.Largest = replay.Largest(found.Calls, report.MaxCalls)
	return found, nil
}
