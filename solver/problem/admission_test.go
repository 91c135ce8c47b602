package problem_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// jobsOn returns a snapshot of jobs with the given current nodes and minimums.
func jobsOn(nodes int, current, minimums []int) *solver.Snapshot {
	s := solvertest.NewJobs(len(current))
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
			snapshot: jobsOn(4, []int{2, 0, 1}, []int{1, 1, 2}),
			fifo:     smallest{0: 1, 1: 1, 2: 2}, optimized: smallest{0: 1, 1: 0, 2: 2}, preempted: smallest{0: 0, 1: 0, 2: 0},
		},
		{
			name:     "running jobs come first, wherever they are listed",
			snapshot: jobsOn(3, []int{0, 1, 0, 1}, []int{1, 1, 1, 1}),
			fifo:     smallest{0: 1, 1: 1, 3: 1}, optimized: smallest{0: 0, 1: 1, 2: 0, 3: 1},
			preempted: smallest{0: 0, 1: 0, 2: 0, 3: 0},
		},
		{
			name:     "the queue stops at the first job that does not fit",
			snapshot: jobsOn(4, []int{1, 0, 0, 0}, []int{1, 2, 2, 1}),
			fifo:     smallest{0: 1, 1: 2}, optimized: smallest{0: 1, 1: 0, 2: 0, 3: 0},
			preempted: smallest{0: 0, 1: 0, 2: 0, 3: 0},
		},
		{
			name:     "current sizes do not matter, only minimums do",
			snapshot: jobsOn(3, []int{16, 0, 9}, []int{1, 1, 1}),
			fifo:     smallest{0: 1, 1: 1, 2: 1}, optimized: smallest{0: 1, 1: 0, 2: 1}, preempted: smallest{0: 0, 1: 0, 2: 0},
		},
		{
			name:     "shrunken pool: running jobs that fit stay and no queued job passes those that go",
			snapshot: jobsOn(5, []int{2, 0, 4, 1}, []int{2, 1, 4, 1}),
			fifo:     smallest{0: 2, 3: 1}, optimized: smallest{0: 2, 3: 1}, preempted: smallest{0: 0, 1: 0, 2: 0, 3: 0},
		},
		{
			name:     "a minimum that is not a legal size counts as the next one",
			snapshot: jobsOn(3, []int{0}, []int{3}),
			fifo:     smallest{}, optimized: smallest{0: 0}, preempted: smallest{0: 0},
		},
		{
			name:     "zero nodes",
			snapshot: jobsOn(0, []int{2, 0}, []int{1, 1}),
			fifo:     smallest{}, optimized: smallest{1: 0}, preempted: smallest{0: 0, 1: 0},
		},
		{
			name:     "no jobs",
			snapshot: jobsOn(4, nil, nil),
			fifo:     smallest{}, optimized: smallest{}, preempted: smallest{},
		},
	}
	for _, test := range tests {
		for admission, want := range map[solver.Admission]smallest{
			solver.AdmissionFIFO: test.fifo, solver.AdmissionOptimized: test.optimized, solver.AdmissionPreemptive: test.preempted,
		} {
			t.Run(test.name+"/"+string(admission), func(t *testing.T) {
				p := problem.NewProblem(test.snapshot, admission)
				got := smallest{}
				for _, job := range p.Jobs {
					got[job.Index] = int(job.Options[0].Nodes)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("smallest size per admitted job (-want +got):\n%s", diff)
				}
				if !slices.IsSortedFunc(p.Jobs, func(a, b problem.AdmittedJob) int { return a.Index - b.Index }) {
					t.Error("the jobs are not in the order of the snapshot")
				}
			})
		}
	}
}

// TestAdmissionProperties checks which jobs are admitted, and that their smallest sizes are a legal plan.
func TestAdmissionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		for _, admission := range solver.Admissions() {
			admitted := checkSmallestPlan(t, s, admission)
			rule := admissionRule{snapshot: s, room: s.TotalNodes}
			switch admission {
			case solver.AdmissionFIFO:
				rule.check(t, admitted, false)
				rule.check(t, admitted, true)
			case solver.AdmissionOptimized:
				rule.check(t, admitted, false)
			case solver.AdmissionPreemptive, solver.AdmissionStartFirst:
				if slices.Contains(admitted, false) {
					t.Fatalf("%s admission leaves a job out: %v", admission, admitted)
				}
			}
		}
	})
}

// checkSmallestPlan checks the sizes of the admitted jobs, and returns which jobs are admitted.
func checkSmallestPlan(t *rapid.T, s *solver.Snapshot, admission solver.Admission) (admitted []bool) {
	p := problem.NewProblem(s, admission)
	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	admitted = make([]bool, len(s.Jobs))
	for n := range p.Jobs {
		job := &p.Jobs[n]
		admitted[job.Index] = true
		for step := range plan[n] {
			plan[n][step] = job.Options[0]
		}
		if !slices.IsSortedFunc(job.Options, solver.Option.Compare) || len(job.Options) != len(slices.Compact(slices.Clone(job.Options))) {
			t.Fatalf("%s: sizes %v are not ascending and unique", admission, job.Options)
		}
	}
	if err := p.Check(plan); err != nil {
		t.Fatalf("%s: not even the smallest sizes are a legal plan: %v", admission, err)
	}
	return admitted
}

// admissionRule is the rule of admission in the order of a snapshot. A running job is admitted if it fits in addition to
// the jobs before it. Queued jobs are admitted up to the first job that does not fit. Jobs that never fit are skipped.
type admissionRule struct {
	snapshot *solver.Snapshot
	room     int
	leftOut  bool // whether a job did not fit
}

// check checks which of the queued or of the running jobs are admitted.
func (r *admissionRule) check(t *rapid.T, admitted []bool, queued bool) {
	for i := range r.snapshot.Jobs {
		smallest := r.snapshot.Jobs[i].LegalSizes()[0]
		if r.snapshot.Jobs[i].Queued() != queued || smallest > r.snapshot.TotalNodes {
			continue
		}
		fits := smallest <= r.room && (!queued || !r.leftOut)
		if fits {
			r.room -= smallest
		}
		r.leftOut = r.leftOut || !fits
		if admitted[i] != fits {
			t.Fatalf("job %d, queued: %t, is admitted: %v; want %v", i, queued, admitted, fits)
		}
	}
}

// TestStartFirst checks which jobs must have nodes with START_FIRST.
func TestStartFirst(t *testing.T) {
	// Of each job: id, hours left, smallest size, nodes now, hours trained.
	job := func(id string, left float64, smallest, current, trained int) solver.Job {
		j := solver.NewJob(id, time.Duration(left*float64(time.Hour)))
		j.MinNodes, j.CurrentNodes, j.TrainingTime, j.RestartTime = smallest, current, time.Duration(trained)*time.Hour, 5*time.Minute
		return j
	}
	weighing := func(weight float64, j solver.Job) solver.Job {
		j.Weight = &weight
		return j
	}
	for _, test := range []struct {
		name  string
		nodes int
		jobs  []solver.Job
		want  string // the jobs that must have nodes
	}{
		{
			"in order up to the first that does not fit", 8,
			[]solver.Job{
				job("runs", 9, 1, 8, 1), job("never fits", 1, 16, 0, 0), job("starts", 1, 4, 0, 0), job("paused", 1, 4, 0, 1),
				job("too large for the rest", 1, 8, 0, 0), job("behind that", 1, 1, 0, 0), job("barely runs", 9, 2, 4, 1),
			},
			"[starts]",
		},
		{
			"a job that loads keeps its smallest size", 8,
			[]solver.Job{job("new", 1, 4, 0, 0), job("loads", 9, 4, 8, 0), job("too large to keep", 9, 8, 8, 0), job("second", 1, 1, 0, 0)},
			"[new loads]",
		},
		{"an equal job displaces none", 1, []solver.Job{job("old", 1, 1, 1, 1), job("new", 1, 1, 0, 0)}, "[]"},
		{"nor does one that is longer by its restart alone", 1, []solver.Job{job("old", 1, 1, 1, 1), job("new", 11.0/12, 1, 0, 0)}, "[]"},
		{"a shorter one does", 1, []solver.Job{job("old", 1, 1, 1, 1), job("new", 0.9, 1, 0, 0)}, "[new]"},
		{"of twice the weight, one of up to twice the length", 1,
			[]solver.Job{job("old", 1, 1, 1, 1), weighing(2, job("new", 1.9, 1, 0, 0))}, "[new]"},
		{"a job without weight displaces none", 1, []solver.Job{job("old", 1, 1, 1, 1), weighing(0, job("new", 0.1, 1, 0, 0))}, "[]"},
		{"a job that never fits keeps none from starting", 1, []solver.Job{job("shrunk", 1, 2, 2, 1), job("new", 2, 1, 0, 0)}, "[new]"},
		{"one that is passed over does not end the line", 2,
			[]solver.Job{job("old", 1, 2, 2, 1), job("long", 2, 1, 0, 0), job("short", 0.5, 1, 0, 0)}, "[short]"},
		{
			"those that start count, and so do the smallest sizes alone of those that run", 4,
			[]solver.Job{job("old", 1, 2, 4, 1), job("first", 2, 1, 0, 0), job("second", 2, 1, 0, 0), job("third", 2, 1, 0, 0)}, "[first second]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &solver.Snapshot{TotalNodes: test.nodes, Horizon: solver.DefaultHorizon(), Jobs: test.jobs}
			forced := []string{}
			for _, j := range problem.NewProblem(s, solver.AdmissionStartFirst).Jobs {
				if !j.Options[0].IsZero() {
					forced = append(forced, s.Jobs[j.Index].ID)
				}
			}
			if got := fmt.Sprint(forced); got != test.want {
				t.Errorf("%v must have nodes; want %v", got, test.want)
			}
		})
	}
}

// TestStartFirstWithoutETA: to the objective of progress, a job whose ETA has run out has a quarter of the
// work done left, and does not keep others from starting.
func TestStartFirstWithoutETA(t *testing.T) {
	old, young := solver.NewJob("old", time.Minute), solver.NewJob("young", time.Hour)
	old.CurrentNodes, old.TrainingTime, old.WorkDone = 1, 10*time.Hour, 10*time.Hour
	s := &solver.Snapshot{TotalNodes: 1, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{old, young}}
	for objective, starts := range map[solver.Objective]bool{solver.ObjectiveProgress: true, solver.ObjectiveTotalTime: false} {
		p := problem.NewProblemFor(s, solver.Options{Objective: objective, Admission: solver.AdmissionStartFirst}.WithDefaults())
		if got := !p.Jobs[1].Options[0].IsZero(); got != starts {
			t.Errorf("%s: the new job has to start: %v; want %v", objective, got, starts)
		}
	}
}

// TestStartFirstOnTypes: what a new job needs is the smallest size of the type that it starts on.
func TestStartFirstOnTypes(t *testing.T) {
	runs := func(id, on string) solver.Job {
		j := solver.NewJob(id, 10*time.Minute)
		j.MinNodes, j.CurrentNodes, j.CurrentNodeType, j.TrainingTime = 4, 4, on, time.Second
		return j
	}
	starts := solver.NewJob("new", time.Hour)
	starts.Speeds = []solver.TypeSpeed{{NodeType: "x", AllowedNodes: []int{4}}, {NodeType: "y", AllowedNodes: []int{1}}}
	s := (&solver.Snapshot{
		NodeTypes: []solver.NodeType{{ID: "x", Nodes: 4}, {ID: "y", Nodes: 6}}, Horizon: solver.DefaultHorizon(),
		Jobs: []solver.Job{runs("a", "x"), runs("b", "y"), starts},
	}).WithDefaults()
	p := problem.NewProblemFor(s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}.WithDefaults())
	if got := p.Jobs[2].Options; got[0].IsZero() {
		t.Errorf("the new job has the options %v; want a start in addition to the other jobs", got)
	}
}

// TestNeverFittingBlocksNoJob checks with every admission that a job that never fits does not block other jobs.
func TestNeverFittingBlocksNoJob(t *testing.T) {
	for _, current := range []int{0, 16} {
		big := solver.NewJob("big", time.Hour)
		big.MinNodes, big.CurrentNodes = 16, current
		small := solver.NewJob("small", time.Hour)
		s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{big, small}}
		for _, admission := range solver.Admissions() {
			p := problem.NewProblem(s, admission)
			if !slices.ContainsFunc(p.Jobs, func(j problem.AdmittedJob) bool { return j.Index == 1 }) {
				t.Errorf("%s, with %d nodes occupied: the job that fits is not admitted", admission, current)
			}
		}
	}
}

// TestStartFirstProperties compares which jobs of random snapshots must have nodes with a literal implementation of
// the rule, which computes each sum over running jobs again.
func TestStartFirstProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 9, Steps: 2, Sizes: 3, Nodes: 20}).Draw(t, "snapshot")
		if rapid.Bool().Draw(t, "alike") { // Ties.
			for i := range s.Jobs {
				s.Jobs[i].RemainingETA, s.Jobs[i].ETANodes, s.Jobs[i].Weight = time.Hour, 0, nil
			}
		}
		got := make([]bool, len(s.Jobs))
		for _, job := range problem.NewProblem(s, solver.AdmissionStartFirst).Jobs {
			got[job.Index] = !job.Options[0].IsZero()
		}
		if want := mustHaveNodes(s); !slices.Equal(got, want) {
			t.Fatalf("jobs that must have nodes: %v; want %v", got, want)
		}
	})
}

// mustHaveNodes returns the jobs that must have nodes with START_FIRST: those with a used restart budget, those that
// load, and new jobs up to the first that does not fit, unless running jobs with less work left need the nodes.
func mustHaveNodes(s *solver.Snapshot) []bool {
	must, room := make([]bool, len(s.Jobs)), s.TotalNodes
	if exhausted, nodes := exhaustedJobs(s); nodes <= room {
		must, room = exhausted, room-nodes
	}
	smallest := func(i int) int { return s.Jobs[i].LegalSizes()[0] }
	for i := range s.Jobs {
		if job := &s.Jobs[i]; !must[i] && !job.Queued() && job.TrainingTime == 0 && smallest(i) <= room {
			must[i], room = true, room-smallest(i)
		}
	}
	for i := range s.Jobs {
		if !s.Jobs[i].NeverStarted() || smallest(i) > s.TotalNodes {
			continue
		}
		if smallest(i) > room {
			break
		}
		running := 0
		for k := range s.Jobs {
			if !s.Jobs[k].Queued() && !must[k] && smallest(k) <= s.TotalNodes && workLeft(&s.Jobs[k]) <= workLeft(&s.Jobs[i]) {
				running += smallest(k)
			}
		}
		if smallest(i)+running <= room {
			must[i], room = true, room-smallest(i)
		}
	}
	return must
}

// workLeft returns the work that a job has left, with the restart of a queued one, per unit of its weight.
func workLeft(job *solver.Job) float64 {
	work := max(job.Demand(), job.WorkDone.Seconds()/4)
	if job.Queued() {
		work += job.RestartTime.Seconds() * job.Speed(job.LegalSizes()[0])
	}
	return work / job.WeightOrDefault()
}

// exhaustedJobs returns the jobs of a pool of identical nodes that have used their restart budgets and fit the
// pool, and the sum of their smallest sizes.
func exhaustedJobs(s *solver.Snapshot) (exhausted []bool, nodes int) {
	exhausted = make([]bool, len(s.Jobs))
	for i := range s.Jobs {
		job, sizes := &s.Jobs[i], s.Jobs[i].LegalSizes()
		if !slices.Contains(sizes, job.CurrentNodes) || len(job.RecentRestarts) < 3 || sizes[0] > s.TotalNodes {
			continue
		}
		if job.RecentRestarts[2] < 12*job.RestartTime {
			exhausted[i], nodes = true, nodes+sizes[0]
		}
	}
	return exhausted, nodes
}

// TestRestartBudget checks, for all admissions and both objectives, that a job that has used its restart
// budget gets no more than its nodes, and that it must not be paused unless jobs like it do not fit.
func TestRestartBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 9, Steps: 2, Sizes: 3, Nodes: 20}).Draw(t, "snapshot")
		o := solver.Options{
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
			Objective: rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(t, "objective"),
		}
		exhausted, nodes := exhaustedJobs(s)
		unrestricted := (&solver.Snapshot{TotalNodes: s.TotalNodes, Horizon: s.Horizon, Jobs: slices.Clone(s.Jobs)}).WithDefaults()
		for i := range unrestricted.Jobs {
			unrestricted.Jobs[i].RecentRestarts = nil
		}
		options := map[int][]solver.Option{}
		for _, job := range problem.NewProblemFor(unrestricted, o.WithDefaults()).Jobs {
			options[job.Index] = job.Options
		}
		mayPause := o.Admission == solver.AdmissionPreemptive || o.Admission == solver.AdmissionStartFirst
		for _, job := range problem.NewProblemFor(s, o.WithDefaults()).Jobs {
			if !exhausted[job.Index] {
				continue
			}
			if keeps := mayPause && nodes <= s.TotalNodes; keeps != job.Exhausted || keeps && job.Options[0].IsZero() {
				t.Fatalf("%s: job %d must keep nodes: %v with the options %v; want %v", o.Admission, job.Index, job.Exhausted, job.Options, keeps)
			}
			want := slices.DeleteFunc(slices.Clone(options[job.Index]), func(k solver.Option) bool {
				return int(k.Nodes) > s.Jobs[job.Index].CurrentNodes || k.IsZero() && !job.Options[0].IsZero()
			})
			if !slices.Equal(job.Options, want) {
				t.Fatalf("%s: job %d has the options %v; want %v", o.Admission, job.Index, job.Options, want)
			}
		}
	})
}
