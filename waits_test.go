package elastalloc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// sized returns a job with one size that occupies the given number of nodes.
func sized(id string, size, current int) solver.Job {
	return solver.Job{ID: id, RemainingETA: time.Hour, AllowedNodes: []int{size}, CurrentNodes: current}
}

// TestWaitReasons checks small queues in which the reason is obvious.
func TestWaitReasons(t *testing.T) {
	light := sized("light", 4, 0)
	light.Weight = new(0.001)
	for _, test := range []struct {
		name    string
		nodes   int
		jobs    []solver.Job
		options solver.Options
		// want are the reasons by job, followed by the job that it is behind. warnings are codes and jobs.
		want, warnings []string
	}{
		{
			name: "a job that never fits blocks no other", nodes: 8,
			jobs:     []solver.Job{sized("big", 16, 0), sized("s1", 4, 0), sized("s2", 4, 0)},
			want:     []string{"never-fits", "", ""},
			warnings: []string{"never-fits big"},
		},
		{
			name: "jobs behind a job without room", nodes: 8,
			jobs:     []solver.Job{sized("runs", 4, 4), sized("big", 8, 0), sized("s1", 4, 0), sized("huge", 9, 0), sized("s2", 2, 0)},
			want:     []string{"", "no-room", "behind big", "never-fits", "behind big"},
			warnings: []string{"never-fits huge", "idle-with-queue big"},
		},
		{
			name: "a pool that shrank", nodes: 4,
			jobs:     []solver.Job{sized("queued", 1, 0), sized("stays", 4, 4), sized("goes", 2, 2), sized("goes too", 1, 1)},
			want:     []string{"behind goes", "", "no-room", "no-room"},
			warnings: []string{"many-pauses "},
		},
		{
			name: "the optimizer decides", nodes: 8,
			jobs:    []solver.Job{sized("runs", 8, 8), light},
			options: solver.Options{Admission: solver.AdmissionPreemptive},
			want:    []string{"", "not-worth-it"},
		},
		{
			name: "running jobs leave no room", nodes: 8,
			jobs:     []solver.Job{sized("runs", 6, 6), sized("queued", 4, 0)},
			options:  solver.Options{Admission: solver.AdmissionOptimized},
			want:     []string{"", "no-room"},
			warnings: []string{"idle-with-queue queued"},
		},
		{
			name: "greedy keeps the order of the queue", nodes: 8,
			jobs:     []solver.Job{sized("runs", 6, 6), sized("front", 4, 0), sized("next", 2, 0)},
			options:  solver.Options{Admission: solver.AdmissionOptimized, Backend: solver.BackendGreedy},
			want:     []string{"", "no-room", "behind front"},
			warnings: []string{"idle-with-queue front"},
		},
		{
			name: "no pool", jobs: []solver.Job{sized("runs", 6, 6), sized("queued", 4, 0)},
			want:     []string{"never-fits", "never-fits"},
			warnings: []string{"empty-pool ", "many-pauses "},
		},
		{name: "no pool for no jobs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Objective = solver.ObjectiveProgress // Its default admission keeps the order of the queue.
			s := &solver.Snapshot{TotalNodes: test.nodes, Jobs: test.jobs}
			d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, test.options)
			if err != nil {
				t.Fatal(err)
			}
			var reasons, warnings []string
			for _, a := range d.Allocations {
				reasons = append(reasons, strings.TrimSpace(string(a.WaitReason)+" "+a.BehindJobID))
			}
			for _, w := range d.Report.Warnings {
				warnings = append(warnings, string(w.Code)+" "+w.JobID)
			}
			if diff := cmp.Diff(test.want, reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// randomOptions returns random options.
func randomOptions(t *rapid.T) solver.Options {
	return solver.Options{
		Objective: rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(t, "objective"),
		Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		Backend:   rapid.SampledFrom([]solver.BackendName{solver.BackendExact, solver.BackendGreedy}).Draw(t, "backend"),
	}
}

// isExplained reports whether an allocation has a reason to wait if and only if it has no nodes, and names the job that it is
// behind if and only if that is the reason.
func isExplained(a solver.Allocation) bool {
	return (a.Nodes == 0) == (a.WaitReason != "") && (a.WaitReason == solver.WaitBehind) == (a.BehindJobID != "")
}

// checkWaitReason checks that a job whose smallest size is given has a reason if and only if it has no nodes, and that the
// reason is possible in the pool and under the admission.
func checkWaitReason(t *rapid.T, a solver.Allocation, smallest, pool int, admission solver.Admission) {
	t.Helper()
	if !isExplained(a) {
		t.Fatalf("allocation %+v", a)
	}
	if a.Nodes == 0 && (a.WaitReason == solver.WaitNeverFits) != (smallest > pool) {
		t.Fatalf("job of at least %d nodes, pool of %d: %s", smallest, pool, a.WaitReason)
	}
	if a.WaitReason == solver.WaitNotWorthIt && admission == solver.AdmissionFIFO {
		t.Fatalf("the reason is not possible under FIFO: %+v", a)
	}
}

// TestWaitReasonProperties checks that a job has a reason if and only if it has no nodes, and that the
// reason is correct.
func TestWaitReasonProperties(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		s := solvertest.Snapshots().Draw(rt, "snapshot")
		o := randomOptions(rt)
		d, err := allocator.Allocate(t.Context(), s, o)
		if rapid.Bool().Draw(rt, "fill idle") {
			o.Admission = solver.AdmissionFIFO
			d, err = allocator.FillIdle(t.Context(), s)
		}
		if err != nil {
			rt.Fatal(err)
		}
		reasons := make(map[string]solver.WaitReason)
		waiting := 0
		for i, a := range d.Allocations {
			reasons[a.JobID] = a.WaitReason
			smallest := s.Jobs[i].LegalSizes()[0]
			checkWaitReason(rt, a, smallest, s.TotalNodes, o.Admission)
			if a.Nodes == 0 && smallest <= s.TotalNodes {
				waiting++
			}
		}
		for _, a := range d.Allocations {
			if a.BehindJobID != "" && reasons[a.BehindJobID] != solver.WaitNoRoom {
				rt.Fatalf("%+v is behind a job that is %q", a, reasons[a.BehindJobID])
			}
		}
		warned := func(code solver.WarningCode) bool {
			return slices.ContainsFunc(d.Report.Warnings, func(w solver.Warning) bool { return w.Code == code && w.Message != "" })
		}
		if got, want := warned(solver.WarningIdleWithQueue), waiting > 0 && d.Report.IdleNodes > 0; got != want {
			rt.Fatalf("%d jobs wait and %d nodes are idle: %+v", waiting, d.Report.IdleNodes, d.Report.Warnings)
		}
		if got, want := warned(solver.WarningEmptyPool), s.TotalNodes == 0 && len(s.Jobs) > 0; got != want {
			rt.Fatalf("%d jobs in a pool of %d: %+v", len(s.Jobs), s.TotalNodes, d.Report.Warnings)
		}
	})
}

// addInvalid inserts jobs without an estimate into a snapshot and adds the nodes that they occupy to the pool. It returns the
// nodes of these jobs by position.
func addInvalid(t *rapid.T, s *solver.Snapshot) (mixed *solver.Snapshot, frozen map[int]int) {
	mixed = &solver.Snapshot{ID: s.ID, TotalNodes: s.TotalNodes, Horizon: s.Horizon}
	frozen = make(map[int]int)
	rest := slices.Clone(s.Jobs)
	for n := rapid.IntRange(1, 3).Draw(t, "bad jobs"); n > 0 || len(rest) > 0; {
		if n == 0 || len(rest) > 0 && !rapid.Bool().Draw(t, "bad next") {
			mixed.Jobs, rest = append(mixed.Jobs, rest[0]), rest[1:]
			continue
		}
		bad := solver.Job{ID: fmt.Sprint("bad", n), CurrentNodes: rapid.IntRange(0, 3).Draw(t, "current nodes")}
		frozen[len(mixed.Jobs)] = bad.CurrentNodes
		mixed.TotalNodes += bad.CurrentNodes
		mixed.Jobs = append(mixed.Jobs, bad)
		n--
	}
	if s.TotalNodes == 0 {
		mixed.TotalNodes = 0 // Invalid jobs may occupy more nodes than the pool has.
	}
	return mixed, frozen
}

// ignoreRoom removes from two decisions, of a snapshot alone and with frozen jobs, what depends on the nodes of these jobs. A job
// that does not fit only because of them waits for room, and there is no warning. The threshold of WarningManyPauses depends on
// the number of running jobs. WarningETARanOut and WarningLongWait depend on whether the job fits.
func ignoreRoom(s *solver.Snapshot, alone, mixed *solver.Decision, mixedNodes int) {
	depends := func(w solver.Warning) bool {
		return slices.Contains([]solver.WarningCode{solver.WarningManyPauses, solver.WarningETARanOut, solver.WarningLongWait}, w.Code)
	}
	fits := func(job solver.Job) bool { return job.LegalSizes()[0] <= mixedNodes }
	mixed.Report.Warnings = slices.DeleteFunc(mixed.Report.Warnings, depends)
	alone.Report.Warnings = slices.DeleteFunc(alone.Report.Warnings, func(w solver.Warning) bool {
		i := slices.IndexFunc(s.Jobs, func(j solver.Job) bool { return j.ID == w.JobID })
		return depends(w) || w.Code == solver.WarningNeverFits && fits(s.Jobs[i])
	})
	for i := range alone.Allocations {
		if a := &alone.Allocations[i]; a.WaitReason == solver.WaitNeverFits && fits(s.Jobs[i]) {
			a.WaitReason = solver.WaitNoRoom
		}
	}
}

// TestHold checks that, with BadJobsHold, valid jobs get what they would get in the rest of the pool
// without the invalid jobs.
func TestHold(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		s := solvertest.Snapshots().Draw(rt, "snapshot")
		o := randomOptions(rt)
		mixed, frozen := addInvalid(rt, s)
		if _, err := allocator.Allocate(t.Context(), mixed, o); err == nil {
			rt.Fatal("a bad job was accepted")
		}
		want, err := allocator.Allocate(t.Context(), s, o)
		if err != nil {
			rt.Fatal(err)
		}
		o.BadJobs = solver.BadJobsHold
		got, err := allocator.Allocate(t.Context(), mixed, o)
		if err != nil {
			rt.Fatal(err)
		}
		ignoreRoom(s, &want, &got, mixed.TotalNodes)
		var good []solver.Allocation
		for i, a := range got.Allocations {
			nodes, bad := frozen[i]
			if !bad {
				good = append(good, a)
			} else if a.JobID != mixed.Jobs[i].ID || a.Nodes != nodes || a.Current != nodes || a.WaitReason != "" {
				rt.Fatalf("a job that is frozen on %d nodes: %+v", nodes, a)
			}
		}
		if diff := cmp.Diff(want.Allocations, good, cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("valid jobs (-alone +with frozen jobs):\n%s", diff)
		}
		warnings := got.Report.Warnings[len(want.Report.Warnings):]
		if len(warnings) != len(frozen) {
			rt.Fatalf("%d jobs are frozen; warnings %+v", len(frozen), warnings)
		}
		for _, w := range warnings {
			if w.Code != solver.WarningBadJobHeld || !strings.Contains(w.Message, "].remaining_eta: is 0s; must be greater than 0") {
				rt.Fatalf("warning %+v", w)
			}
		}
		if got.Report.Objective != want.Report.Objective || got.Report.IdleNodes != want.Report.IdleNodes {
			rt.Fatalf("report %+v; want %+v", got.Report, want.Report)
		}
	})
}

// TestHoldViolations checks that invalid fields outside of jobs are rejected.
func TestHoldViolations(t *testing.T) {
	s := twoJobs()
	s.TotalNodes, s.Jobs[0].RemainingETA = -1, 0
	_, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, solver.Options{BadJobs: solver.BadJobsHold})
	if err == nil || !strings.Contains(err.Error(), "snapshot.total_nodes: is -1") {
		t.Errorf("error %v; want one of total_nodes", err)
	}
}

// TestHoldWholePool checks warnings and reasons if frozen jobs occupy the whole pool.
func TestHoldWholePool(t *testing.T) {
	s := &solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{
		{ID: "bad", CurrentNodes: 5}, sized("good", 4, 0), sized("large", 8, 0),
	}}
	d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, solver.Options{BadJobs: solver.BadJobsHold})
	if err != nil {
		t.Fatal(err)
	}
	if good, large := d.Allocations[1].WaitReason, d.Allocations[2].WaitReason; good != solver.WaitNoRoom || large != solver.WaitNeverFits {
		t.Errorf("the jobs wait for %q and %q; want %q and %q", good, large, solver.WaitNoRoom, solver.WaitNeverFits)
	}
	if w := d.Report.Warnings; len(w) != 1 || w[0].Code != solver.WarningBadJobHeld || d.Report.IdleNodes != 0 {
		t.Errorf("warnings %+v, %d idle nodes; want one warning and none", w, d.Report.IdleNodes)
	}
}
