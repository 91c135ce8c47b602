package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

type benchFlags struct {
	files, backends, formulations, objectives []string

	limit    time.Duration
	maxJobs  int
	output   string
	programs cli.Programs
}

func newBenchCommand(env cli.LookupEnv) *cobra.Command {
	f := benchFlags{
		backends:     []string{string(solver.BackendExact), string(solver.BackendHiGHS), string(solver.BackendCBC)},
		formulations: []string{string(solver.FormulationOneHot)},
		limit:        time.Minute,
		maxJobs:      solver.DefaultMaxJobs,
	}
	command := &cobra.Command{
		Use:   "bench -f DIR|FILE [FILE...]",
		Short: "Compare backends on the same snapshots",
		Long: `Solve the same snapshots with several backends, one at a time in one thread, and
print the time and the quality of each decision.

Snapshots are AllocateRequests in protojson: files, or all *.json files of a
folder. Files of a folder that are not requests are skipped. The options
objective, admission and gap of a request apply. With several objectives, each
snapshot is solved for each objective, which is appended to its name. The
formulation of the paper supports only the objective progress.

The time is the time in the backend until its own optimality proof or the time
limit, which applies to each backend and snapshot. For an external solver, it
includes writing the model, starting the program and reading the solution.
Objectives are recomputed from plans. A plan is optimal if the exact backend
proves it in a subsequent check, which has the same limit and is not part of the
time. If a backend has no plan, the reason is unavailable, timed-out, crashed or
invalid-plan.

The table shows each time as a multiple of the fastest optimality proof for the
same snapshot. If the check found no proof, the claim of the solver counts. The
summary shows the times of each backend as multiples of the times of exact, for
the snapshots for which both have a plan.

On a signal, the command stops and prints the rows so far.`,
		Example: `  elastalloc-lab bench -f snapshots/ --backends exact,highs,cbc --limit 60s
  elastalloc-lab bench -f snapshot.json --formulation one-hot,paper -o json
  elastalloc-lab bench -f snapshots/ --objective progress,total-time`,
		RunE: func(cmd *cobra.Command, args []string) error {
			// A pattern that the shell expands after -f leaves all but one file here.
			f.files = append(f.files, args...)
			return f.bench(cmd, env)
		},
	}
	backends, formulations := cli.Named[string](elastalloc.BackendNames()), apiconv.Names[elastallocv1.Formulation]()
	objectives := apiconv.Names[elastallocv1.Objective]()
	flags := command.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "request in protojson or folder of requests; may be repeated")
	flags.StringSliceVar(&f.backends, "backends", f.backends, "backends to compare: "+strings.Join(backends, ", "))
	flags.StringSliceVar(&f.formulations, "formulation", f.formulations,
		"formulations for external solvers: "+strings.Join(formulations, ", "))
	flags.StringSliceVar(&f.objectives, "objective", nil,
		"objectives: "+strings.Join(objectives, ", ")+" (default the objectives of the requests)")
	flags.DurationVar(&f.limit, "limit", f.limit, "time limit for each backend and snapshot")
	flags.IntVar(&f.maxJobs, "max-jobs", f.maxJobs, "skip snapshots with more jobs")
	cli.AddOutput(flags, &f.output)
	cli.AddProgramFlags(flags, &f.programs)
	cli.MarkRequired(command, "file")
	cli.CompleteValues(command, "backends", backends...)
	cli.CompleteValues(command, "formulation", formulations...)
	cli.CompleteValues(command, "objective", objectives...)
	return command
}

func (f *benchFlags) check() error {
	switch {
	case f.limit <= 0:
		return fmt.Errorf("--limit is %v; must be more than 0", f.limit)
	case f.maxJobs < 1:
		return fmt.Errorf("--max-jobs is %d; must be at least 1", f.maxJobs)
	case len(f.backends) == 0:
		return errors.New("--backends is empty")
	case len(f.formulations) == 0:
		return errors.New("--formulation is empty")
	}
	return nil
}

// bench compares the backends and prints the rows. After an interruption or an error, it prints the rows so
// far.
func (f *benchFlags) bench(cmd *cobra.Command, env cli.LookupEnv) error {
	if err := f.check(); err != nil {
		return err
	}
	candidates, err := f.candidates()
	if err != nil {
		return err
	}
	instances, err := readInstances(cmd, f.files, f.maxJobs)
	if err != nil {
		return err
	}
	instances, err = f.underObjectives(instances)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(candidates, func(c candidate) bool { return slices.ContainsFunc(instances, c.suits) }) {
		return errors.New("--formulation is paper, which supports only the objective progress; nothing is left to compare")
	}
	rows, err := compare(cmd.Context(), instances, candidates, newProgress(cmd.ErrOrStderr(), env))
	if f.output == cli.OutputJSON {
		err = cmp.Or(err, writeBenchJSON(cmd.OutOrStdout(), rows))
	} else {
		err = cmp.Or(err, writeBenchTable(cmd.OutOrStdout(), rows, candidates, cli.ScreenFor(cmd.OutOrStdout(), env)))
	}
	return cli.Failed(err)
}

func (f *benchFlags) underObjectives(instances []instance) ([]instance, error) {
	for i := range f.objectives {
		if err := checkName[elastallocv1.Objective]("objective", f.objectives, i); err != nil {
			return nil, err
		}
	}
	if len(f.objectives) == 0 {
		return instances, nil
	}
	var all []instance
	for _, one := range instances {
		base := one.name
		for _, name := range f.objectives {
			one.options.Objective = solver.Objective(name)
			if len(f.objectives) > 1 {
				one.name = base + " " + name
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// checkName returns an error if a name in the list of a flag is not in an enum, or is a repetition.
func checkName[E apiconv.Enum](flag string, names []string, i int) error {
	if err := new(cli.EnumFlag[E]).Set(names[i]); err != nil {
		return fmt.Errorf("--%s is %q; %w", flag, names[i], err)
	}
	if slices.Contains(names[:i], names[i]) {
		return fmt.Errorf("--%s names %q twice", flag, names[i])
	}
	return nil
}

// candidate is a backend to compare, an external one with a formulation.
type candidate struct {
	backend     elastalloc.Backend
	formulation solver.Formulation
	// allocator uses this backend and greedy only.
	allocator sim.Allocator
	trial     *trial
}

// candidateName names a backend with its formulation: highs paper.
func candidateName(backend solver.BackendName, formulation solver.Formulation) string {
	return strings.TrimSpace(string(backend) + " " + string(formulation))
}

// trial is the result of one decision of a candidate.
type trial struct {
	// objective is the objective of the plan of the backend. The decision may contain a better plan from
	// the check. claimed reports that the backend claims optimality.
	objective float64
	claimed   bool
	// checked is the time of the check.
	checked time.Duration
}

// suits reports whether the candidate supports the objective of the instance.
func (c candidate) suits(one instance) bool {
	return c.formulation != solver.FormulationPaper || !one.options.Spec().OneStep
}

// newCandidate returns a backend with a time limit for every search, and a check with the same limit. wrap,
// which may be nil, is applied to the backend first.
func newCandidate(
	name solver.BackendName, programs cli.Programs, limit time.Duration, wrap func(problem.Backend) problem.Backend,
) (candidate, error) {
	var last trial
	allocator, err := elastalloc.New(elastalloc.Options{
		Backends:      []solver.BackendName{name},
		Programs:      programs,
		DefaultBudget: elastalloc.NoBudget,
		NoBreakers:    true,
		Middleware: func(b problem.Backend) problem.Backend {
			if wrap != nil {
				b = wrap(b)
			}
			return limited{b, limit, &last}
		},
		ProverMiddleware: func(p problem.Prover) problem.Prover {
			return check{p, limit, &last}
		},
	})
	if err != nil {
		return candidate{}, err
	}
	return candidate{backend: allocator.Backends()[0], allocator: allocator, trial: &last}, nil
}

// limited is a backend with a time limit for every search.
type limited struct {
	problem.Backend
	limit time.Duration
	last  *trial
}

// Solve returns the best plan found within the limit.
func (l limited) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	result, err := l.Backend.Solve(ctx, p, options)
	if err == nil && p.Check(result.Plan) == nil {
		l.last.objective = p.Objective(result.Plan)
		l.last.claimed = result.Claim != nil && result.Claim.Optimal
	}
	return result, err
}

// check is a prover with a common time limit for a search and a bound.
type check struct {
	problem.Prover
	limit time.Duration
	last  *trial
}

// Solve returns the best plan found within the remaining time.
func (c check) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	ctx, done := c.begin(ctx)
	defer done()
	return c.Prover.Solve(ctx, p, options)
}

// Bound returns the best bound found within the remaining time.
func (c check) Bound(ctx context.Context, p *problem.Problem) (bound float64, nodePrices []float64, contradiction string) {
	ctx, done := c.begin(ctx)
	defer done()
	return c.Prover.Bound(ctx, p)
}

// begin returns a context that expires at the limit, and its cancel function.
func (c check) begin(ctx context.Context) (context.Context, func()) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.limit-c.last.checked)
	return ctx, func() {
		cancel()
		c.last.checked += time.Since(began)
	}
}

// candidates returns the backends to compare, the external ones with each formulation.
func (f *benchFlags) candidates() ([]candidate, error) {
	for i := range f.formulations {
		if err := checkName[elastallocv1.Formulation]("formulation", f.formulations, i); err != nil {
			return nil, err
		}
	}
	names := cli.Named[solver.BackendName](f.backends)
	var candidates []candidate
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("--backends: backend %q is named twice", name)
		}
		one, err := newCandidate(name, f.programs, f.limit, nil)
		if err != nil {
			return nil, fmt.Errorf("--backends: %w", err)
		}
		if !one.backend.External() {
			candidates = append(candidates, one)
			continue
		}
		for _, formulation := range cli.Named[solver.Formulation](f.formulations) {
			one.formulation = formulation
			candidates = append(candidates, one)
		}
	}
	return candidates, nil
}

// benchRow is the result of one candidate on one instance. Field names are those of the
// JSON output; the numbers of a plan are null if there is none.
type benchRow struct {
	Instance    string             `json:"instance"`
	Jobs        int                `json:"jobs"`
	Nodes       int                `json:"nodes"`
	Backend     solver.BackendName `json:"backend"`
	Formulation solver.Formulation `json:"formulation"`
	// Reason is the reason of the decision or, without a plan, the outcome.
	Reason      string   `json:"reason"`
	Objective   *float64 `json:"objective"`
	Bound       *float64 `json:"bound"`
	RelativeGap *float64 `json:"relative_gap"`
	WallSeconds float64  `json:"wall_s"`
	// Claimed reports that the solver claims optimality and the check does not refute it.
	Claimed bool `json:"-"`
}

// compare solves every instance with every candidate. After an error, it returns the rows so far.
func compare(
	ctx context.Context, instances []instance, candidates []candidate, shown *progress,
) ([]benchRow, error) {
	defer shown.clear()
	type pair struct {
		instance
		candidate
	}
	var pairs []pair
	for _, instance := range instances {
		for _, candidate := range candidates {
			if candidate.suits(instance) {
				pairs = append(pairs, pair{instance, candidate})
			}
		}
	}
	rows := make([]benchRow, 0, len(pairs))
	for _, p := range pairs {
		shown.show(len(rows), len(pairs), fmt.Sprintf("decisions, now %s on %s", candidateName(p.backend.Name, p.formulation), p.name))
		row, err := measure(ctx, p.instance, p.candidate)
		switch {
		case ctx.Err() != nil:
			return rows, fmt.Errorf("interrupted after %d of %d rows", len(rows), len(pairs))
		case err != nil:
			return rows, fmt.Errorf("%s: %s: %w", p.name, p.backend.Name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func measure(ctx context.Context, instance instance, candidate candidate) (benchRow, error) {
	options := instance.options
	options.Backend, options.Formulation = candidate.backend.Name, candidate.formulation
	options.TimeBudget = 0

	*candidate.trial = trial{}
	// Garbage of one candidate must not slow down the next one.
	runtime.GC()
	decision, err := candidate.allocator.Allocate(ctx, instance.snapshot, options)
	if err != nil {
		return benchRow{}, err
	}
	report, attempt := decision.Report, decision.Report.Attempts[0]
	row := benchRow{
		Instance:    instance.name,
		Jobs:        len(instance.snapshot.Jobs),
		Nodes:       instance.snapshot.TotalNodes,
		Backend:     candidate.backend.Name,
		Formulation: candidate.formulation,
		Reason:      string(attempt.Outcome),
		WallSeconds: attempt.Duration.Seconds(),
	}
	if attempt.Outcome == solver.OutcomeAnswered {
		row.Reason, row.Claimed = string(report.Reason), candidate.trial.claimed
		if report.Backend != candidate.backend.Name {
			// The check found a better plan, or an equal one with fewer resizes.
			report.Objective = candidate.trial.objective
			report.RelativeGap = solver.RelativeGap(report.Objective, report.Bound)
			if report.RelativeGap > solver.OptimalGap {
				row.Reason, row.Claimed = string(solver.ReasonFeasible), false
			}
		}
		row.Objective, row.Bound, row.RelativeGap = &report.Objective, &report.Bound, &report.RelativeGap
	}
	return row, nil
}
