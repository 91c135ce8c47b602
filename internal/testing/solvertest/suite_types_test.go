package solvertest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// nodeTypes solves boundary cases with several node types under every admission.
func (r *runner) nodeTypes(t *testing.T) {
	types := func(nodes ...int) []solver.NodeType {
		list := make([]solver.NodeType, len(nodes))
		for g := range list {
			list[g] = solver.NodeType{ID: fmt.Sprint("type-", g), Nodes: nodes[g], Speed: math.Pow(2, float64(g))}
		}
		return list
	}
	job := func(change func(*solver.Job)) solver.Job {
		j := solver.NewJob("", time.Hour)
		j.AllowedNodes = []int{1, 2, 5}
		if change != nil {
			change(&j)
		}
		return j
	}
	on := func(g string, factor float64) func(*solver.Job) {
		return func(j *solver.Job) { j.Speeds = []solver.TypeSpeed{{NodeType: g, Factor: factor}} }
	}
	holds := func(g string, nodes int, restart, move time.Duration) func(*solver.Job) {
		return func(j *solver.Job) {
			j.CurrentNodes, j.CurrentNodeType, j.TrainingTime, j.RestartTime, j.MoveTime = nodes, g, time.Hour, restart, &move
		}
	}
	free, one := job(nil), job(func(j *solver.Job) { j.AllowedNodes = []int{1} })
	tests := []struct {
		name  string
		types []solver.NodeType
		jobs  []solver.Job
	}{
		{"no jobs", types(2, 3), nil},
		{"no nodes", types(0, 0), []solver.Job{free, job(holds("type-1", 2, time.Minute, time.Hour))}},
		{"a type without nodes", types(0, 4, 0), []solver.Job{free, job(holds("type-0", 2, time.Minute, time.Minute)), free}},
		{"a node of each of the most types", types(slices.Repeat([]int{1}, solver.MaxNodeTypes)...), []solver.Job{free, one, one}},
		{"one runs on one type only", types(2, 2), []solver.Job{job(on("type-0", 1)), free, job(on("type-0", 4))}},
		{"all on one of two types", types(3, 3), []solver.Job{job(on("type-1", 1)), job(on("type-1", 2)), job(on("type-1", 3))}},
		{"one that never fits", types(4, 3), []solver.Job{free, job(func(j *solver.Job) { j.AllowedNodes = []int{5} }), free}},
		{"the fastest and the slowest", types(2, 2),
			[]solver.Job{job(on("type-0", solver.MaxSpeed)), job(on("type-1", 1/solver.MaxSpeed)), free}},
		{"moves that pay, and do not", types(2, 4), []solver.Job{
			job(holds("type-0", 2, 10*time.Second, 20*time.Second)), job(holds("type-1", 2, time.Second, 20*time.Hour)), free,
		}},
		{"a type that shrank", types(1, 4), []solver.Job{job(holds("type-0", 5, time.Minute, time.Minute)), job(holds("type-0", 2, 0, 0)), free}},
	}
	for _, test := range tests {
		s := &solver.Snapshot{NodeTypes: test.types, Jobs: slices.Clone(test.jobs)}
		r.checkAdmissions(t, test.name, s)
	}
}

// checkAdmissions names the jobs of a snapshot and checks a solve of it under each admission.
func (r *runner) checkAdmissions(t *testing.T, name string, s *solver.Snapshot) {
	t.Helper()
	for i := range s.Jobs {
		s.Jobs[i].ID = fmt.Sprint("job-", i)
	}
	s = s.WithDefaults()
	for _, admission := range solver.Admissions() {
		t.Run(name+"/"+string(admission), func(t *testing.T) {
			o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}.WithDefaults()
			if bad := solver.Validate(s, o, len(s.Jobs), []solver.BackendName{o.Backend}); len(bad) > 0 {
				t.Fatal(bad)
			}
			r.checkTyped(t, problem.NewProblemFor(s, o))
		})
	}
}

// randomTypes solves the same random problems each time.
func (r *runner) randomTypes(t *testing.T) {
	problems := TypedProblems(Limits{Jobs: 4, Steps: 1, Sizes: 3, Nodes: 16})
	for seed := range r.TypedExamples {
		if slices.Contains(r.MayMiss, seed) {
			continue
		}
		t.Run(strconv.Itoa(seed), func(t *testing.T) { r.checkTyped(t, problems.Example(seed)) })
	}
}

// checkTyped solves a problem with greedy's plan as the incumbent and compares the result with
// exhaustive search.
func (r *runner) checkTyped(t *testing.T, p *problem.Problem) {
	t.Helper()
	start, err := greedy.New().Solve(t.Context(), p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	options := r.options()
	options.Incumbent = start.Plan
	result, err := r.backend.Solve(t.Context(), p, options)
	if errors.Is(err, solver.ErrUnsuited) {
		t.Skip(err)
	}
	best := Solve(t, p).Best
	got := r.complete(t, p, result, err)
	r.checkOptimal(t, p, got, best.Objective)
	if !r.Proves {
		return
	}
	if len(result.NodePrices) != len(p.Rows) {
		t.Errorf("prices %v of %d rows", result.NodePrices, len(p.Rows))
	}
	// A difference of more than rounding decides before ties do.
	same := got-p.Objective(best.Plan) <= 0x1p-53*math.Abs(got)
	if tie := typeTies(p, result.Plan); same && slices.Compare(tie, []int{best.Changed, best.Moves, best.Nodes, best.Types}) > 0 {
		t.Errorf("%v changes, moves, nodes, types; want %v %v %v %v", tie, best.Changed, best.Moves, best.Nodes, best.Types)
	}
}

// typeTies returns the numbers by which plans with the same objective are ordered.
func typeTies(p *problem.Problem, plan problem.Plan) []int {
	tie := make([]int, 4)
	for i := range plan {
		option, current := plan[i][0], p.Jobs[i].Current
		if option != current {
			tie[0]++
			if option.MovesFrom(current) {
				tie[1]++
			}
		}
		tie[2] += int(option.Nodes)
		tie[3] += int(option.Type)
	}
	return tie
}
