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
)

// Agreement is how far apart the objectives of two optimal plans may be, relative
// to the optimum: a MILP solver works to tolerances.
const Agreement = 1e-6

// Suite is what every backend must pass, by what it is capable of.
type Suite struct {
	// New returns the backend, or skips the test where it cannot be had.
	New func(testing.TB) solver.Backend
	// Formulation is the model to hand to a solver, if the backend does so.
	Formulation solver.Formulation
	// Optimises says that, given time, its plans are optimal to Agreement.
	Optimises bool
	// Proves says that it proves the bounds of its results itself.
	Proves bool
	// Claims says that its results hold claims of an external solver.
	Claims bool
	// Heuristic says that it makes no search: its plans may leave an admitted job
	// waiting, and it answers whether there is time or not.
	Heuristic bool
	// Examples is the number of SolvedProblems it is asked about.
	Examples int
	// TypedExamples is the number of TypedProblems, and of LimitedProblems, it is asked about.
	TypedExamples int
	// MayMiss are those of them for which the external solver is known to claim that a plan is
	// optimal which is not: the chain finds that out, since it proves every claim itself.
	MayMiss []int
	// MayErr are those of Examples to which the external solver is known to
	// give a wrong answer, which the backend then refuses.
	MayErr []int
	// Open are those of them that the backend does not prove within a second: its bound must
	// hold all the same.
	Open []int
	// InstanceJobs is the number of jobs up to which it is asked about the drawn
	// instances, none where it is 0.
	InstanceJobs int
	// Patience is the time it has for each drawn instance. Where that is not enough,
	// its plan must be legal, but it need not be optimal.
	Patience time.Duration
}

// Run runs the suite. What it asks is the same for every backend.
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
	t.Run("an incumbent to start from", r.incumbent)
	t.Run("options that cannot be honoured", r.badOptions)
	t.Run("the caller has left", r.canceled)
	t.Run("the time is up", r.timeIsUp)
	t.Run("too little time", r.tooLittleTime)
	t.Run("concurrent calls", r.concurrentCalls)
}

// runner runs a suite on one backend.
type runner struct {
	Suite
	backend solver.Backend
}

func (r *runner) options() solver.SolveOptions {
	return solver.SolveOptions{Formulation: r.Formulation}
}

// mustSolve asks the backend without a limit of time and returns the objective of
// its plan, having checked what must hold of any result.
func (r *runner) mustSolve(t *testing.T, p *solver.Problem, options solver.SolveOptions) float64 {
	t.Helper()
	result, err := r.backend.Solve(t.Context(), p, options)
	return r.complete(t, p, result, err)
}

// complete checks what must hold of any result of a search without a limit of time, and
// returns the plan's objective.
func (r *runner) complete(t *testing.T, p *solver.Problem, result solver.Result, err error) float64 {
	t.Helper()
	if err != nil {
		t.Fatalf("Solve() failed: %v", err)
	}
	if result.Limit != solver.LimitNone {
		t.Errorf("limit %s without a limit of time", result.Limit)
	}
	return r.check(t, p, result)
}

// check checks what must hold of any result and returns the plan's objective.
func (r *runner) check(t *testing.T, p *solver.Problem, result solver.Result) float64 {
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

// checkClaim checks that a claim is told as it was made: for a plan of the given
// objective.
func (r *runner) checkClaim(t *testing.T, p *solver.Problem, result solver.Result, objective float64) {
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

// agreement is how far from an objective another may be that agrees with it. Solvers
// work to absolute tolerances, which matter near 0 and where large values cancel out.
func agreement(p *solver.Problem, objective float64) float64 {
	return Agreement * max(1e-5, math.Abs(objective), Magnitude(p)/10)
}

// checkOptimal checks an objective against the known optimum.
func (r *runner) checkOptimal(t *testing.T, p *solver.Problem, objective, optimum float64) {
	t.Helper()
	tolerance := agreement(p, optimum)
	if r.Proves {
		tolerance = solver.OptimalGap*math.Abs(optimum) + 1e-15*Magnitude(p)
	}
	if objective > optimum+tolerance && !r.Heuristic {
		t.Errorf("objective %.12g is above the optimum %.12g", objective, optimum)
	}
	if objective < optimum-tolerance && r.Optimises {
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
	all.Weight, all.RescaleDelay = new(2.5), 40*time.Second

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
			t.Run(test.name+"/"+string(admission), func(t *testing.T) { r.agreesOn(t, Solve(t, solver.NewProblem(s, admission))) })
		}
	}
}

// randomProblems asks about the same problems every time, so that a failure can be looked at.
// Where a backend says that it cannot be asked about one, that is its answer.
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

// checkOpen checks a result that need not be proven against the optimum.
func (r *runner) checkOpen(t *testing.T, p Solved, result solver.Result) {
	t.Helper()
	if err := p.Check(result.Plan); err != nil {
		t.Fatalf("the plan is illegal: %v", err)
	}
	few := solver.OptimalGap*math.Abs(p.Best.Objective) + 1e-15*Magnitude(p.Problem)
	if objective := p.Objective(result.Plan); objective > p.Best.Objective+few || result.Bound < max(p.Best.Objective-few, objective) {
		t.Errorf("objective %.12g, bound %.12g; the optimum is %.12g", objective, result.Bound, p.Best.Objective)
	}
}

// agreesOn checks a result against the optimum.
func (r *runner) agreesOn(t *testing.T, p Solved) {
	t.Helper()
	r.checkOptimal(t, p.Problem, r.mustSolve(t, p.Problem, r.options()), p.Best.Objective)
}

// instances checks results against the certified optima.
func (r *runner) instances(t *testing.T) {
	if testing.Short() || r.InstanceJobs == 0 {
		t.Skip("they take long")
	}
	instances, finished := instances.Load(t, r.InstanceJobs), 0
	for _, instance := range instances {
		t.Run(instance.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), r.Patience)
			defer cancel()
			p := solver.NewProblem(instance.Snapshot, solver.AdmissionFIFO)
			result, err := r.backend.Solve(ctx, p, r.options())
			if errors.Is(err, solver.ErrTimedOut) {
				t.Skipf("no plan within %v", r.Patience)
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
	t.Logf("%d of %d instances finished within %v each", finished, len(instances), r.Patience)
	if finished == 0 {
		t.Error("no instance was finished in time")
	}
}

// incumbent checks that no incumbent, legal or not, makes a result worse.
func (r *runner) incumbent(t *testing.T) {
	p := solver.NewProblem(busy(4), solver.AdmissionFIFO)
	want := r.mustSolve(t, p, r.options())
	smallest := solver.NewPlan(len(p.Jobs), p.Steps)
	for i := range smallest {
		for step := range smallest[i] {
			smallest[i][step] = p.Jobs[i].Options[0]
		}
	}
	illegal := smallest.Clone()
	illegal[0][0].Nodes = 3
	for name, plan := range map[string]solver.Plan{"legal": smallest, "illegal": illegal, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			options := r.options()
			options.Incumbent = plan
			if objective := r.mustSolve(t, p, options); math.Abs(objective-want) > Agreement*want {
				t.Errorf("objective %.12g with an incumbent, %.12g without", objective, want)
			}
		})
	}
}

// badOptions checks that a backend that hands a model to a solver refuses what it
// cannot hand on.
func (r *runner) badOptions(t *testing.T) {
	if !r.Claims {
		t.Skip("the backend hands no model to a solver")
	}
	p := solver.NewProblem(busy(2), solver.AdmissionFIFO)
	for name, options := range map[string]solver.SolveOptions{
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
	p := solver.NewProblem(busy(60), solver.AdmissionFIFO)
	result, err := r.backend.Solve(ctx, p, r.options())
	switch {
	case err == nil:
		r.check(t, p, result) // One that needs no time may answer.
	case !errors.Is(err, context.Canceled):
		t.Errorf("error %v; want context.Canceled", err)
	}
}

func (r *runner) timeIsUp(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	r.limited(ctx, t)
}

// tooLittleTime gives moments in which a solver starts, reads, searches or writes.
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

// limited asks about a large snapshot in a context that may end first: there must
// be a legal plan, or an error that says that the time was up.
func (r *runner) limited(ctx context.Context, t *testing.T) {
	t.Helper()
	p := solver.NewProblem(busy(60), solver.AdmissionFIFO)
	result, err := r.backend.Solve(ctx, p, r.options())
	switch {
	case err == nil:
		r.check(t, p, result)
	case !errors.Is(err, solver.ErrTimedOut):
		t.Errorf("error %v; want one wrapping ErrTimedOut", err)
	}
}

// concurrentCalls checks that calls do not get into each other's way: the same
// problem has the same plan every time.
func (r *runner) concurrentCalls(t *testing.T) {
	p := solver.NewProblem(busy(4), solver.AdmissionFIFO)
	results := make([]solver.Result, 3)
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

// busy returns a snapshot of the given number of jobs that compete for the nodes
// and of which some finish within the horizon.
func busy(jobs int) *solver.Snapshot {
	s := &solver.Snapshot{ID: "busy", TotalNodes: 2*jobs + 3, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		job := solver.NewJob(fmt.Sprintf("job-%d", i+1), time.Duration(10+37*(i*i%101))*time.Minute)
		job.CurrentNodes = []int{0, 1, 2, 4}[i%4]
		s.Jobs = append(s.Jobs, job)
	}
	return s
}
