package elastalloc_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
)

// rigidJobs returns jobs of one size each, in the order of a queue.
func rigidJobs(sizes ...int) []solver.Job {
	jobs := make([]solver.Job, len(sizes))
	for n, k := range sizes {
		jobs[n] = solver.NewJob(fmt.Sprint(n), time.Hour)
		jobs[n].AllowedNodes, jobs[n].ETANodes = []int{k}, k
	}
	return jobs
}

// usedNodes returns the nodes of a decision that count in a size limit.
func usedNodes(s *solver.Snapshot, d *solver.Decision, limit solver.SizeLimit) (used int) {
	for i, a := range d.Allocations {
		if limit.NodeType == "" || limit.NodeType == a.NodeType {
			used += solvertest.CountedNodes(&s.Jobs[i], a.Nodes, limit.Size)
		}
	}
	return used
}

// checkSizeLimits checks that a decision exceeds no size limit, and that the report has every limit with the nodes that count in it.
func checkSizeLimits(t *testing.T, s *solver.Snapshot, d *solver.Decision) {
	t.Helper()
	if len(d.Report.SizeLimits) != len(s.SizeLimits) {
		t.Fatalf("reports of %d size limits: %+v", len(s.SizeLimits), d.Report.SizeLimits)
	}
	for n, limit := range s.SizeLimits {
		used := usedNodes(s, d, limit)
		if of := d.Report.SizeLimits[n]; of.SizeLimit != limit || of.Used != used || used > limit.Nodes {
			t.Fatalf("report %+v; the limit is %+v, and %d are used", of, limit, used)
		}
	}
}

// sizeLimitVector is a pool with the size limits of its machines, and jobs of one size each.
type sizeLimitVector struct {
	nodes  int
	limits []solver.SizeLimit
	sizes  []int
	busy   int // the maximum number of nodes that can be used
	nested bool
}

// check checks the nodes, the report of the limits, the reasons and the warnings of a decision.
func (v *sizeLimitVector) check(t *testing.T, s *solver.Snapshot, d *solver.Decision) {
	t.Helper()
	if busy := v.nodes - d.Report.IdleNodes; busy != v.busy {
		t.Errorf("%d nodes are used; want %d", busy, v.busy)
	}
	checkSizeLimits(t, s, d)
	for i, a := range d.Allocations {
		if want := (solver.WaitSizeLimit); a.Nodes == 0 && a.WaitReason != want && a.WaitReason != solver.WaitBehind {
			t.Errorf("job %d waits because of %q; want %q", i, a.WaitReason, want)
		}
	}
	warns := slices.ContainsFunc(d.Report.Warnings, func(w solver.Warning) bool { return w.Code == solver.WarningSizesNotNested })
	if warns == v.nested {
		t.Errorf("warnings %v; want WarningSizesNotNested: %t", d.Report.Warnings, !v.nested)
	}
}

// TestSizeLimitVectors checks decisions of every admission and of FillIdle if the jobs fit in the capacity of the
// pool but not on its machines.
func TestSizeLimitVectors(t *testing.T) {
	t.Parallel()
	limit := func(size, nodes int) solver.SizeLimit { return solver.SizeLimit{Size: size, Nodes: nodes} }
	allocator := newAllocator(t, elastalloc.Options{})
	for name, test := range map[string]sizeLimitVector{
		"16, 16, 4 on two blocks of 18":      {36, []solver.SizeLimit{limit(4, 32)}, []int{16, 16, 4}, 32, true},
		"16, 16, 2, 2 on two blocks of 18":   {36, []solver.SizeLimit{limit(4, 32)}, []int{16, 16, 2, 2}, 36, true},
		"3, 3, 3, 3, 3 on two machines of 8": {16, []solver.SizeLimit{limit(3, 12)}, []int{3, 3, 3, 3, 3}, 12, true},
		"5, 5, 5 on two machines of 8":       {16, []solver.SizeLimit{limit(5, 10)}, []int{5, 5, 5}, 10, true},
		"6, 6, 4 on two machines of 8":       {16, []solver.SizeLimit{limit(4, 16), limit(6, 12)}, []int{6, 6, 4}, 16, false},
		"3, 3, 2 on two blocks of 4":         {8, []solver.SizeLimit{limit(2, 8), limit(3, 6)}, []int{3, 3, 2}, 8, false},
	} {
		s := &solver.Snapshot{TotalNodes: test.nodes, SizeLimits: test.limits, Jobs: rigidJobs(test.sizes...)}
		for _, admission := range solver.Admissions() {
			t.Run(name+"/"+string(admission), func(t *testing.T) {
				d, err := allocator.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission})
				if err != nil {
					t.Fatal(err)
				}
				test.check(t, s, &d)
				if d.Report.Reason != solver.ReasonOptimal {
					t.Error(d.Report.Reason)
				}
			})
		}
		t.Run(name+"/fill idle", func(t *testing.T) {
			d, err := allocator.FillIdle(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			test.check(t, s, &d)
		})
	}
}

// TestSizeLimitPrice checks that the price of a limit is what one more node in it is worth, and that the price
// of the pool is 0 while nodes are idle.
func TestSizeLimitPrice(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 100, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 16}, {Size: 2, Nodes: 90}}}
	for i := range 20 {
		job := solver.NewJob(fmt.Sprint(i), time.Duration(i+1)*time.Hour)
		job.AllowedNodes = []int{4}
		s.Jobs = append(s.Jobs, job)
	}
	o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive}
	allocator := newAllocator(t, elastalloc.Options{})
	d, err := allocator.Allocate(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	more := *s
	more.SizeLimits = []solver.SizeLimit{{Size: 4, Nodes: 20}, {Size: 2, Nodes: 90}}
	better, err := allocator.Allocate(t.Context(), &more, o)
	if err != nil {
		t.Fatal(err)
	}
	of, gain := d.Report.SizeLimits, (better.Report.Objective-d.Report.Objective)/4
	if of[0].Used != 16 || of[1].Used != 16 || of[1].Price != 0 ||
		d.Report.NodePrices[0] != 0 || !(of[0].Price >= gain*(1-1e-6)) || of[0].Price > 2*gain {
		t.Errorf("reports %+v, node prices %v; a node in the first limit is worth %v", of, d.Report.NodePrices, gain)
	}
}

// TestSizeLimitCalls checks explanations, scenarios and forecasts of a pool with size limits.
func TestSizeLimitCalls(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 32, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 8}}, Jobs: rigidJobs(8, 4, 2, 16)}
	s.Jobs[2].AllowedNodes = []int{2, 4} // It runs on 2 nodes, because 4 count in the limit.
	o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionFIFO}
	allocator := newAllocator(t, elastalloc.Options{})
	e, err := allocator.Explain(t.Context(), s, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		why  solver.Why
		text string
	}{
		{solver.WhyOnlySize, "0 has 8 nodes, its only size"},
		{solver.Why(solver.WaitSizeLimit), "1 waits: the size limits leave less than 4 nodes"},
		{solver.Why(solver.WaitBehind), "2 waits behind 1"},
		{solver.Why(solver.WaitSizeLimit), "3 waits: the size limits leave less than 16 nodes"},
	}
	for i, job := range e.Jobs {
		if job.Why != want[i].why || !strings.HasPrefix(job.Text, want[i].text) {
			t.Errorf("job %d: %s: %s; want %s: %s", i, job.Why, job.Text, want[i].why, want[i].text)
		}
	}
	o.Admission = solver.AdmissionPreemptive
	if e, err = allocator.Explain(t.Context(), s, o, []string{"2"}); err != nil || e.Jobs[0].Why != solver.WhySizeLimit {
		t.Errorf("job 2: %+v, %v", e, err)
	}
	w, err := allocator.WhatIf(t.Context(), s, o, []solver.Scenario{{Name: "a larger pool", TotalNodes: new(64)}})
	if err != nil || w.Results[0].Err != nil || w.Results[0].Decision.Report.SizeLimits[0].Used > 8 || len(w.Results[0].ChangedJobIDs) > 0 {
		t.Errorf("a larger pool with the same limit changes %+v, %v", w, err)
	}
	f, err := allocator.Forecast(t.Context(), s, o, solver.ForecastOptions{Samples: 1})
	if err != nil || f.Complete || !f.Stalled { // The limit never lets job 3 run.
		t.Fatalf("forecast %+v, %v", f, err)
	}
	for i, job := range f.Jobs {
		if completes := job.End != nil; completes != (i < 3) {
			t.Errorf("job %d completes: %t", i, completes)
		}
	}
	if first, second := f.Jobs[0], f.Jobs[1]; *second.Start == 0 && *first.Start == 0 {
		t.Errorf("jobs 0 and 1 start together: %+v", f.Jobs)
	}
}

// TestSizeLimitsFrozenJobs checks that frozen jobs count in the limits.
func TestSizeLimitsFrozenJobs(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 32, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 12}}, Jobs: rigidJobs(8, 4, 4, 2)}
	s.Jobs[0].CurrentNodes, s.Jobs[0].RemainingETA = 8, -1
	for _, piece := range []int{0, 2} {
		s.Jobs[0].PieceNodes = piece
		d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, solver.Options{
			Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive, BadJobs: solver.BadJobsHold,
		})
		if err != nil {
			t.Fatal(err)
		}
		used, started := 12, 4
		if piece == 2 {
			used, started = 8, 8
		}
		got, others := d.Report.SizeLimits[0], d.Allocations[1].Nodes+d.Allocations[2].Nodes
		if got.Used != used || got.Nodes != 12 || others != started || d.Allocations[3].Nodes != 2 {
			t.Errorf("a frozen job in pieces of %d: report %+v, allocations %+v", piece, got, d.Allocations)
		}
	}
}

// afterRound returns the jobs that are left after an hour on the nodes of a decision. Every job completes a random number of
// rounds after it has nodes.
func afterRound(r *rand.Rand, s *solver.Snapshot, d solver.Decision) (left []solver.Job) {
	for i, a := range d.Allocations {
		job := s.Jobs[i]
		job.CurrentNodes, job.CurrentNodeType = a.Nodes, a.NodeType
		if a.Nodes > 0 {
			job.TrainingTime += time.Hour
			if r.IntN(3) == 0 {
				continue
			}
		}
		left = append(left, job)
	}
	return left
}

// TestSizeLimitLoop applies decisions and fills to random pools until all jobs that can fit are complete. No
// decision exceeds a limit, and every search is proven.
func TestSizeLimitLoop(t *testing.T) {
	t.Parallel()
	allocator := newAllocator(t, elastalloc.Options{})
	decisions, binding := 0, 0
	snapshots := solvertest.LimitedSnapshots(solvertest.Limits{Jobs: 20, Steps: 1, Sizes: 5, Nodes: 60})
	for seed := range testtier.Conformance.Examples(200, 1000) {
		s := snapshots.Example(seed)
		o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.Admissions()[seed%4], Backend: solver.BackendExact}
		if seed%5 == 0 {
			o.Backend = solver.BackendGreedy
		}
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		for i := range s.Jobs {
			s.Jobs[i].Weight, s.Jobs[i].RemainingETA = nil, min(s.Jobs[i].RemainingETA, 100*time.Hour)
		}
		s.Jobs = slices.DeleteFunc(s.Jobs, func(job solver.Job) bool {
			alone := *s
			job.CurrentNodes, job.CurrentNodeType = 0, ""
			alone.Jobs = []solver.Job{job}
			d, err := allocator.FillIdle(t.Context(), &alone)
			if err != nil {
				t.Fatal(err)
			}
			return d.Allocations[0].Nodes == 0
		})
		for round := 0; len(s.Jobs) > 0; round++ {
			if round > 1000 {
				t.Fatalf("jobs do not complete: %+v", s)
			}
			var d solver.Decision
			var err error
			if fill := r.IntN(3) == 0; fill {
				d, err = allocator.FillIdle(t.Context(), s)
			} else if d, err = allocator.Allocate(t.Context(), s, o); err == nil && d.Report.Reason == solver.ReasonFeasible {
				t.Fatalf("not proven: %+v", d.Report)
			}
			if err != nil {
				t.Fatal(err)
			}
			decisions++
			checkSizeLimits(t, s, &d)
			for _, of := range d.Report.SizeLimits {
				if of.Price > 0 {
					binding++
				}
			}
			s.Jobs = afterRound(r, s, d)
		}
	}
	if t.Logf("%d decisions, %d prices of limits above 0", decisions, binding); binding == 0 {
		t.Error("no limit was binding")
	}
}

// TestNeverWithinLimit checks the warning and the forecast of a job that no size limit ever lets run.
func TestNeverWithinLimit(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	o := solver.Options{Objective: solver.ObjectiveTotalTime}
	for limit, never := range map[int]bool{0: true, 7: true, 8: false} {
		s := &solver.Snapshot{
			TotalNodes: 16, SizeLimits: []solver.SizeLimit{{Size: 8, Nodes: limit}}, Jobs: []solver.Job{sized("large", 8, 0), sized("small", 2, 0)},
		}
		d, err := a.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		warns := slices.ContainsFunc(d.Report.Warnings, func(w solver.Warning) bool {
			return w.Code == solver.WarningNeverFits && w.JobID == "large"
		})
		future, err := a.Forecast(t.Context(), s, o, solver.ForecastOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if warns != never || future.Stalled != never || future.Complete == never || future.Jobs[1].End == nil {
			t.Errorf("limit %d: warnings %+v, forecast %+v; want that the job never fits: %t", limit, d.Report.Warnings, future, never)
		}
		// A job that keeps its nodes takes part of the limit, but not for ever.
		kept := solver.Job{ID: "kept", CurrentNodes: limit, Keep: true}
		s.Jobs = append(s.Jobs, kept)
		if d, err = a.Allocate(t.Context(), s, o); err != nil {
			t.Fatal(err)
		}
		warns = slices.ContainsFunc(d.Report.Warnings, func(w solver.Warning) bool { return w.Code == solver.WarningNeverFits })
		if warns != never {
			t.Errorf("limit %d with a kept job: warnings %+v", limit, d.Report.Warnings)
		}
	}
}

// TestRemainders lets jobs of one size run in pieces, of which the last one may be smaller. All of them get their nodes
// if and only if the machines have places for all pieces.
func TestRemainders(t *testing.T) {
	t.Parallel()
	allocator := newAllocator(t, elastalloc.Options{})
	sizes, placed, counts := []int{1, 2, 4, 8}, map[bool]int{}, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 17))
		var nodes []placement.Node
		s := &solver.Snapshot{}
		for n := range 2 + r.IntN(3) {
			nodes = append(nodes, placement.Node{ID: fmt.Sprint(n), Units: 8, Free: r.IntN(9)})
			s.TotalNodes += nodes[n].Free
		}
		var jobs []placement.Job
		for n := range 1 + r.IntN(3) {
			piece := sizes[r.IntN(4)]
			units := min(piece*r.IntN(3), 8) + []int{0, 1, 2, 4}[r.IntN(4)]%piece
			if units == 0 {
				units = piece
			}
			jobs = append(jobs, placement.Job{ID: fmt.Sprint(n), Units: units, Piece: piece})
			s.Jobs = append(s.Jobs, rigidJobs(units)[0])
			s.Jobs[n].ID, s.Jobs[n].PieceNodes = jobs[n].ID, piece
			if units > piece && units%piece > 0 {
				counts++
			}
		}
		limits, err := placement.Limits(nodes, sizes)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range limits {
			s.SizeLimits = append(s.SizeLimits, solver.SizeLimit{Size: int(limit.GetSize()), Nodes: int(limit.GetNodes())})
		}
		_, err = placement.Place(nodes, sizes, jobs)
		fits := err == nil
		placed[fits]++
		d, err := allocator.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive})
		if err != nil {
			t.Fatal(err)
		}
		waits := slices.ContainsFunc(d.Allocations, func(a solver.Allocation) bool { return a.Nodes == 0 })
		if waits == fits {
			t.Fatalf("seed %d: the machines %v have places for %v: %v; with the limits %v, the allocations are %v",
				seed, nodes, jobs, fits, s.SizeLimits, d.Allocations)
		}
	}
	if t.Logf("%v placed, %d remainders", placed, counts); min(placed[true], placed[false], counts) < 50 {
		t.Error("too few cases")
	}
}
