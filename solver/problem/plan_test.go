package problem_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// example is small enough to be worked out by hand with the paper's equations:
// steps of 300 s, so that 1, 2 and 4 nodes serve 300, 480 and 768 a step.
func example() *problem.Problem {
	s := solvertest.NewJobs(2)
	s.TotalNodes = 5
	s.Horizon = solver.Horizon{Step: 300 * time.Second, Steps: 3}
	s.Jobs[0].RemainingETA = 900 * time.Second
	s.Jobs[1].RemainingETA = 4800 * time.Second
	s.Jobs[1].Weight = new(2.0)
	s.Jobs[0].MaxNodes, s.Jobs[1].MaxNodes = 4, 4
	return problem.NewProblem(s, solver.AdmissionFIFO)
}

func TestObjectiveAndProgress(t *testing.T) {
	p := example()
	tests := []struct {
		name      string
		plan      problem.Plan
		progress  [2][]float64
		objective float64
	}{
		{
			// Job 1: 768, then 768 + 300 stops at 900. Job 2: 300, 780, 1548.
			name: "a plan that grows and shrinks",
			plan: problem.Plan{solver.Nodes(4, 1, 1), solver.Nodes(1, 2, 4)},
			progress: [2][]float64{
				{768.0 / 900, 1, 1},
				{300.0 / 4800, 780.0 / 4800, 1548.0 / 4800},
			},
			objective: 768.0/900 + 1 + 1 + 2*(300.0+780+1548)/4800,
		},
		{
			// Job 1: 300, 600, 900: it finishes just when the horizon ends.
			name: "one node each",
			plan: problem.Plan{solver.Nodes(1, 1, 1), solver.Nodes(1, 1, 1)},
			progress: [2][]float64{
				{1.0 / 3, 2.0 / 3, 1},
				{300.0 / 4800, 600.0 / 4800, 900.0 / 4800},
			},
			objective: 2 + 2*(300.0+600+900)/4800,
		},
		{
			// A step without nodes serves nothing and loses nothing.
			name: "a job that pauses",
			plan: problem.Plan{solver.Nodes(2, 0, 1), solver.Nodes(0, 0, 4)},
			progress: [2][]float64{
				{480.0 / 900, 480.0 / 900, 780.0 / 900},
				{0, 0, 768.0 / 4800},
			},
			objective: (480.0+480+780)/900 + 2*768.0/4800,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i, want := range test.progress {
				if diff := cmp.Diff(want, p.Jobs[i].AppendProgress(nil, test.plan[i]), approx()); diff != "" {
					t.Errorf("progress of job %d (-want +got):\n%s", i, diff)
				}
			}
			if diff := cmp.Diff(test.objective, p.Objective(test.plan), approx()); diff != "" {
				t.Errorf("Objective() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObjectiveIsData values a plan by gains that differ by step and by values of
// sizes, in steps of different capacity.
func TestObjectiveIsData(t *testing.T) {
	p := example()
	p.Capacity = []int{5, 3, 4}
	p.Jobs[0].Gain, p.Jobs[1].Gain = []float64{0, 3, 0}, []float64{1, 0, 0}
	p.Jobs[1].OptionValue = []float64{-7, 2, 5}
	plan := problem.Plan{solver.Nodes(1, 2, 2), solver.Nodes(4, 1, 2)}
	if err := p.Check(plan); err != nil {
		t.Error(err)
	}
	want := 3*780.0/900 + 768.0/4800 + 5
	if diff := cmp.Diff(want, p.Objective(plan), approx()); diff != "" {
		t.Errorf("objective (-want +got):\n%s", diff)
	}
	if err := p.Check(problem.Plan{solver.Nodes(1, 2, 2), solver.Nodes(4, 2, 2)}); err == nil {
		t.Error("Check() allows 4 nodes in step 2, which has 3")
	}
}

func TestCheck(t *testing.T) {
	p := example() // two jobs, three steps, five nodes, sizes 1, 2 and 4
	tests := []struct {
		name string
		plan problem.Plan
		want string // the error, empty if the plan is legal
	}{
		{"legal", problem.Plan{solver.Nodes(4, 1, 2), solver.Nodes(1, 4, 2)}, ""},
		{"no plan", nil, "plan has 0 jobs; the problem has 2"},
		{"a job too few", problem.Plan{solver.Nodes(1, 1, 1)}, "plan has 1 jobs; the problem has 2"},
		{"a job too many", problem.Plan{solver.Nodes(1, 1, 1), solver.Nodes(1, 1, 1), solver.Nodes(1, 1, 1)},
			"plan has 3 jobs; the problem has 2"},
		{"a step too few", problem.Plan{solver.Nodes(1, 1, 1), solver.Nodes(1, 1)}, "plan of job 1 has 2 steps; the horizon has 3"},
		{"a step too many", problem.Plan{solver.Nodes(1, 1, 1, 1), solver.Nodes(1, 1, 1)}, "plan of job 0 has 4 steps; the horizon has 3"},
		{"a job without steps", problem.Plan{nil, solver.Nodes(1, 1, 1)}, "plan of job 0 has 0 steps; the horizon has 3"},
		{"between the sizes", problem.Plan{solver.Nodes(1, 3, 1), solver.Nodes(1, 1, 1)},
			"plan gives job 0 3 nodes in step 2; its legal sizes are [1 2 4]"},
		{"above the sizes", problem.Plan{solver.Nodes(1, 1, 1), solver.Nodes(1, 1, 8)},
			"plan gives job 1 8 nodes in step 3; its legal sizes are [1 2 4]"},
		{"waiting", problem.Plan{solver.Nodes(0, 1, 1), solver.Nodes(1, 1, 1)},
			"plan gives job 0 0 nodes in step 1; its legal sizes are [1 2 4]"},
		{"negative", problem.Plan{solver.Nodes(1, 1, 1), solver.Nodes(-4, 1, 1)},
			"plan gives job 1 -4 nodes in step 1; its legal sizes are [1 2 4]"},
		{"above the pool", problem.Plan{solver.Nodes(1, 1, 4), solver.Nodes(4, 4, 2)}, "plan uses 6 nodes in step 3; the pool has 5"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := p.Check(test.plan); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("Check() = %q; want %q", got, test.want)
			}
		})
	}
	if err := p.WithWaiting().Check(problem.Plan{solver.Nodes(0, 1, 1), solver.Nodes(1, 1, 1)}); err != nil {
		t.Errorf("the relaxation refuses a job that waits: %v", err)
	}
}

func TestReleaseFinished(t *testing.T) {
	tests := []struct {
		name       string
		problem    *problem.Problem
		plan, want problem.Plan
	}{
		{
			name: "to the smallest legal size", problem: example(),
			plan: problem.Plan{solver.Nodes(4, 2, 2), solver.Nodes(1, 2, 2)},
			want: problem.Plan{solver.Nodes(4, 2, 1), solver.Nodes(1, 2, 2)},
		},
		{
			name: "to 0 where that is a size", problem: example().WithWaiting(),
			plan: problem.Plan{solver.Nodes(4, 1, 1), solver.Nodes(1, 2, 2)},
			want: problem.Plan{solver.Nodes(4, 1, 0), solver.Nodes(1, 2, 2)},
		},
		{
			name: "not before it has finished", problem: example(),
			plan: problem.Plan{solver.Nodes(1, 1, 2), solver.Nodes(1, 2, 2)},
			want: problem.Plan{solver.Nodes(1, 1, 2), solver.Nodes(1, 2, 2)},
		},
		{
			name: "a job that waits all along", problem: example(),
			plan: problem.Plan{solver.Nodes(0, 0, 0), solver.Nodes(4, 4, 4)},
			want: problem.Plan{solver.Nodes(0, 0, 0), solver.Nodes(4, 4, 4)},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.problem.ReleaseFinished(test.plan)
			if diff := cmp.Diff(test.want, test.plan); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// drawPlan returns a random plan of legal sizes, which may exceed the pool.
func drawPlan(t *rapid.T, p *problem.Problem) problem.Plan {
	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for n := range plan {
		for step := range plan[n] {
			plan[n][step] = rapid.SampledFrom(p.Jobs[n].Options).Draw(t, "nodes")
		}
	}
	return plan
}

func drawProblem(t *rapid.T) (*solver.Snapshot, *problem.Problem) {
	s := solvertest.Snapshots().Draw(t, "snapshot")
	admission := rapid.SampledFrom([]solver.Admission{
		solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive,
	}).Draw(t, "admission")
	return s, problem.NewProblem(s, admission)
}

func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p := drawProblem(t)
		plan := drawPlan(t, p)
		objective, total := p.Objective(plan), 0.0
		for n := range p.Jobs {
			before := 0.0
			for step, share := range p.Jobs[n].AppendProgress(nil, plan[n]) {
				if share < before || share > 1 {
					t.Fatalf("progress of job %d is %v in step %d after %v", n, share, step, before)
				}
				before = share
				total += p.Jobs[n].Gain[step] * share
			}
		}
		if diff := cmp.Diff(total, objective, approx()); diff != "" {
			t.Fatalf("the objective is not the weighted progress:\n%s", diff)
		}

		legal := p.Check(plan) == nil
		released := plan.Clone()
		p.ReleaseFinished(released)
		if legal && p.Check(released) != nil {
			t.Fatalf("releasing made the plan illegal: %v -> %v", plan, released)
		}
		if got := p.Objective(released); got != objective {
			t.Fatalf("releasing changed the objective from %v to %v", objective, got)
		}
		again := released.Clone()
		p.ReleaseFinished(again)
		if diff := cmp.Diff(released, again); diff != "" {
			t.Fatalf("releasing twice (-once +twice):\n%s", diff)
		}
		for n := range plan {
			if plan[n][0] != released[n][0] {
				t.Fatalf("releasing changed the first step: %v -> %v", plan, released)
			}
		}
	})
}

func TestClone(t *testing.T) {
	plan := problem.Plan{solver.Nodes(1, 2), solver.Nodes(4, 8)}
	copied := plan.Clone()
	if diff := cmp.Diff(plan, copied); diff != "" {
		t.Errorf("Clone() (-want +got):\n%s", diff)
	}
	copied[1][0].Nodes = 99
	_ = append(copied[0], copied[1][0]) // The rows share memory, but no row runs into the next.
	if plan[1][0].Nodes != 4 || copied[1][0].Nodes != 99 {
		t.Errorf("plan %v and its copy %v share memory", plan, copied)
	}
	if empty := (problem.Plan{}).Clone(); len(empty) != 0 {
		t.Errorf("Clone() of an empty plan = %v", empty)
	}
}

// TestCheckRows: nodes of one type are not those of another, and a size limit counts pieces of its size.
func TestCheckRows(t *testing.T) {
	on := func(nodeType, nodes int) []solver.Option { return []solver.Option{solver.NewOption(nodeType, nodes)} }
	sizes := []solver.Option{{}, {Nodes: 2}, {Type: 1, Nodes: 2}}
	p := &problem.Problem{
		Capacity: []int{5}, Rows: solver.Rows{{Size: 1, Nodes: 2, Limit: -1}, {Type: 1, Size: 1, Nodes: 3, Limit: -1}},
		Steps: 1, Jobs: []problem.AdmittedJob{{Options: sizes}, {Options: sizes}},
	}
	if err := p.Check(problem.Plan{on(0, 2), on(1, 2)}); err != nil {
		t.Error(err)
	}
	want := "plan uses 4 nodes of type 1 in pieces of at least 1; at most 3 may be used"
	if err := p.Check(problem.Plan{on(1, 2), on(1, 2)}); err == nil || err.Error() != want {
		t.Errorf("Check() = %v; want %q", err, want)
	}
	p.Rows = append(p.Rows, solver.Row{Type: 1, Size: 2, Nodes: 1})
	want = "plan uses 2 nodes of type 1 in pieces of at least 2; at most 1 may be used"
	if err := p.Check(problem.Plan{on(0, 2), on(1, 2)}); err == nil || err.Error() != want {
		t.Errorf("Check() = %v; want %q", err, want)
	}
	p.Jobs[1].PieceNodes = 1
	if err := p.Check(problem.Plan{on(0, 2), on(1, 2)}); err != nil {
		t.Error(err)
	}
}
