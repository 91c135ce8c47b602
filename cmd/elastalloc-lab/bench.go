package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	files, backends, formulations []string
	limit                         time.Duration
	maxJobs                       int
	output                        string
	programs                      cli.Programs
}

func newBenchCommand(env cli.LookupEnv) *cobra.Command {
	f := benchFlags{
		backends: []string{
			string(solver.BackendExact), string(solver.BackendHiGHS), string(solver.BackendCBC),
		},
		formulations: []string{string(solver.FormulationOneHot)},
		limit:        time.Minute,
		maxJobs:      solver.DefaultMaxJobs,
		output:       cli.OutputTable,
	}
	command := &cobra.Command{
		Use:   "bench -f DIR|FILE [FILE...]",
		Short: "Compare backends on the same snapshots",
		Long: `Have backends decide the same snapshots, in turn and one at a time, each in one
thread, and print how long each took and what its answer is worth.

The snapshots are AllocateRequests in protojson: files, or all files *.json of
a folder, of which those that are none are skipped. Their options count for
admission and gap.

The time is that inside the backend; for an external solver it includes writing
the model, starting the program and reading its answer. The limit holds for
each backend and snapshot. Objective, bound and reason are never a solver's
word: the objective is worked out from its plan, and the plan is optimal if the
embedded exact backend, which has the same limit for that afterwards and whose
time for it does not count, proves that none is better, whether the solver was
sure of it or was stopped. Where a backend has no plan, the reason says why:
unavailable, timed-out, crashed or invalid-plan.

The table shows each time as a multiple of the fastest of an optimal plan for
the same snapshot, and at its end the times of each backend as multiples of
those of exact, over the snapshots that both have a plan for.

A signal ends the work; what there is until then is printed.`,
		Example: `  elastalloc-lab bench -f snapshots/ --backends exact,highs,cbc --limit 60s
  elastalloc-lab bench -f snapshot.json --formulation one-hot,paper -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			// A pattern that the shell expands after -f leaves all but one file here.
			f.files = append(f.files, args...)
			return f.bench(cmd, env)
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "request in protojson, or a folder of such; may be repeated")
	flags.StringSliceVar(&f.backends, "backends", f.backends, "backends to compare: exact, highs, cbc, greedy")
	flags.StringSliceVar(&f.formulations, "formulation", f.formulations, "models for highs and cbc: one-hot, paper")
	flags.DurationVar(&f.limit, "limit", f.limit, "time for each backend and snapshot")
	flags.IntVar(&f.maxJobs, "max-jobs", f.maxJobs, "skip snapshots of more jobs")
	flags.StringVarP(&f.output, "output", "o", f.output, "output format, table or json")
	cli.AddProgramFlags(flags, &f.programs)
	cli.MarkRequired(command, "file")
	return command
}

// check returns an error for a flag that no work can be done with.
func (f *benchFlags) check() error {
	switch {
	case f.output != cli.OutputTable && f.output != cli.OutputJSON:
		return fmt.Errorf("--output is %q; want %s or %s", f.output, cli.OutputTable, cli.OutputJSON)
	case f.limit <= 0:
		return fmt.Errorf("--limit is %v; want more than 0", f.limit)
	case f.maxJobs < 1:
		return fmt.Errorf("--max-jobs is %d; want at least 1", f.maxJobs)
	case len(f.backends) == 0:
		return errors.New("--backends is empty")
	case len(f.formulations) == 0:
		return errors.New("--formulation is empty")
	}
	return nil
}

// bench compares the backends and prints the rows. What there is when the work is
// interrupted or fails is printed as well.
func (f *benchFlags) bench(cmd *cobra.Command, env cli.LookupEnv) error {
	if err := f.check(); err != nil {
		return err
	}
	contenders, err := f.contenders()
	if err != nil {
		return err
	}
	instances, err := readInstances(cmd, f.files, f.maxJobs)
	if err != nil {
		return err
	}
	rows, err := compare(cmd.Context(), instances, contenders, newProgress(cmd.ErrOrStderr()))
	if f.output == cli.OutputJSON {
		err = cmp.Or(err, writeBenchJSON(cmd.OutOrStdout(), rows))
	} else {
		err = cmp.Or(err, writeBenchTable(cmd.OutOrStdout(), rows, contenders, cli.ColorsFor(cmd.OutOrStdout(), env)))
	}
	return cli.Failed(err)
}

// contender is a backend with, if it hands one to a solver, a formulation.
type contender struct {
	backend     elastalloc.Backend
	formulation solver.Formulation
	// allocator asks the backend and no other but greedy.
	allocator sim.Allocator
}

// newContender returns the backend of the given name with as much time as limit for
// every search. The prover that verifies its plans has as much again. wrap, which may be
// nil, is applied to the backend first.
func newContender(
	name solver.BackendName, programs cli.Programs, limit time.Duration, wrap func(solver.Backend) solver.Backend,
) (contender, error) {
	allocator, err := elastalloc.New(elastalloc.Options{
		Backends:      []solver.BackendName{name},
		Programs:      programs,
		DefaultBudget: elastalloc.NoBudget,
		NoBreakers:    true,
		Middleware: func(b solver.Backend) solver.Backend {
			if wrap != nil {
				b = wrap(b)
			}
			return limited{b, limit}
		},
		ProverMiddleware: func(p solver.Prover) solver.Prover {
			return limitedProver{limited{p, limit}, p}
		},
	})
	if err != nil {
		return contender{}, err
	}
	return contender{backend: allocator.Backends()[0], allocator: allocator}, nil
}

// limited is a backend whose every search has a limit of time.
type limited struct {
	solver.Backend
	limit time.Duration
}

// Solve returns the best plan found within the limit.
func (l limited) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.Backend.Solve(ctx, p, options)
}

// limitedProver is a prover whose every search and bound has a limit of time.
type limitedProver struct {
	limited
	prover solver.Prover
}

// Bound returns the best bound found within the limit.
func (l limitedProver) Bound(ctx context.Context, p *solver.Problem) float64 {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.prover.Bound(ctx, p)
}

// contenders returns what is to be compared: every backend, the external solvers
// with every formulation.
func (f *benchFlags) contenders() ([]contender, error) {
	var formulations []solver.Formulation
	for _, name := range f.formulations {
		var flag cli.EnumFlag[elastallocv1.Formulation]
		if err := flag.Set(name); err != nil {
			return nil, fmt.Errorf("--formulation is %q; %w", name, err)
		}
		if slices.Contains(formulations, solver.Formulation(name)) {
			return nil, fmt.Errorf("--formulation names %q twice", name)
		}
		formulations = append(formulations, solver.Formulation(name))
	}
	names := cli.BackendNames(f.backends)
	if err := elastalloc.CheckBackends(names); err != nil {
		return nil, fmt.Errorf("--backends: %w", err)
	}
	var contenders []contender
	for _, name := range names {
		one, err := newContender(name, f.programs, f.limit, nil)
		if err != nil {
			return nil, fmt.Errorf("--backends: %w", err)
		}
		if !one.backend.External() {
			contenders = append(contenders, one)
			continue
		}
		for _, formulation := range formulations {
			one.formulation = formulation
			contenders = append(contenders, one)
		}
	}
	return contenders, nil
}

// benchRow is what one contender did on one instance. The names are those of the
// JSON output; the figures of a plan are null where there is none.
type benchRow struct {
	Instance    string             `json:"instance"`
	Jobs        int                `json:"jobs"`
	Nodes       int                `json:"nodes"`
	Backend     solver.BackendName `json:"backend"`
	Formulation solver.Formulation `json:"formulation"`
	// Reason is that of the answer or, where there is no plan, the outcome.
	Reason      string   `json:"reason"`
	Objective   *float64 `json:"objective"`
	Bound       *float64 `json:"bound"`
	RelativeGap *float64 `json:"relative_gap"`
	WallSeconds float64  `json:"wall_s"`
}

// compare has every contender decide every instance and returns the rows, grouped
// by instance. With an error it returns the rows until then.
func compare(
	ctx context.Context, instances []instance, contenders []contender, shown progress,
) ([]benchRow, error) {
	defer shown.clear()
	total := len(instances) * len(contenders)
	rows := make([]benchRow, 0, total)
	for _, instance := range instances {
		for _, contender := range contenders {
			shown.show("%d/%d  %s: %s %s", len(rows)+1, total, instance.name, contender.backend.Name, contender.formulation)
			row, err := measure(ctx, instance, contender)
			switch {
			case ctx.Err() != nil:
				return rows, fmt.Errorf("interrupted after %d of %d rows", len(rows), total)
			case err != nil:
				return rows, fmt.Errorf("%s: %s: %w", instance.name, contender.backend.Name, err)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// measure has one contender decide one instance.
func measure(ctx context.Context, instance instance, contender contender) (benchRow, error) {
	options := instance.options
	options.Backend, options.Formulation = contender.backend.Name, cmp.Or(contender.formulation, options.Formulation)
	options.TimeBudget = 0

	// No contender pays for the garbage of the one before.
	runtime.GC()
	decision, err := contender.allocator.Allocate(ctx, instance.snapshot, options)
	if err != nil {
		return benchRow{}, err
	}
	report, attempt := decision.Report, decision.Report.Attempts[0]
	row := benchRow{
		Instance:    instance.name,
		Jobs:        len(instance.snapshot.Jobs),
		Nodes:       instance.snapshot.TotalNodes,
		Backend:     contender.backend.Name,
		Formulation: contender.formulation,
		Reason:      string(attempt.Outcome),
		WallSeconds: attempt.Duration.Seconds(),
	}
	if attempt.Outcome == solver.OutcomeAnswered {
		row.Reason = string(report.Reason)
		row.Objective, row.Bound, row.RelativeGap = &report.Objective, &report.Bound, &report.RelativeGap
	}
	return row, nil
}
