package explain_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// TestReasons checks the reason of every kind of job, and the sentence about it.
func TestReasons(t *testing.T) {
	t.Parallel()
	job := func(id string, eta time.Duration, current, least, most int) solver.Job {
		return solver.Job{ID: id, RemainingETA: eta, CurrentNodes: current, MinNodes: least, MaxNodes: most}
	}
	ofTeam := func(job solver.Job) solver.Job {
		job.GroupID = "team"
		return job
	}
	costly := job("costly", 2*time.Hour, 4, 1, 8)
	costly.RestartTime, costly.TrainingTime = 20*time.Minute, time.Hour
	lowly := job("lowly", 100*time.Hour, 0, 4, 4)
	lowly.Weight = new(0.001)
	bad := job("bad", time.Hour, 2, 1, 2)
	bad.Weight = new(-1.0)
	unsure := job("unsure", 100*time.Hour, 0, 1, 4)
	unsure.ETAError = new(2 * math.Ln2)
	totalTime := solver.Options{Objective: solver.ObjectiveTotalTime}
	progress := solver.Options{Objective: solver.ObjectiveProgress}
	preemptive := solver.Options{Objective: solver.ObjectiveProgress, Admission: solver.AdmissionPreemptive}
	type reason struct {
		Why  solver.Why
		Text string // how the sentence begins
	}
	for name, test := range map[string]struct {
		snapshot solver.Snapshot
		options  solver.Options
		want     []reason
	}{
		"largest": {
			snapshot: solver.Snapshot{TotalNodes: 20, Jobs: []solver.Job{job("a", 100*time.Hour, 0, 1, 8)}},
			want:     []reason{{solver.WhyLargest, "a has 8 nodes, its largest size."}},
		},
		"largest that fits a smaller pool": {
			snapshot: solver.Snapshot{TotalNodes: 5, Jobs: []solver.Job{job("a", 100*time.Hour, 8, 1, 8)}},
			options:  totalTime,
			want: []reason{
				{solver.WhyLargest,
					"a has 4 nodes, the largest of its sizes that fits the pool of 5; it would get 8 with a pool of 8 (a larger one may not help)."},
			},
		},
		"ETA errors": {
			snapshot: solver.Snapshot{TotalNodes: 20, Jobs: []solver.Job{unsure, job("a", 100*time.Hour, 0, 1, 8), job("b", time.Hour, 0, 1, 1)}},
			options:  solver.Options{Objective: solver.ObjectiveTotalTime, TotalTime: solver.TotalTimeOptions{ETAError: new(math.Ln2)}},
			want: []reason{
				{solver.WhyLargest, "unsure has 4 nodes, its largest size (its ETA may be wrong by a factor of 4, eta_error 1.39)."},
				{solver.WhyLargest, "a has 8 nodes, its largest size (its ETA may be wrong by a factor of 2, eta_error 0.693)."},
				{solver.WhyOnlySize, "b has 1 node, its only size (its"},
			},
		},
		"ETA errors that the objective does not use": {
			snapshot: solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{unsure}},
			options:  progress,
			want:     []reason{{solver.WhyLargest, "unsure has 4 nodes, its largest size."}},
		},
		"one size, and frozen because of invalid fields": {
			snapshot: solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{job("pinned", time.Hour, 3, 3, 3), bad}},
			options:  solver.Options{BadJobs: solver.BadJobsHold},
			want: []reason{
				{solver.WhyOnlySize, "pinned has 3 nodes, its only size."},
				{solver.WhyKept, "bad keeps its 2 nodes: its fields are invalid."},
			},
		},
		"frozen nodes": {
			snapshot: solver.Snapshot{TotalNodes: 5, Jobs: []solver.Job{job("a", time.Hour, 0, 4, 4), bad, job("large", time.Hour, 0, 8, 8)}},
			options:  solver.Options{BadJobs: solver.BadJobsHold, Admission: solver.AdmissionOptimized},
			want: []reason{
				{solver.WhyNoRoom,
					"a waits: 4 nodes do not fit in addition to the jobs before it; it would get 4 with a pool of 6 (a larger one may not help)"},
				{solver.WhyKept, "bad keeps its 2 nodes: its fields are invalid."},
				{solver.Why(solver.WaitNeverFits),
					"large waits: it needs at least 8 nodes, and the pool has 5; it would get 8 with a pool of 10 (a larger one may not help)"},
			},
		},
		"one type": {
			snapshot: solver.Snapshot{NodeTypes: []solver.NodeType{{ID: "t4", Nodes: 5}}, Jobs: []solver.Job{job("a", 100*time.Hour, 0, 1, 8)}},
			options:  totalTime,
			want: []reason{
				{solver.WhyLargest, "a has 4 t4, the largest of its sizes that fits the pool of 5; it would get 8 t4 with 8 t4 (more may not help)."},
			},
		},
		"enough": {
			snapshot: solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{job("short", time.Minute, 0, 1, 8)}},
			options:  progress,
			want:     []reason{{solver.WhyEnough, "short has 1 node: 1 → 2 would bring no benefit; "}},
		},
		"priced out": {
			snapshot: solver.Snapshot{TotalNodes: 6, Jobs: []solver.Job{job("a", 100*time.Hour, 0, 1, 4), job("b", 100*time.Hour, 0, 1, 4)}},
			options:  totalTime,
			want: []reason{
				{solver.WhyLargest, "a has 4 nodes, its largest size."},
				{solver.WhyPricedOut, "b has 2 nodes: 2 → 4 would save this job "},
			},
		},
		"change cost": {
			snapshot: solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{costly}},
			options:  totalTime,
			want:     []reason{{solver.WhyChangeCost, "costly keeps its 4 nodes: 4 → 8 would save all jobs "}},
		},
		"no room with jobs that keep their nodes": {
			snapshot: solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{job("runs", time.Hour, 6, 6, 6), job("small", 100*time.Hour, 2, 2, 4)}},
			options:  progress,
			want: []reason{
				{solver.WhyOnlySize, "runs has 6 nodes, its only size."},
				{solver.WhyNoRoom, "small has 2 nodes: no larger size fits in addition to the smallest sizes of the other jobs; "},
			},
		},
		"in line": {
			snapshot: solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
				job("runs", time.Hour, 6, 6, 6), job("huge", time.Hour, 0, 9, 9), job("front", time.Hour, 0, 4, 4), job("next", time.Hour, 0, 1, 1),
			}},
			options: progress,
			want: []reason{
				{solver.WhyOnlySize, "runs has 6 nodes, its only size."},
				{solver.Why(solver.WaitNeverFits), "huge waits: it needs at least 9 nodes, and the pool has 8"},
				{solver.WhyNoRoom, "front waits: 4 nodes do not fit in addition to the jobs before it; it would get 2 with min_nodes 2."},
				{solver.Why(solver.WaitBehind), "next waits behind front, which does not fit."},
			},
		},
		"not worth it": {
			snapshot: solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{job("runs", 100*time.Hour, 8, 8, 8), lowly}},
			options:  preemptive,
			want: []reason{
				{solver.WhyOnlySize, "runs has 8 nodes, its only size."},
				{solver.Why(solver.WaitNotWorthIt), "lowly waits: 4 nodes would gain 0.00021% of a job over 25 min for this job but cost other jobs "},
			},
		},
		"limit of a group": {
			snapshot: solver.Snapshot{
				TotalNodes: 20, Groups: []solver.Group{{ID: "team", Limit: new(4)}},
				Jobs: []solver.Job{ofTeam(job("a", 100*time.Hour, 4, 4, 8)), ofTeam(job("waits", time.Hour, 0, 1, 1))},
			},
			options: totalTime,
			want: []reason{
				{solver.WhyGroupLimit, "a has 4 nodes: the limit of its group allows no more nodes."},
				{solver.WhyGroupLimit, "waits waits: the limit of its group leaves less than 1 node."},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explanation, err := newAllocator(t,
				elastalloc.Options{DefaultBudget: elastalloc.NoBudget}).Explain(t.Context(), &test.snapshot, test.options, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, job := range explanation.Jobs {
				if want := test.want[i]; job.Why != want.Why || !strings.HasPrefix(job.Text, want.Text) {
					t.Errorf("%s: %q; want %s: %q", job.Why, job.Text, want.Why, want.Text)
				}
			}
		})
	}
}
