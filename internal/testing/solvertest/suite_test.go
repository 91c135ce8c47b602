package solvertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/testing/instances"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Agreement is the maximum difference of the objectives of two optimal plans, relative to the optimum.
// MILP solvers compute with tolerances.
const Agreement = 1e-6

// Suite is the conformance suite of a backend. Its fields describe the capabilities of the backend.
type Suite struct {
	// New returns the backend, or skips the test if it is not available.
	New func(testing.TB) problem.Backend
	// Formulation is the formulation for backends that use an external solver.
	Formulation solver.Formulation
	// Optimizes reports that plans are optimal to Agreement if there is no time limit.
	Optimizes bool
	// Proves reports that the backend proves the bounds of its results.
	Proves bool
	// Claims reports that results have claims of an external solver.
	Claims bool
	// Heuristic reports that the backend makes no search. Its plans may leave an admitted job waiting,
	// and it ignores deadlines.
	Heuristic bool
	// Examples is the number of SolvedProblems to solve.
	Examples int
	// TypedExamples is the number of TypedProblems and of LimitedProblems to solve.
	TypedExamples int
	// MayMiss are the typed examples for which the external solver is known to claim that a suboptimal
	// plan is optimal. The chain detects this, because it verifies every claim.
	MayMiss []int
	// MayErr are the examples for which the external solver is known to return an invalid result, which
	// the backend rejects.
	MayErr []int
	// Open are the examples that the backend does not prove within a second. Their bounds must be valid too.
	Open []int
	// InstanceJobs is the maximum number of jobs of the random instances to solve, 0 for no instances.
	InstanceJobs int
	// Timeout is the time limit per random instance. If it expires, the plan must be legal, but need
	// not be optimal.
	Timeout time.Duration
}

// Run runs the suite. The problems are the same for every backend.
func Run(t *testing.T, suite Suite) {
	t.Helper()
	r := &runner{Suite: suite, backend: suite.New(t)}
	t.Run("edge cases", r.edgeCases)
	t.Run("random problems", r.randomProblems)
	t.Run("node types", r.nodeTypes)
	t.Run("random problems with node types", r.randomTypes)
	t.Run("size limits", r.sizeLimits)
	t.Run("random problems with size limits", r.randomLimits)
	t.Run("instances", r.instances)
	t.Run("incumbent", r.incumbent)
	t.Run("invalid options", r.badOptions)
	t.Run("canceled", r.canceled)
	t.Run("expired deadline", r.expired)
	t.Run("too little time", r.tooLittleTime)
	t.Run("concurrent calls", r.concurrentCalls)
}

// runner runs a suite on one backend.
type runner struct {
	Suite
	backend problem.Backend
}

func (r *runner) options() problem.SolveOptions {
	return problem.SolveOptions{Formulation: r.Formulation}
}

// mustSolve solves a problem without a time limit, checks the result, and returns the objective of its plan.
func (r *runner) mustSolve(t *testing.T, p *problem.Problem, options problem.SolveOptions) float64 {
	t.Helper()
	result, err := r.backend.Solve(t.Context(), p, options)
	return r.complete(t, p, result, err)
}

// complete checks the result of a search without a time limit and returns the objective of its plan.
func (r *runner) complete(t *testing.T, p *problem.Problem, result problem.Result, err error) float64 {
	t.Helper()
	if err != nil {
		t.Fatalf("Solve() failed: %v", err)
	}
	if result.Limit != solver.LimitNone {
		t.Errorf("limit %s without a limit of time", result.Limit)
	}
	return r.check(t, p, result)
}

// check checks the properties of any result and returns the objective of its plan.
func (r *runner) check(t *testing.T, p *problem.Problem, result problem.Result) float64 {
	t.Helper()
	if result.Heuristic != r.Heuristic {
		t.Errorf("heuristic is %t; want %t", result.Heuristic, r.Heuristic)
	}
	legal := p
	if result.Heuristic {
		legal = p.WithWaiting()
	}
	if err := legal.Check(result.Plan); err != nil {
		t.Fatalf("the plan is illegal: %v", err)
	}
	objective := legal.Objective(result.Plan)
	switch {
	case !r.Proves && !math.IsInf(result.Bound, 1):
		t.Errorf("bound %v; want +Inf of a backend that proves none", result.Bound)
	case r.Proves && (math.IsInf(result.Bound, 0) || !(result.Bound >= objective-solver.OptimalGap*math.Abs(objective))):
		t.Errorf("bound %v on the objective %v", result.Bound, objective)
	case r.Proves && result.Limit == solver.LimitNone &&
		solver.RelativeGap(objective, result.Bound) > solver.OptimalGap && result.Bound-objective > 1e-15*Magnitude(p):
		t.Errorf("bound %v on the objective %v does not prove it", result.Bound, objective)
	}
	if (result.Claim != nil) != r.Claims {
		t.Errorf("claim %+v; want one: %t", result.Claim, r.Claims)
	}
	if result.Claim != nil {
		r.checkClaim(t, p, result, objective)
	}
	return objective
}

// checkClaim checks that the claim is about a plan with the given objective.
func (r *runner) checkClaim(t *testing.T, p *problem.Problem, result problem.Result, objective float64) {
	t.Helper()
	if result.Detail == "" {
		t.Error("no detail of the claim")
	}
	if difference := math.Abs(result.Claim.Objective - objective); !(difference <= agreement(p, objective)) {
		t.Errorf("the solver claims %.12g for a plan of %.12g", result.Claim.Objective, objective)
	}
	if result.Claim.Bound < objective-agreement(p, objective) {
		t.Errorf("the solver claims the bound %.12g on a plan of %.12g", result.Claim.Bound, objective)
	}
}

// agreement returns the maximum difference of an objective from the given one. Solvers compute with
// absolute tolerances, which matter near 0 and if large values cancel.
func agreement(p *problem.Problem, objective float64) float64 {
	return Agreement * max(1e-5, math.Abs(objective), Magnitude(p)/10)
}

// checkOptimal checks an objective against the known optimum.
func (r *runner) checkOptimal(t *testing.T, p *problem.Problem, objective, optimum float64) {
	t.Helper()
	tolerance := agreement(p, optimum)
	if r.Proves {
		tolerance = solver.OptimalGap*math.Abs(optimum) + 1e-15*Magnitude(p)
	}
	if objective > optimum+tolerance && !r.Heuristic {
		t.Errorf("objective %.12g is above the optimum %.12g", objective, optimum)
	}
	if objective < optimum-tolerance && r.Optimizes {
		t.Errorf("objective %.12g; the optimum is %.12g", objective, optimum)
	}
}

func (r *runner) edgeCases(t *testing.T) {
	job := func(current int) solver.Job {
		j := solver.NewJob("", time.Hour)
		j.CurrentNodes = current
		return j
	}
	ofSizes := func(j solver.Job, sizes ...int) solver.Job {
		j.AllowedNodes = sizes
		return j
	}
	illegal := ofSizes(job(5), 1, 2, 4)
	blink := solver.NewJob("", time.Millisecond)
	decade := solver.NewJob("", 10*365*24*time.Hour)
	worthless := job(2)
	worthless.Weight = new(0.0)
	all := job(3)
	all.AllowedNodes, all.MaxNodes = []int{1, 3, 6, 12}, 6
	all.Scaling = solver.Scaling{Speeds: []float64{1, 2.5, 2, 9}}
	all.Weight, all.ResizeDelay = new(2.5), 40*time.Second

	tests := []struct {
		name  string
		nodes int
		jobs  []solver.Job
	}{
		{name: "no jobs", nodes: 4},
		{name: "zero nodes", nodes: 0, jobs: []solver.Job{job(2), job(0)}},
		{name: "no jobs and zero nodes"},
		{name: "one job", nodes: 7, jobs: []solver.Job{job(0)}},
		{name: "one size", nodes: 7, jobs: []solver.Job{ofSizes(job(0), 3), ofSizes(job(3), 3)}},
		{name: "more jobs than nodes", nodes: 2, jobs: []solver.Job{job(0), job(0), job(0), job(1)}},
		{name: "a pool that shrank", nodes: 3, jobs: []solver.Job{job(8), job(4), ofSizes(job(4), 4, 8), job(0)}},
		{name: "an illegal current size", nodes: 6, jobs: []solver.Job{illegal, job(0)}},
		{name: "a millisecond and ten years", nodes: 5, jobs: []solver.Job{decade, blink, job(1)}},
		{name: "a job of weight 0", nodes: 5, jobs: []solver.Job{worthless, job(1)}},
		{name: "only jobs of weight 0", nodes: 5, jobs: []solver.Job{worthless, worthless}},
		{name: "every feature", nodes: 9, jobs: []solver.Job{all, illegal, job(0)}},
	}
	for _, test := range tests {
		s := &solver.Snapshot{
			TotalNodes: test.nodes,
			Horizon:    solver.Horizon{Step: solver.DefaultStep, Steps: 3},
			Jobs:       test.jobs,
		}
		for i := range s.Jobs {
			s.Jobs[i].ID = fmt.Sprintf("job-%d", i+1)
		}
		if bad := s.Validate(len(s.Jobs)); len(bad) > 0 {
			t.Fatalf("%s: not valid: %v", test.name, bad)
		}
		for _, admission := range solver.Admissions() {
			t.Run(test.name+"/"+string(admission), func(t *testing.T) { r.checkProblem(t, Solve(t, problem.NewProblem(s, admission))) })
		}
	}
}

// randomProblems solves the same random problems each time, so that failures can be reproduced.
// Problems that the backend does not support are skipped.
func (r *runner) randomProblems(t *testing.T) {
	examples := r.Examples
	if testing.Short() {
		examples = min(examples, 9)
	}
	problems := SolvedProblems()
	for seed := range examples {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			p, ctx := problems.Example(seed), t.Context()
			if slices.Contains(r.Open, seed) {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			result, err := r.backend.Solve(ctx, p.Problem, r.options())
			switch {
			case errors.Is(err, solver.ErrUnsuited), errors.Is(err, solver.ErrInvalidPlan) && slices.Contains(r.MayErr, seed):
				t.Skip(err)
			case err == nil && slices.Contains(r.Open, seed):
				r.checkOpen(t, p, result)
			default:
				r.checkOptimal(t, p.Problem, r.complete(t, p.Problem, result, err), p.Best.Objective)
			}
		})
	}
}

// checkOpen checks a result that need not be proven.
func (r *runner) checkOpen(t *testing.T, p Solved, result problem.Result) {
	t.Helper()
	if err := p.Check(result.Plan); err != nil {
		t.Fatalf("the plan is illegal: %v", err)
	}
	tolerance := solver.OptimalGap*math.Abs(p.Best.Objective) + 1e-15*Magnitude(p.Problem)
	if objective := p.Objective(result.Plan); objective > p.Best.Objective+tolerance ||
		result.Bound < max(p.Best.Objective-tolerance, objective) {
		t.Errorf("objective %.12g, bound %.12g; the optimum is %.12g", objective, result.Bound, p.Best.Objective)
	}
}

// checkProblem solves a problem and compares the result with the optimum.
func (r *runner) checkProblem(t *testing.T, p Solved) {
	t.Helper()
	r.checkOptimal(t, p.Problem, r.mustSolve(t, p.Problem, r.options()), p.Best.Objective)
}

// instances compares results with certified optima.
func (r *runner) instances(t *testing.T) {
	if testing.Short() || r.InstanceJobs == 0 {
		t.Skip("slow")
	}
	instances, finished := instances.Load(t, r.InstanceJobs), 0
	for _, instance := range instances {
		t.Run(instance.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), r.Timeout)
			defer cancel()
			p := problem.NewProblem(instance.Snapshot, solver.AdmissionFIFO)
			result, err := r.backend.Solve(ctx, p, r.options())
			if errors.Is(err, solver.ErrTimedOut) {
				t.Skipf("no plan within %v", r.Timeout)
			}
			if err != nil {
				t.Fatalf("Solve() failed: %v", err)
			}
			objective := r.check(t, p, result)
			if result.Limit == solver.LimitNone {
				finished++
				r.checkOptimal(t, p, objective, instance.Objective)
			} else if objective > instance.Objective*(1+Agreement) {
				t.Errorf("objective %.12g is above the optimum %.12g", objective, instance.Objective)
			}
		})
	}
	t.Logf("%d of %d instances finished within %v each", finished, len(instances), r.Timeout)
	if finished == 0 {
		t.Error("no instance was finished in time")
	}
}

// incumbent checks that no incumbent, legal or not, makes a result worse.
func (r *runner) incumbent(t *testing.T) {
	p := problem.NewProblem(busy(4), solver.AdmissionFIFO)
	want := r.mustSolve(t, p, r.options())
	smallest := problem.NewPlan(len(p.Jobs), p.Steps)
	for i := range smallest {
		for step := range smallest[i] {
			smallest[i][step] = p.Jobs[i].Options[0]
		}
	}
	illegal := smallest.Clone()
	illegal[0][0].Nodes = 3
	for name, plan := range map[string]problem.Plan{"legal": smallest, "illegal": illegal, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			options := r.options()
			options.Incumbent = plan
			if objective := r.mustSolve(t, p, options); math.Abs(objective-want) > Agreement*want {
				t.Errorf("objective %.12g with an incumbent, %.12g without", objective, want)
			}
		})
	}
}

// badOptions checks that a backend with an external solver rejects invalid options.
func (r *runner) badOptions(t *testing.T) {
	if !r.Claims {
		t.Skip("the backend hands no model to a solver")
	}
	p := problem.NewProblem(busy(2), solver.AdmissionFIFO)
	for name, options := range map[string]problem.SolveOptions{
		"formulation":  {Formulation: "quadratic"},
		"negative gap": {Formulation: r.Formulation, RelativeGap: -1},
		"infinite gap": {Formulation: r.Formulation, RelativeGap: math.Inf(1)},
		"gap of NaN":   {Formulation: r.Formulation, RelativeGap: math.NaN()},
	} {
		if result, err := r.backend.Solve(t.Context(), p, options); err == nil {
			t.Errorf("%s: Solve() = %+v; want an error", name, result)
		}
	}
}

func (r *runner) canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := problem.NewProblem(busy(60), solver.AdmissionFIFO)
	result, err := r.backend.Solve(ctx, p, r.options())
	switch {
	case err == nil:
		r.check(t, p, result) // A backend that needs no time may return a plan.
	case !errors.Is(err, context.Canceled):
		t.Errorf("error %v; want context.Canceled", err)
	}
}

func (r *runner) expired(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r.limited(ctx, t)
}

// tooLittleTime sets deadlines at which a solver starts, reads, searches or writes.
func (r *runner) tooLittleTime(t *testing.T) {
	for _, limit := range []time.Duration{
		time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	} {
		t.Run(limit.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			r.limited(ctx, t)
		})
	}
}

// limited solves a large problem with a deadline. The result must be a legal plan or an error that
// wraps ErrTimedOut.
func (r *runner) limited(ctx context.Context, t *testing.T) {
	t.Helper()
	p := problem.NewProblem(busy(60), solver.AdmissionFIFO)
	result, err := r.backend.Solve(ctx, p, r.options())
	switch {
	case err == nil:
		r.check(t, p, result)
	case !errors.Is(err, solver.ErrTimedOut):
		t.Errorf("error %v; want one wrapping ErrTimedOut", err)
	}
}

// concurrentCalls checks that concurrent calls with the same problem return the same plan.
func (r *runner) concurrentCalls(t *testing.T) {
	p := problem.NewProblem(busy(4), solver.AdmissionFIFO)
	results := make([]problem.Result, 3)
	errs := make([]error, len(results))
	var group sync.WaitGroup
	for n := range results {
		group.Go(func() { results[n], errs[n] = r.backend.Solve(t.Context(), p, r.options()) })
	}
	group.Wait()
	for n := range results {
		if errs[n] != nil {
			t.Fatal(errs[n])
		}
		if diff := cmp.Diff(results[0].Plan, results[n].Plan); diff != "" {
			t.Errorf("the same problem, another plan (-first +call %d):\n%s", n+1, diff)
		}
	}
}

// busy returns a snapshot with the given number of jobs that compete for nodes, some of which complete
// within the horizon.
func busy(jobs int) *solver.Snapshot {
	s := &solver.Snapshot{ID: "busy", TotalNodes: 2*jobs + 3, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		job := solver.NewJob(fmt.Sprintf("job-%d", i+1), time.Duration(10+37*(i*i%101))*time.Minute)
		job.CurrentNodes = []int{0, 1, 2, 4}[i%4]
		s.Jobs = append(s.Jobs, job)
	}
	return s
}
