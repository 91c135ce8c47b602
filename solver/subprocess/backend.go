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

	"github.com/elastalloc/elastalloc/solver/milp"
	"github.com/elastalloc/elastalloc/solver/problem"
)

const (
	outputLimit  = 64 << 10 // bytes of a solver's output that are kept
	quotedLines  = 3        // its last ones, which go into an error
	quotedLength = 200      // characters of each at most
	// A solution file is read, and may be written, up to this size: a line has a
	// name, two numbers and an index at most, and there is a head.
	bytesPerLine, bytesOfHead = 256, 1 << 16
)

// Backend solves the MILP of a problem with an external solver. Nothing that the
// solver says is trusted: an answer is a complete solution file of integral values
// whose plan is legal, and the rest of what it says is its claim.
type Backend struct {
	name    problem.BackendName
	program string
	dialect Dialect
}

// NewBackend returns the backend of the given name that runs a program, a path or
// a name on the PATH, which speaks the dialect.
func NewBackend(name problem.BackendName, program string, dialect Dialect) *Backend {
	return &Backend{name: name, program: program, dialect: dialect}
}

// Name returns the backend's name.
func (b *Backend) Name() problem.BackendName { return b.name }

// Probe returns the version of the program. The error wraps problem.ErrUnavailable
// where the program is missing or is not the solver.
func (b *Backend) Probe(ctx context.Context) (version string, err error) {
	err = withFolder(func(dir string) error {
		report, err := b.run(ctx, dir, b.dialect.VersionArguments(), bytesOfHead)
		if err != nil {
			return err
		}
		if version = b.dialect.ParseVersion(report.Output); version == "" {
			return fmt.Errorf("%w: %s is not %s, which prints its version: %s",
				problem.ErrUnavailable, b.program, b.dialect.Title(), ending(report))
		}
		return nil
	})
	return version, err
}

// Solve writes the model in the formulation asked for, runs the solver until
// shortly before ctx ends and returns the plan of its solution. The result proves
// no bound; what the solver says of the plan is the claim.
func (b *Backend) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	if !(options.RelativeGap >= 0 && options.RelativeGap <= math.MaxFloat64) {
		return problem.Result{}, fmt.Errorf("the relative gap is %v; want a number of at least 0", options.RelativeGap)
	}
	var result problem.Result
	err := withFolder(func(dir string) (err error) {
		result, err = b.solve(ctx, dir, p, options)
		return err
	})
	return result, err
}

// solve is Solve in a folder of its own.
func (b *Backend) solve(
	ctx context.Context, dir string, p *problem.Problem, options problem.SolveOptions,
) (problem.Result, error) {
	began := time.Now()
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
	clock := newClock(ctx, now, now.Sub(began))
	task.TimeLimit = clock.limit
	arguments, err := b.dialect.Arguments(task)
	if err != nil {
		return problem.Result{}, fmt.Errorf("%w: %w", problem.ErrUnavailable, err)
	}
	running, cancel := clock.until(ctx)
	defer cancel()
	report, err := b.run(running, dir, arguments, largestSolution(model))
	if err != nil {
		return problem.Result{}, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return problem.Result{}, ctx.Err() // The caller has left.
	}
	ended := time.Since(now) >= clock.limit && clock.limit > 0
	solution, err := b.read(filepath.Join(dir, task.Solution), model, report, ended)
	if err != nil {
		return problem.Result{}, err
	}
	if solution.Verdict == Infeasible && (ended || report.Stopped) {
		solution.Verdict = TimeUp // CBC says so of a model whose reduction its limit cut off.
	}
	return b.result(p, model, solution, report)
}

// run runs the program in a folder; fileLimit bounds the bytes of each file there.
func (b *Backend) run(ctx context.Context, dir string, arguments []string, fileLimit int64) (Report, error) {
	if ctx.Err() != nil {
		return Report{}, timedOut(ctx, "before the solver started")
	}
	report, err := Run(ctx, Command{
		Program: b.program,
		Args:    arguments,
		Dir:     dir,
		Env: []string{
			// For programs that are scripts, and for numbers with a point.
			"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C",
			"HOME=" + dir, "TMPDIR=" + dir,
			// One thread is what a decision is given, linear algebra included.
			"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
		},
		OutputLimit: outputLimit,
		FileLimit:   fileLimit,
		Grace:       grace,
	})
	switch {
	case err == nil:
		return report, nil
	case ctx.Err() != nil:
		return Report{}, timedOut(ctx, "before the solver started")
	default:
		return Report{}, fmt.Errorf("%w: %w", problem.ErrUnavailable, err)
	}
}

// read parses the solution file of a run. Where none can be read, the error is that the
// time was up if the run had to be stopped, or ended by itself when its limit had passed.
func (b *Backend) read(name string, model *milp.Model, report Report, limitPassed bool) (Solution, error) {
	solution, err := b.parse(name, model)
	switch {
	case err == nil:
		return solution, nil
	case report.Stopped || limitPassed && report.Exited:
		return Solution{}, fmt.Errorf("%w: %s has no whole solution: %w; %s",
			problem.ErrTimedOut, b.dialect.Title(), err, ending(report))
	default:
		return Solution{}, fmt.Errorf("%s has no whole solution: %w; %s", b.dialect.Title(), err, ending(report))
	}
}

// parse parses a solution file, if there is one. A solution must have every column, as a
// file that was cut off at the end of a line looks whole otherwise.
func (b *Backend) parse(name string, model *milp.Model) (Solution, error) {
	// To open a pipe would wait for somebody to write to it, maybe forever. What is
	// of the solver has ended, so that none can turn the file into one now.
	info, err := os.Lstat(name)
	if err != nil {
		return Solution{}, errors.New("it wrote none")
	}
	if !info.Mode().IsRegular() {
		return Solution{}, fmt.Errorf("not a regular file: %s", info.Mode())
	}
	file, err := os.Open(name)
	if err != nil {
		return Solution{}, fmt.Errorf("it cannot be opened: %w", err)
	}
	defer file.Close()
	solution, err := b.dialect.ParseSolution(io.LimitReader(file, largestSolution(model)))
	if err != nil || solution.Verdict != Feasible && solution.Verdict != Optimal {
		return solution, err
	}
	for i := range model.Columns() {
		if _, there := solution.Values[model.ColumnName(i)]; !there {
			return Solution{}, fmt.Errorf("it lacks column %s", model.ColumnName(i))
		}
	}
	return solution, nil
}

// largestSolution returns how many bytes of a solution file are read.
func largestSolution(model *milp.Model) int64 {
	return bytesOfHead + bytesPerLine*int64(model.Columns()+model.Rows())
}

// result turns a solution into a result, or into the error that it amounts to.
func (b *Backend) result(
	p *problem.Problem, model *milp.Model, solution Solution, report Report,
) (problem.Result, error) {
	said := fmt.Sprintf("%s %s says: %s", b.dialect.Title(), b.dialect.ParseVersion(report.Output), solution.Status)
	switch solution.Verdict {
	case Optimal, Feasible:
	case TimeUp:
		return problem.Result{}, fmt.Errorf("%w: %s", problem.ErrTimedOut, said)
	case Infeasible:
		return problem.Result{}, fmt.Errorf("%w: %s, but every problem has a plan", problem.ErrInvalidPlan, said)
	default:
		return problem.Result{}, fmt.Errorf("%s; %s", said, ending(report))
	}

	plan, err := model.Plan(solution.Values)
	if err != nil {
		return problem.Result{}, fmt.Errorf("%s: %w", said, err)
	}
	if err := p.Check(plan); err != nil {
		return problem.Result{}, fmt.Errorf("%w: %s: %w", problem.ErrInvalidPlan, said, err)
	}

	claim := &problem.Claim{
		Optimal:   solution.Verdict == Optimal,
		Objective: model.Objective(solution.Objective),
		Bound:     model.Objective(b.dialect.ParseBound(report.Output)),
	}
	said += fmt.Sprintf(", objective %.10g", claim.Objective)
	if !math.IsNaN(claim.Bound) {
		said += fmt.Sprintf(", bound %.10g", claim.Bound)
	}
	result := problem.Result{Plan: plan, Bound: math.Inf(1), Limit: problem.LimitNone, Claim: claim, Detail: said}
	if !claim.Optimal {
		result.Limit = problem.LimitTime
	}
	return result, nil
}

// ending says how a run ended and what it printed last.
func ending(report Report) string {
	if last := lastLines(report.Output, quotedLines, quotedLength); last != "" {
		return fmt.Sprintf("%s after printing %q", report.Ending, last)
	}
	return report.Ending + " without printing anything"
}

// timedOut returns the error for a context that has ended.
func timedOut(ctx context.Context, when string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: the time was up %s", problem.ErrTimedOut, when)
}

// writeFile writes a file into a folder until ctx ends.
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

// contextWriter is a writer that fails once its context has ended.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

// Write writes, unless the context has ended.
func (c *contextWriter) Write(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, timedOut(c.ctx, "while the model was written")
	}
	return c.w.Write(p)
}
