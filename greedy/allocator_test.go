package greedy

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

var _ problem.Backend = (*Allocator)(nil)

// running returns a running job with the sizes of the paper, 1, 2, 4, 8 and 16. No plan completes it.
func running(nodes int, trained time.Duration) solver.Job {
	job := solver.NewJob("", 10_000*time.Hour)
	job.CurrentNodes = nodes
	job.TrainingTime = trained
	return job
}

func queued() solver.Job { return running(0, 0) }

// sized sets the legal sizes of a job.
func sized(job solver.Job, sizes ...int) solver.Job {
	job.AllowedNodes = sizes
	job.MinNodes, job.MaxNodes = sizes[0], sizes[len(sizes)-1]
	return job
}

func snapshotOf(nodes int, jobs ...solver.Job) *solver.Snapshot {
	s := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon(), Jobs: jobs}
	for i := range s.Jobs {
		s.Jobs[i].ID = fmt.Sprintf("job %d", i+1)
	}
	return s
}

// solve returns the plan of the admitted jobs of a snapshot, and checks it.
func solve(t rapid.TB, s *solver.Snapshot, admission solver.Admission) (*problem.Problem, problem.Plan) {
	t.Helper()
	if bad := s.Validate(solver.DefaultMaxJobs); len(bad) > 0 {
		t.Fatalf("bad snapshot: %v", bad)
	}
	p := problem.NewProblem(s, admission)
	result, err := New().Solve(context.Background(), p, problem.SolveOptions{})
	if err != nil {
		t.Fatalf("Solve() failed: %v", err)
	}
	if err := p.WithWaiting().Check(result.Plan); err != nil {
		t.Fatalf("Solve() returned an illegal plan: %v", err)
	}
	return p, result.Plan
}

// firstStep returns the option of each job of the snapshot in the first step.
func firstStep(s *solver.Snapshot, p *problem.Problem, plan problem.Plan) []solver.Option {
	options := make([]solver.Option, len(s.Jobs))
	for n := range p.Jobs {
		options[p.Jobs[n].Index] = plan[n][0]
	}
	return options
}

func TestCases(t *testing.T) {
	const hour, minute = time.Hour, time.Minute
	tests := []struct {
		name      string
		admission solver.Admission // FIFO if empty
		nodes     int
		jobs      []solver.Job
		want      []int
	}{
		{
			// "the elastic training system has 2 idle nodes but no queueing jobs.
			// There are four jobs training currently and job 4 has the shortest
			// training time, so the 2 idle nodes are allocated to it."
			name: "first example of the paper", nodes: 16,
			jobs: []solver.Job{
				running(4, 3*hour), running(4, 2*hour), running(4, 90*minute), running(2, 20*minute),
			},
			want: []int{4, 4, 4, 4},
		},
		{
			// "job 8 is waiting but the system has no idle nodes. Job 5 has the
			// longest training time, so the allocator scales down its node size from
			// 4 to 2 and assigns the released 2 nodes to job 8."
			name: "second example of the paper: jobs 5 to 8", nodes: 14,
			jobs: []solver.Job{
				running(4, 5*hour), running(8, 1*hour), running(2, 4*hour), queued(),
			},
			want: []int{2, 8, 2, 2},
		},

		{
			name: "case 1: the first queued job gets as many nodes as it can use", nodes: 22,
			jobs: []solver.Job{queued(), queued(), queued(), queued()},
			want: []int{16, 4, 2, 0},
		},
		{
			name: "case 1: a job that does not fit blocks the queue", nodes: 6, admission: solver.AdmissionOptimized,
			jobs: []solver.Job{running(4, hour), sized(queued(), 4, 8), queued()},
			want: []int{4, 0, 0},
		},
		{
			name: "case 1: only idle nodes are allocated, and no job is halved", nodes: 10,
			jobs: []solver.Job{running(8, hour), sized(queued(), 1, 2), queued()},
			want: []int{8, 2, 0},
		},
		{
			name: "case 1: idle nodes that do not fit the queue do not lead to case 2", nodes: 5,
			jobs: []solver.Job{sized(running(2, hour), 1, 2, 3), sized(running(2, hour), 1, 2), sized(queued(), 3)},
			want: []int{2, 2, 0},
		},
		{
			name: "case 1, then case 2 with the remaining nodes, the started job first", nodes: 16,
			jobs: []solver.Job{running(4, hour), sized(queued(), 2, 4), running(2, minute)},
			want: []int{4, 4, 8},
		},

		{
			name: "case 2: the next shortest job gets nodes that the shortest cannot use", nodes: 24,
			jobs: []solver.Job{running(2, 3*hour), running(4, 2*hour), sized(running(1, hour), 1, 2)},
			want: []int{4, 16, 2},
		},
		{
			name: "case 2: a size that does not fit is skipped", nodes: 7,
			jobs: []solver.Job{running(4, hour), running(1, 2*hour)},
			want: []int{4, 2},
		},
		{
			name: "case 2: ties are resolved in the order of the list", nodes: 6,
			jobs: []solver.Job{running(2, hour), running(2, hour)},
			want: []int{4, 2},
		},
		{
			name: "case 2: every job at its largest size", nodes: 100,
			jobs: []solver.Job{running(16, hour), running(16, hour)},
			want: []int{16, 16},
		},

		{
			name: "case 3: one job is halved, independent of the length of the queue", nodes: 16,
			jobs: []solver.Job{running(8, 2*hour), running(8, hour), queued(), queued()},
			want: []int{4, 8, 4, 0},
		},
		{
			name: "case 3: a job on one node cannot be halved", nodes: 5,
			jobs: []solver.Job{running(1, 3*hour), running(4, hour), queued()},
			want: []int{1, 2, 2},
		},
		{
			name: "case 3: a job whose minimum exceeds the half cannot be halved", nodes: 8,
			jobs: []solver.Job{sized(running(4, 3*hour), 3, 4), running(4, hour), queued()},
			want: []int{4, 2, 2},
		},
		{
			name: "case 3: a job is only halved if a queued job can start", nodes: 12,
			jobs: []solver.Job{running(4, 3*hour), running(8, hour), sized(queued(), 3, 4)},
			want: []int{4, 4, 4},
		},
		{
			name: "case 3: nothing changes if no job frees enough", nodes: 12, admission: solver.AdmissionOptimized,
			jobs: []solver.Job{running(4, 3*hour), running(8, hour), sized(queued(), 6)},
			want: []int{4, 8, 0},
		},
		{
			name: "case 3: the largest legal size up to the half", nodes: 7,
			jobs: []solver.Job{sized(running(7, hour), 2, 3, 7), sized(queued(), 1, 3)},
			want: []int{3, 3},
		},
		{
			name: "case 3: ties are resolved in the order of the list", nodes: 8,
			jobs: []solver.Job{running(4, hour), running(4, hour), queued()},
			want: []int{2, 4, 2},
		},

		{
			name: "case 4: nothing changes", nodes: 9,
			jobs: []solver.Job{running(8, hour), running(1, 2*hour)},
			want: []int{8, 1},
		},

		{
			name: "an illegal size is reduced to a legal one", nodes: 7,
			jobs: []solver.Job{sized(running(7, hour), 1, 2, 4), sized(running(1, minute), 1)},
			want: []int{4, 1},
		},
		{
			name: "a size below the minimum is increased to it", nodes: 8,
			jobs: []solver.Job{sized(running(1, hour), 4, 8), running(4, hour)},
			want: []int{4, 4},
		},
		{
			name: "shrunken pool: the longest training job is halved until the rest fits", nodes: 12,
			jobs: []solver.Job{running(8, hour), running(16, 5*hour)},
			want: []int{8, 4},
		},
		{
			name: "shrunken pool: the next longest job is halved if the longest cannot be halved again", nodes: 5,
			jobs: []solver.Job{running(8, hour), running(16, 5*hour)},
			want: []int{4, 1},
		},
		{
			name: "shrunken pool: excess nodes of a halved job go to the queue", nodes: 15,
			jobs: []solver.Job{running(16, hour), queued()},
			want: []int{8, 4},
		},
		{
			name: "shrunken pool: a job that cannot be halved gets its smallest size", nodes: 7,
			jobs: []solver.Job{sized(running(4, 2*hour), 3, 4), sized(running(4, hour), 3, 4)},
			want: []int{3, 4},
		},
		{
			name: "shrunken pool: admission drops the last running job", nodes: 2,
			jobs: []solver.Job{running(2, hour), running(1, hour), running(1, hour), queued()},
			want: []int{1, 1, 0, 0},
		},
		{
			name:  "shrunken pool, preemptive: the last running job is preempted and blocks the queue",
			nodes: 6, admission: solver.AdmissionPreemptive,
			jobs: []solver.Job{running(2, hour), sized(running(8, hour), 6, 8), queued()},
			want: []int{4, 0, 0},
		},
		{
			name:  "shrunken pool, preemptive: a job that fits in addition to the jobs before it keeps its nodes",
			nodes: 6, admission: solver.AdmissionPreemptive,
			jobs: []solver.Job{sized(running(3, hour), 3), sized(running(4, hour), 4), sized(running(1, hour), 1), queued()},
			want: []int{3, 0, 1, 0},
		},

		{name: "no jobs", nodes: 8, want: []int{}},
		{name: "zero nodes", jobs: []solver.Job{running(4, hour), queued()}, want: []int{0, 0}},
		{
			name: "zero nodes, preemptive", admission: solver.AdmissionPreemptive,
			jobs: []solver.Job{running(4, hour), queued()}, want: []int{0, 0},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := snapshotOf(test.nodes, test.jobs...)
			if test.admission == "" {
				test.admission = solver.AdmissionFIFO
			}
			p, plan := solve(t, s, test.admission)
			if diff := cmp.Diff(solver.Nodes(test.want...), firstStep(s, p, plan)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSolveKeepsNodesUntilCompletion(t *testing.T) {
	short := running(1, time.Hour)
	short.MaxNodes = 1
	short.RemainingETA = 700 * time.Second // It completes in the third of five steps.
	short.CurrentNodes = 0
	long := running(4, time.Hour)
	long.MaxNodes = 4
	for admission, released := range map[solver.Admission]int{
		solver.AdmissionFIFO:      1, // its smallest legal size
		solver.AdmissionOptimized: 0,
	} {
		_, plan := solve(t, snapshotOf(5, short, long), admission)
		want := problem.Plan{solver.Nodes(1, 1, 1, released, released), solver.Nodes(4, 4, 4, 4, 4)}
		if diff := cmp.Diff(want, plan); diff != "" {
			t.Errorf("%s: plan (-want +got):\n%s", admission, diff)
		}
	}
}

func TestSolveResult(t *testing.T) {
	p := problem.NewProblem(snapshotOf(8, queued()), solver.AdmissionFIFO)
	result, err := New().Solve(t.Context(), p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !result.Heuristic || !math.IsInf(result.Bound, 1) || result.Limit != solver.LimitNone {
		t.Errorf("Solve() = %+v; want a heuristic result without a bound", result)
	}
	if name := New().Name(); name != solver.BackendGreedy {
		t.Errorf("Name() = %q", name)
	}
}

func TestSolveRejectsOversubscribedPool(t *testing.T) {
	p := &problem.Problem{Capacity: []int{1}, Steps: 1, Jobs: []problem.AdmittedJob{
		{Demand: 1, Gain: []float64{1}, Current: solver.Option{Nodes: 2},
			Options: solver.Nodes(2), FirstStepWork: []float64{1}, StepWork: []float64{1}},
	}}
	if result, err := New().Solve(t.Context(), p, problem.SolveOptions{}); err == nil {
		t.Errorf("Solve() = %v; want an error", result.Plan)
	}
}

func randomAdmission(t *rapid.T) solver.Admission {
	return rapid.SampledFrom([]solver.Admission{
		solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive,
	}).Draw(t, "admission")
}

func snapshots() *rapid.Generator[*solver.Snapshot] {
	return solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 12, Steps: 3, Sizes: 5, Nodes: 60})
}

// TestPlanProperties checks that plans are legal, keep the order of the queue and use idle nodes.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		p, plan := solve(t, s, randomAdmission(t)) // checks the sizes and the capacity
		var waits, preempted, started, idle = false, false, 0, p.Capacity[0]
		for n := range p.Jobs {
			nodes := int(plan[n][0].Nodes)
			idle -= nodes
			switch job := &p.Jobs[n]; {
			case job.SmallestSize() > p.Capacity[0]: // It never fits, and does not block the queue.
			case !job.Queued():
				preempted = preempted || nodes == 0
			case nodes == 0:
				waits = true
			case waits:
				t.Fatalf("job %d starts although a job before it in the queue waits: %v", n, plan)
			default:
				started++
			}
		}
		if preempted && started > 0 {
			t.Fatalf("a queued job starts although a running job lost its nodes: %v", plan)
		}
		if waits || preempted || isCaseThree(p) {
			return
		}
		for n := range p.Jobs { // No job can use the idle nodes.
			limit := plan[n][0]
			limit.Nodes += int32(idle)
			if largestWithin(p.Jobs[n].Options, limit).Nodes > plan[n][0].Nodes {
				t.Fatalf("job %d could use idle nodes: %v", n, plan)
			}
		}
	})
}

// isCaseThree reports whether a decision starts with a queue and no idle nodes. Such a decision may leave
// nodes idle that the first queued job cannot use.
func isCaseThree(p *problem.Problem) bool {
	a := newAllocation(p)
	a.shrink()
	return a.room.Idle == 0 && len(a.queue) > 0
}

// TestIdempotent applies a decision and checks that the next decision changes nothing, unless one of them
// is case 3.
func TestIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		admission := randomAdmission(t)
		p, plan := solve(t, s, admission)
		options := firstStep(s, p, plan)
		if isCaseThree(p) || slices.Contains(options, solver.Option{}) {
			return
		}
		for i := range s.Jobs {
			s.Jobs[i].CurrentNodes = int(options[i].Nodes)
		}
		p, plan = solve(t, s, admission)
		if diff := cmp.Diff(options, firstStep(s, p, plan)); diff != "" {
			t.Fatalf("second decision (-first +second):\n%s", diff)
		}
	})
}

// largeSnapshot returns a random snapshot in which half of the jobs are queued.
func largeSnapshot(jobs, nodes int) *solver.Snapshot {
	random := rand.New(rand.NewPCG(1, 2))
	s := &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		job := running(random.IntN(2)*(1<<random.IntN(5)), time.Duration(random.IntN(1e6))*time.Second)
		job.ID = fmt.Sprint(i)
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

func BenchmarkSolve(b *testing.B) {
	for _, bench := range []struct {
		name  string
		nodes int
	}{{"shrunken", 100_000}, {"idle", 2_000_000}} {
		b.Run(bench.name, func(b *testing.B) {
			p := problem.NewProblem(largeSnapshot(100_000, bench.nodes), solver.AdmissionFIFO)
			for b.Loop() {
				if _, err := New().Solve(b.Context(), p, problem.SolveOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestOversizedJobDoesNotBlock checks that a job larger than the pool does not block the queue under any
// admission.
func TestOversizedJobDoesNotBlock(t *testing.T) {
	for _, admission := range solver.Admissions() {
		for _, s := range []*solver.Snapshot{
			snapshotOf(8, sized(queued(), 16), sized(queued(), 4)),                           // idle nodes
			snapshotOf(8, sized(queued(), 16), running(8, time.Hour), sized(queued(), 1, 2)), // a running job has to shrink
			snapshotOf(8, sized(running(16, time.Hour), 16), sized(queued(), 4)),             // the pool has shrunk
		} {
			p, plan := solve(t, s, admission)
			last := len(s.Jobs) - 1
			n := slices.IndexFunc(p.Jobs, func(j problem.AdmittedJob) bool { return j.Index == last })
			if n < 0 || plan[n][0].IsZero() {
				t.Errorf("%s: the job behind one that never fits gets no nodes: %v", admission, plan)
			}
		}
	}
}
