package elastalloc_test

import (
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// restarted returns a running job on the given nodes whose three restarts took place within the time with
// nodes, newest first.
func restarted(id string, nodes int, restart time.Duration, since ...time.Duration) solver.Job {
	return solver.Job{
		ID: id, RemainingETA: 10 * time.Hour, MinNodes: 4, MaxNodes: 8, CurrentNodes: nodes,
		TrainingTime: 10 * time.Hour, RestartTime: restart, RecentRestarts: since,
	}
}

// TestRestartBudgetLimits checks at its limits when a job has used its restart budget: with three restarts, the
// oldest of them less than 12 restart times of time with nodes ago. It then keeps its 4 nodes although
// 4 are idle.
func TestRestartBudgetLimits(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	const r = 10 * time.Minute
	illegal := restarted("a", 5, r, 0, 0, 0)
	illegal.AllowedNodes = []int{4, 8}
	for name, test := range map[string]struct {
		job  solver.Job
		want int
	}{
		"within 12 restart times":     {restarted("a", 4, r, 0, r, 12*r-1), 4},
		"not within 12 restart times": {restarted("a", 4, r, 0, r, 12*r), 8},
		"two restarts":                {restarted("a", 4, r, 0, 0), 8},
		"restarts cost nothing":       {restarted("a", 4, 0, 0, 0, 0), 8},
		"a size that is not legal":    {illegal, 8},
	} {
		for _, objective := range []solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime} {
			for _, admission := range solver.Admissions() {
				s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{test.job}}
				d, err := a.Allocate(t.Context(), s, solver.Options{
					Objective: objective, Admission: admission, TotalTime: solver.TotalTimeOptions{Payback: new(24 * time.Hour)},
				})
				if err != nil {
					t.Fatal(err)
				}
				want := test.want
				if objective == solver.ObjectiveProgress && test.job.RestartTime > 0 && want == 8 {
					want = d.Allocations[0].Nodes // The horizon of 25 min may not pay for the restart.
				}
				if got := d.Allocations[0].Nodes; got != want {
					t.Errorf("%s, %s, %s: %d nodes; want %d", name, objective, admission, got, want)
				}
			}
		}
	}
}

// TestRestartBudgetReasons checks the reasons for a job that has used its restart budget and for a new job
// that only this job keeps waiting.
func TestRestartBudgetReasons(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
		restarted("spent", 6, 10*time.Minute, 0, 0, time.Hour),
		{ID: "new", RemainingETA: time.Minute, MinNodes: 5},
	}}
	s.Jobs[0].AllowedNodes = []int{4, 6, 8}
	for admission, want := range map[solver.Admission]solver.Why{
		solver.AdmissionStartFirst: solver.Why(solver.WaitRestartBudget), solver.AdmissionPreemptive: solver.Why(solver.WaitRestartBudget),
		solver.AdmissionFIFO: solver.Why(solver.WaitNoRoom),
	} {
		e, err := a.Explain(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const keeps = "spent keeps its 6 nodes: it has restarted 3 times lately and is not resized until it has had nodes for another 60 min"
		if got := e.Jobs[0]; got.Why != solver.WhyRestartBudget || got.Text[:len(keeps)] != keeps {
			t.Errorf("%s: the running job has the reason %s, %q", admission, got.Why, got.Text)
		}
		if got := e.Jobs[1]; got.Why != want {
			t.Errorf("%s: the new job waits because of %s, %q; want %s", admission, got.Why, got.Text, want)
		}
	}
}

// TestRestartBudgetOfRigidJob checks that a job with one size has the reason only if it would move to a faster node type, or
// a new job waits until it may be paused. If the pool or the job allows no more, that is the reason.
func TestRestartBudgetOfRigidJob(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	rigid := restarted("spent", 4, time.Minute, 0, 0, 0)
	rigid.MaxNodes = 4
	elastic := rigid
	elastic.MaxNodes = 16
	typed := rigid
	typed.CurrentNodeType = "a"
	newcomer := func(nodeType string) solver.Job {
		job := solver.Job{ID: "new", RemainingETA: time.Minute, MinNodes: 2, MaxNodes: 2}
		if nodeType != "" {
			job.Speeds = []solver.TypeSpeed{{NodeType: nodeType}}
		}
		return job
	}
	types := func(speed float64) []solver.NodeType {
		return []solver.NodeType{{ID: "a", Nodes: 5}, {ID: "b", Nodes: 4, Speed: speed}}
	}
	other := typed
	other.ID, other.CurrentNodeType = "other", "b"
	slower, newOnA, newOnB := types(0.5), newcomer("a"), newcomer("b")
	for name, test := range map[string]struct {
		snapshot solver.Snapshot
		want     solver.Why
	}{
		"alone":                           {solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{rigid}}, solver.WhyOnlySize},
		"a new job on idle nodes":         {solver.Snapshot{TotalNodes: 6, Jobs: []solver.Job{rigid, newcomer("")}}, solver.WhyOnlySize},
		"a new job waits for it":          {solver.Snapshot{TotalNodes: 5, Jobs: []solver.Job{rigid, newcomer("")}}, solver.WhyRestartBudget},
		"no room for more":                {solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{elastic, newcomer("")}}, solver.WhyNoRoom},
		"more nodes than the pool":        {solver.Snapshot{TotalNodes: 6, Jobs: []solver.Job{elastic}}, solver.WhyLargest},
		"a faster type":                   {solver.Snapshot{NodeTypes: types(8), Jobs: []solver.Job{typed}}, solver.WhyRestartBudget},
		"a slower type":                   {solver.Snapshot{NodeTypes: slower, Jobs: []solver.Job{typed}}, solver.WhyLargest},
		"a new job waits on its type":     {solver.Snapshot{NodeTypes: slower, Jobs: []solver.Job{typed, newOnA}}, solver.WhyRestartBudget},
		"a new job waits on another type": {solver.Snapshot{NodeTypes: slower, Jobs: []solver.Job{typed, newOnB, other}}, solver.WhyLargest},
	} {
		e, err := a.Explain(t.Context(), &test.snapshot, solver.Options{}, []string{"spent"})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Jobs[0]; got.Why != test.want || got.Nodes != 4 {
			t.Errorf("%s: the job has %d nodes because %s, %q; want %s", name, got.Nodes, got.Why, got.Text, test.want)
		}
	}
}

// TestShrunkPoolKeepsPrecious checks that a pool that loses a node pauses a job of low weight that is nearly
// complete, not a job of high weight: the cost of a decrease does not depend on the time that is left.
func TestShrunkPoolKeepsPrecious(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	for _, weight := range []float64{150, 1000, 1e5} {
		for _, left := range []time.Duration{2 * time.Second, 5 * time.Second, 40 * time.Second} {
			s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
				{ID: "prod", RemainingETA: 10 * time.Hour, MaxNodes: 1, CurrentNodes: 1,
					Weight: &weight, TrainingTime: time.Hour, RestartTime: 2 * time.Minute},
				{ID: "dev", RemainingETA: left, MinNodes: 8, MaxNodes: 8, ETANodes: 8,
					CurrentNodes: 8, TrainingTime: time.Hour, RestartTime: 2 * time.Minute},
			}}
			for _, admission := range []solver.Admission{solver.AdmissionStartFirst, solver.AdmissionPreemptive} {
				d, err := a.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission})
				if err != nil || d.Allocations[0].Nodes != 1 || d.Allocations[1].Nodes != 0 {
					t.Errorf("%s, weight %g, %v left: %+v, %v", admission, weight, left, d.Allocations, err)
				}
			}
		}
	}
}

// TestRestartBudgetOfMovableJob has a node type that is too small for the smallest sizes of its jobs. The job that has used its
// restart budget may move to the other type, but does not grow on its own type in exchange for another job.
func TestRestartBudgetOfMovableJob(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	spent := restarted("spent", 2, time.Minute, 0, 0, 0)
	spent.RemainingETA = 1000 * time.Hour
	spent.MinNodes, spent.MaxNodes, spent.CurrentNodeType = 2, 4, "a"
	spent.Speeds = []solver.TypeSpeed{{NodeType: "a", Factor: 10}, {NodeType: "b", Factor: 1}}
	s := &solver.Snapshot{NodeTypes: []solver.NodeType{{ID: "a", Nodes: 5}, {ID: "b", Nodes: 4}}, Jobs: []solver.Job{
		{ID: "rigid", RemainingETA: 10 * time.Hour, MinNodes: 4, MaxNodes: 4, CurrentNodes: 4, CurrentNodeType: "a", TrainingTime: time.Hour},
		spent,
	}}
	for _, admission := range []solver.Admission{solver.AdmissionFIFO, solver.AdmissionOptimized} {
		d, err := a.Allocate(t.Context(), s, solver.Options{
			Objective: solver.ObjectiveTotalTime, Admission: admission, TotalTime: solver.TotalTimeOptions{Payback: new(24 * time.Hour)},
		})
		if err != nil || d.Allocations[1].NodeType == "a" && d.Allocations[1].Nodes > 2 || d.Allocations[1].Nodes == 0 {
			t.Errorf("%s: %+v, %v", admission, d.Allocations, err)
		}
	}
}
