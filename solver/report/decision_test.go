package report_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// jobsOn returns a snapshot of jobs with the given current nodes and minimums.
func jobsOn(nodes int, current, minimums []int) *solver.Snapshot {
	s := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	for i := range current {
		job := solver.NewJob(fmt.Sprintf("job-%d", i), time.Hour)
		job.CurrentNodes, job.MinNodes = current[i], minimums[i]
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

func TestChangeOf(t *testing.T) {
	tests := []struct {
		current, nodes int
		want           solver.Change
	}{
		{0, 0, solver.ChangeWait},
		{0, 1, solver.ChangeStart},
		{4, 0, solver.ChangePreempt},
		{4, 8, solver.ChangeScaleUp},
		{4, 2, solver.ChangeScaleDown},
		{4, 4, solver.ChangeKeep},
	}
	for _, test := range tests {
		if got := solver.ChangeOf(test.current, test.nodes); got != test.want {
			t.Errorf("ChangeOf(%d, %d) = %s; want %s", test.current, test.nodes, got, test.want)
		}
	}
}

func TestDecide(t *testing.T) {
	s := jobsOn(7, []int{0, 2, 0, 1}, []int{1, 1, 8, 1})
	s.Horizon = solver.Horizon{Step: 900 * time.Second, Steps: 2}
	p := problem.NewProblem(s, solver.AdmissionFIFO) // without job 2
	got := report.Decide(s, p, problem.Result{Plan: problem.Plan{solver.Nodes(1, 2), solver.Nodes(4, 4), solver.Nodes(1, 1)}})
	want := solver.Decision{
		Allocations: []solver.Allocation{
			{JobID: "job-0", Current: 0, Nodes: 1, Change: solver.ChangeStart,
				PlannedNodes: []int{1, 2}, PlannedProgress: []float64{0.25, 0.65}},
			{JobID: "job-1", Current: 2, Nodes: 4, Change: solver.ChangeScaleUp,
				PlannedNodes: []int{4, 4}, PlannedProgress: []float64{0.64, 1}},
			{JobID: "job-2", Current: 0, Nodes: 0, Change: solver.ChangeWait, WaitReason: solver.WaitNeverFits,
				PlannedNodes: []int{0, 0}, PlannedProgress: []float64{0, 0}},
			{JobID: "job-3", Current: 1, Nodes: 1, Change: solver.ChangeKeep,
				PlannedNodes: []int{1, 1}, PlannedProgress: []float64{0.25, 0.5}},
		},
		Report: solver.Report{IdleNodes: 1, Warnings: []solver.Warning{
			{Code: solver.WarningNeverFits, JobID: "job-2", Message: `job "job-2" needs at least 8 nodes; the pool has 7`},
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 1e-12)); diff != "" {
		t.Errorf("Decide() (-want +got):\n%s", diff)
	}
}

func TestDecidePreemptsARunningJobThatWasNotAdmitted(t *testing.T) {
	s := jobsOn(1, []int{1, 2}, []int{1, 1})
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	d := report.Decide(s, p, problem.Result{Plan: problem.Plan{solver.Nodes(1, 1, 1, 1, 1)}})
	if a := d.Allocations[1]; a.Change != solver.ChangePreempt || a.Nodes != 0 || a.Current != 2 {
		t.Errorf("allocation %+v; want the job preempted", a)
	}
}

func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		p := problem.NewProblem(s, rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"))
		plan := problem.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for step := range plan[i] {
				plan[i][step] = rapid.SampledFrom(p.Jobs[i].Options).Draw(t, "option")
			}
		}
		d := report.Decide(s, p, problem.Result{Plan: plan})
		if len(d.Allocations) != len(s.Jobs) {
			t.Fatalf("%d allocations for %d jobs", len(d.Allocations), len(s.Jobs))
		}
		used := 0
		for i, a := range d.Allocations {
			used += a.Nodes
			if a.JobID != s.Jobs[i].ID || a.Current != s.Jobs[i].CurrentNodes {
				t.Fatalf("allocation %d is for %q on %d nodes", i, a.JobID, a.Current)
			}
			if len(a.PlannedNodes) != p.Steps || len(a.PlannedProgress) != p.Steps || a.PlannedNodes[0] != a.Nodes {
				t.Fatalf("allocation %d: %+v", i, a)
			}
		}
		if d.Report.IdleNodes != s.TotalNodes-used {
			t.Fatalf("%d idle nodes of %d with %d in use", d.Report.IdleNodes, s.TotalNodes, used)
		}
		checkSteps(t, s, &d)
	})
}

// checkSteps executes a decision. All jobs together must never occupy more nodes than before or after it, and in the
// end each job must have the nodes of the decision.
func checkSteps(t *rapid.T, s *solver.Snapshot, d *solver.Decision) {
	held, total := make(map[string]int), 0
	for _, job := range s.Jobs {
		held[job.ID] = job.CurrentNodes
		total += job.CurrentNodes
	}
	most := max(total, s.TotalNodes-d.Report.IdleNodes)
	for _, step := range d.Steps() {
		total += step.Nodes - held[step.JobID]
		if held[step.JobID] == step.Nodes || total > most {
			t.Fatalf("the step %+v from %d nodes leaves %d in use of %d", step, held[step.JobID], total, most)
		}
		held[step.JobID] = step.Nodes
	}
	for _, a := range d.Allocations {
		if held[a.JobID] != a.Nodes {
			t.Fatalf("%q has %d nodes after all steps; want %d", a.JobID, held[a.JobID], a.Nodes)
		}
	}
}
