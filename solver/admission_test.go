package solver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// holding returns a snapshot of jobs that hold the given nodes and need at least
// the given minimums.
func holding(nodes int, current, minimums []int) *solver.Snapshot {
	s := valid(len(current))
	s.TotalNodes = nodes
	for i := range s.Jobs {
		s.Jobs[i].CurrentNodes, s.Jobs[i].MinNodes = current[i], minimums[i]
	}
	return s
}

func TestAdmission(t *testing.T) {
	// Which jobs are admitted, and the smallest size of each.
	type smallest map[int]int
	tests := []struct {
		name                       string
		snapshot                   *solver.Snapshot
		fifo, optimized, preempted smallest
	}{
		{
			name:     "every job fits",
			snapshot: holding(4, []int{2, 0, 1}, []int{1, 1, 2}),
			fifo:     smallest{0: 1, 1: 1, 2: 2}, optimized: smallest{0: 1, 1: 0, 2: 2}, preempted: smallest{0: 0, 1: 0, 2: 0},
		},
		{
			name:     "running jobs come first, wherever they are listed",
			snapshot: holding(3, []int{0, 1, 0, 1}, []int{1, 1, 1, 1}),
			fifo:     smallest{0: 1, 1: 1, 3: 1}, optimized: smallest{0: 0, 1: 1, 2: 0, 3: 1},
			preempted: smallest{0: 0, 1: 0, 2: 0, 3: 0},
		},
		{
			name:     "the queue stops at the first job that does not fit",
			snapshot: holding(4, []int{1, 0, 0, 0}, []int{1, 2, 2, 1}),
			fifo:     smallest{0: 1, 1: 2}, optimized: smallest{0: 1, 1: 0, 2: 0, 3: 0},
			preempted: smallest{0: 0, 1: 0, 2: 0, 3: 0},
		},
		{
			name:     "current sizes do not matter, only minimums do",
			snapshot: holding(3, []int{16, 0, 9}, []int{1, 1, 1}),
			fifo:     smallest{0: 1, 1: 1, 2: 1}, optimized: smallest{0: 1, 1: 0, 2: 1}, preempted: smallest{0: 0, 1: 0, 2: 0},
		},
		{
			name:     "shrunken pool: the last running jobs go and no job passes them",
			snapshot: holding(5, []int{2, 0, 4, 1}, []int{2, 1, 4, 1}),
			fifo:     smallest{0: 2}, optimized: smallest{0: 2, 1: 0}, preempted: smallest{0: 0, 1: 0, 2: 0, 3: 0},
		},
		{
			name:     "a minimum that is not a legal size counts as the next one",
			snapshot: holding(3, []int{0}, []int{3}),
			fifo:     smallest{}, optimized: smallest{0: 0}, preempted: smallest{0: 0},
		},
		{
			name:     "zero nodes",
			snapshot: holding(0, []int{2, 0}, []int{1, 1}),
			fifo:     smallest{}, optimized: smallest{1: 0}, preempted: smallest{0: 0, 1: 0},
		},
		{
			name:     "no jobs",
			snapshot: holding(4, nil, nil),
			fifo:     smallest{}, optimized: smallest{}, preempted: smallest{},
		},
	}
	for _, test := range tests {
		for admission, want := range map[solver.Admission]smallest{
			solver.AdmissionFIFO: test.fifo, solver.AdmissionOptimized: test.optimized, solver.AdmissionPreemptive: test.preempted,
		} {
			t.Run(test.name+"/"+string(admission), func(t *testing.T) {
				p := solver.NewProblem(test.snapshot, admission)
				got := smallest{}
				for _, job := range p.Jobs {
					got[job.Index] = job.Sizes[0]
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("smallest size per admitted job (-want +got):\n%s", diff)
				}
				if !slices.IsSortedFunc(p.Jobs, func(a, b solver.AdmittedJob) int { return a.Index - b.Index }) {
					t.Error("the jobs are not in the order of the snapshot")
				}
			})
		}
	}
}

func TestAdmissionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		for _, admission := range solver.Admissions() {
			p := solver.NewProblem(s, admission)
			plan := solver.NewPlan(len(p.Jobs), p.Steps)
			admitted := make([]bool, len(s.Jobs))
			for n := range p.Jobs {
				job := &p.Jobs[n]
				admitted[job.Index] = true
				for step := range plan[n] {
					plan[n][step] = job.Sizes[0]
				}
				if !slices.IsSorted(job.Sizes) || len(job.Sizes) != len(slices.Compact(slices.Clone(job.Sizes))) {
					t.Fatalf("%s: sizes %v are not ascending and unique", admission, job.Sizes)
				}
			}
			if err := p.Check(plan); err != nil {
				t.Fatalf("%s: not even the smallest sizes are a legal plan: %v", admission, err)
			}
			// FIFO: no job of the same kind passes one that is left out, unless that one never
			// fits.
			leftOut := map[bool]bool{}
			for i := range s.Jobs {
				queued := s.Jobs[i].Queued()
				if s.Jobs[i].LegalSizes()[0] > s.TotalNodes {
					continue
				}
				if admitted[i] && leftOut[queued] {
					t.Fatalf("%s: job %d passes one before it: %v", admission, i, admitted)
				}
				leftOut[queued] = leftOut[queued] || !admitted[i]
			}
			everyJob := admission == solver.AdmissionPreemptive || admission == solver.AdmissionStartFirst
			if everyJob && slices.Contains(admitted, false) {
				t.Fatalf("%s admission leaves a job out: %v", admission, admitted)
			}
		}
	})
}

// TestStartFirst looks at which sizes START_FIRST leaves to whom.
func TestStartFirst(t *testing.T) {
	job := func(smallest, current int, trained time.Duration) solver.Job {
		j := solver.NewJob(fmt.Sprint(smallest, current, trained), time.Hour)
		j.MinNodes, j.CurrentNodes, j.TrainingTime = smallest, current, trained
		return j
	}
	s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{
		job(1, 8, time.Hour), // runs: may be paused
		job(16, 0, 0),        // never fits: blocks no other
		job(4, 0, 0),         // starts
		job(4, 0, time.Hour), // paused: may wait
		job(8, 0, 0),         // does not fit beside the 4 before it
		job(1, 0, 0),         // comes after one that does not fit
		job(2, 4, 0),         // runs, if only just
	}}
	p := solver.NewProblem(s, solver.AdmissionStartFirst)
	mayWait := make(map[int]bool)
	for i := range p.Jobs {
		mayWait[p.Jobs[i].Index] = p.Jobs[i].Sizes[0] == 0
	}
	want := map[int]bool{0: true, 1: true, 2: false, 3: true, 4: true, 5: true, 6: true}
	if fmt.Sprint(mayWait) != fmt.Sprint(want) {
		t.Errorf("jobs that may hold no nodes: %v; want %v", mayWait, want)
	}
}

// TestNeverFittingBlocksNoJob holds for every admission.
func TestNeverFittingBlocksNoJob(t *testing.T) {
	for _, current := range []int{0, 16} {
		big := solver.NewJob("big", time.Hour)
		big.MinNodes, big.CurrentNodes = 16, current
		small := solver.NewJob("small", time.Hour)
		s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{big, small}}
		for _, admission := range solver.Admissions() {
			p := solver.NewProblem(s, admission)
			if !slices.ContainsFunc(p.Jobs, func(j solver.AdmittedJob) bool { return j.Index == 1 }) {
				t.Errorf("%s, with %d nodes held: the job that fits is not admitted", admission, current)
			}
		}
	}
}

// TestStartFirstProperties holds of random snapshots: those that must start are new and
// fit the pool together; no new job is passed over but one that never fits; and the first
// that may wait does not fit beside those that must start.
func TestStartFirstProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 9, Steps: 2, Sizes: 3, Nodes: 20}).Draw(t, "snapshot")
		mustStart, first := 0, 0 // nodes, and those that the first new job left out needs
		for _, job := range solver.NewProblem(s, solver.AdmissionStartFirst).Jobs {
			of := &s.Jobs[job.Index]
			smallest := of.LegalSizes()[0]
			switch {
			case job.Sizes[0] > 0 && (!of.NeverStarted() || first > 0):
				t.Fatalf("job %d must hold nodes: %+v", job.Index, of)
			case job.Sizes[0] > 0:
				mustStart += smallest
			case of.NeverStarted() && smallest <= s.TotalNodes && first == 0:
				first = smallest
			}
		}
		if mustStart > s.TotalNodes || first > 0 && mustStart+first <= s.TotalNodes {
			t.Fatalf("new jobs must hold %d of %d nodes, and the first left out needs %d", mustStart, s.TotalNodes, first)
		}
	})
}
