package subprocess

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/milp"
	"github.com/elastalloc/elastalloc/solver/problem"
)

const (
	maxOutputBytes = 64 << 10 // of a solver's output that are kept
	quotedLines    = 3        // number of the last lines of the output in an error
	quotedLength   = 200      // maximum number of characters of each
	// A solution file has a header and one line per column and row. A line has at most a name, two
	// numbers and an index. Larger files are neither written nor read.
	maxBytesPerLine, headerBytes = 256, 1 << 16
)

// Backend solves the MILP of a problem with an external solver. It does not trust the solver: it accepts a
// complete solution file with integral values whose plan is legal. The solver's objective and bound are
// returned as a claim.
type Backend struct {
	name    solver.BackendName
	program string
	dialect Dialect
}

// NewBackend returns the backend of the given name. The program is a path or a name on the PATH, and the
// dialect defines its arguments and file formats.
func NewBackend(name solver.BackendName, program string, dialect Dialect) *Backend {
	return &Backend{name: name, program: program, dialect: dialect}
}

// Name returns the backend's name.
func (b *Backend) Name() solver.BackendName { return b.name }

// Probe returns the version of the program. The error wraps solver.ErrUnavailable if the program is
// missing or is not the solver.
func (b *Backend) Probe(ctx context.Context) (version string, err error) {
	err = withTempDir(func(dir string) error {
		report, err := b.run(ctx, dir, b.dialect.VersionArguments(), headerBytes)
		if err != nil {
			return err
		}
		if version = b.dialect.ParseVersion(report.Output); version == "" {
			return fmt.Errorf("%w: %s is not %s: no version in its output: %s",
				solver.ErrUnavailable, b.program, b.dialect.DisplayName(), describeExit(report))
		}
		return nil
	})
	return version, err
}

// Solve writes the model in the requested formulation, runs the solver until shortly before the deadline of
// ctx, and returns the plan of its solution. The result has no bound. It has the claim of the solver.
func (b *Backend) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	if !(options.RelativeGap >= 0 && options.RelativeGap <= math.MaxFloat64) {
		return problem.Result{}, fmt.Errorf("relative gap is %v; must be a finite number of at least 0", options.RelativeGap)
	}
	var result problem.Result
	err := withTempDir(func(dir string) (err error) {
		result, err = b.solve(ctx, dir, p, options)
		return err
	})
	return result, err
}

// solve is Solve with the temporary directory dir.
func (b *Backend) solve(
	ctx context.Context, dir string, p *problem.Problem, options problem.SolveOptions,
) (problem.Result, error) {
	start := time.Now()
	task := Task{Dir: dir, Model: "model.mps", Solution: "solution.txt", RelativeGap: options.RelativeGap}
	model, err := milp.Build(p, options.Formulation)
	if err != nil {
		return problem.Result{}, err
	}
	if err := writeFile(ctx, dir, task.Model, model.WriteMPS); err != nil {
		return problem.Result{}, err
	}
	if p.Check(options.Incumbent) == nil {
		task.Start = "start.txt"
		err := writeFile(ctx, dir, task.Start, func(w io.Writer) error {
			return b.dialect.WriteStart(w, model.Columns(), model.Start(options.Incumbent))
		})
		if err != nil {
			return problem.Result{}, err
		}
	}

	now := time.Now()
	limits := newTimeLimits(ctx, now, now.Sub(start))
	task.TimeLimit = limits.solver
	arguments, err := b.dialect.Arguments(task)
	if err != nil {
		return problem.Result{}, fmt.Errorf("%w: %w", solver.ErrUnavailable, err)
	}
	running, cancel := limits.withKillTime(ctx)
	defer cancel()
	report, err := b.run(running, dir, arguments, maxSolutionBytes(model))
	if err != nil {
		return problem.Result{}, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return problem.Result{}, ctx.Err() // Canceled by the caller.
	}
	limitPassed := time.Since(now) >= limits.solver && limits.solver > 0
	solution, err := b.readSolution(filepath.Join(dir, task.Solution), model, report, limitPassed)
	if err != nil {
		return problem.Result{}, err
	}
	if solution.Verdict == Infeasible && (limitPassed || report.Stopped) {
		solution.Verdict = TimedOut // CBC reports infeasibility if its time limit interrupts presolve.
	}
	return b.toResult(p, model, solution, report)
}

// run runs the program in a directory. fileLimit is the maximum size in bytes of a file that it writes.
func (b *Backend) run(ctx context.Context, dir string, arguments []string, fileLimit int64) (Report, error) {
	if ctx.Err() != nil {
		return Report{}, contextError(ctx, "before the solver started")
	}
	report, err := Run(ctx, Command{
		Program: b.program,
		Args:    arguments,
		Dir:     dir,
		Env: []string{
			// PATH is for programs that are scripts, and LC_ALL for decimal points.
			"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C",
			"HOME=" + dir, "TMPDIR=" + dir,
			// A decision has one thread, including linear algebra.
			"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
		},
		OutputLimit: maxOutputBytes,
		FileLimit:   fileLimit,
		KillDelay:   killDelay,
	})
	switch {
	case err == nil:
		return report, nil
	case ctx.Err() != nil:
		return Report{}, contextError(ctx, "before the solver started")
	default:
		return Report{}, fmt.Errorf("%w: %w", solver.ErrUnavailable, err)
	}
}

// readSolution parses the solution file of a run. If there is no complete solution, the error wraps
// solver.ErrTimedOut if the run was stopped, or if it exited by itself after its time limit had passed.
func (b *Backend) readSolution(name string, model *milp.Model, report Report, limitPassed bool) (Solution, error) {
	solution, err := b.parseSolution(name, model)
	switch {
	case err == nil:
		return solution, nil
	case report.Stopped || limitPassed && report.Exited:
		return Solution{}, fmt.Errorf("%w: %s has no complete solution: %w; %s",
			solver.ErrTimedOut, b.dialect.DisplayName(), err, describeExit(report))
	default:
		return Solution{}, fmt.Errorf("%s has no complete solution: %w; %s", b.dialect.DisplayName(), err, describeExit(report))
	}
}

// parseSolution parses a solution file. A solution must have every column, because a file that is truncated
// at the end of a line can look complete otherwise.
func (b *Backend) parseSolution(name string, model *milp.Model) (Solution, error) {
	// Opening a named pipe could block for ever. All processes of the solver have exited, so that none can
	// replace the file after this check.
	info, err := os.Lstat(name)
	if err != nil {
		return Solution{}, errors.New("no solution file")
	}
	if !info.Mode().IsRegular() {
		return Solution{}, fmt.Errorf("not a regular file: %s", info.Mode())
	}
	file, err := os.Open(name)
	if err != nil {
		return Solution{}, fmt.Errorf("the file cannot be opened: %w", err)
	}
	defer file.Close()
	solution, err := b.dialect.ParseSolution(io.LimitReader(file, maxSolutionBytes(model)))
	if err != nil || solution.Verdict != Feasible && solution.Verdict != Optimal {
		return solution, err
	}
	for i := range model.Columns() {
		if _, there := solution.Values[model.ColumnName(i)]; !there {
			return Solution{}, fmt.Errorf("column %s is missing", model.ColumnName(i))
		}
	}
	return solution, nil
}

// maxSolutionBytes returns the maximum size of a solution file.
func maxSolutionBytes(model *milp.Model) int64 {
	return headerBytes + maxBytesPerLine*int64(model.Columns()+model.Rows())
}

// toResult converts a solution into a result, or into an error if it has no legal plan.
func (b *Backend) toResult(
	p *problem.Problem, model *milp.Model, solution Solution, report Report,
) (problem.Result, error) {
	detail := fmt.Sprintf("%s %s reports: %s", b.dialect.DisplayName(), b.dialect.ParseVersion(report.Output), solution.Status)
	switch solution.Verdict {
	case Optimal, Feasible:
	case TimedOut:
		return problem.Result{}, fmt.Errorf("%w: %s", solver.ErrTimedOut, detail)
	case Infeasible:
		return problem.Result{}, fmt.Errorf("%w: %s, but every problem has a plan", solver.ErrInvalidPlan, detail)
	default:
		return problem.Result{}, fmt.Errorf("%s; %s", detail, describeExit(report))
	}

	plan, err := model.Plan(solution.Values)
	if err != nil {
		return problem.Result{}, fmt.Errorf("%s: %w", detail, err)
	}
	if err := p.Check(plan); err != nil {
		return problem.Result{}, fmt.Errorf("%w: %s: %w", solver.ErrInvalidPlan, detail, err)
	}

	claim := &problem.Claim{
		Optimal:   solution.Verdict == Optimal,
		Objective: model.Objective(solution.Objective),
		Bound:     model.Objective(b.dialect.ParseBound(report.Output)),
	}
	detail += fmt.Sprintf(", objective %.10g", claim.Objective)
	if !math.IsNaN(claim.Bound) {
		detail += fmt.Sprintf(", bound %.10g", claim.Bound)
	}
	result := problem.Result{Plan: plan, Bound: math.Inf(1), Limit: solver.LimitNone, Claim: claim, Detail: detail}
	if !claim.Optimal {
		result.Limit = solver.LimitTime
	}
	return result, nil
}

// describeExit returns the exit status of a run and the last lines of its output.
func describeExit(report Report) string {
	if last := lastLines(report.Output, quotedLines, quotedLength); last != "" {
		return fmt.Sprintf("%s, last output %q", report.Status, last)
	}
	return report.Status + ", no output"
}

// contextError returns the error for a context that is done.
func contextError(ctx context.Context, when string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: deadline passed %s", solver.ErrTimedOut, when)
}

// writeFile writes a file into a directory. It fails if ctx is done before it is written.
func writeFile(ctx context.Context, dir, name string, write func(io.Writer) error) (err error) {
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffered := bufio.NewWriterSize(&contextWriter{ctx, file}, 64<<10)
	if err := write(buffered); err != nil {
		return err
	}
	return buffered.Flush()
}

// contextWriter is a writer that fails when its context is done.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

// Write returns an error if the context is done.
func (c *contextWriter) Write(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, contextError(c.ctx, "while the model was written")
	}
	return c.w.Write(p)
}
