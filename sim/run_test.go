package sim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/report"
)

const second = time.Second

// allocate returns a policy that allocates the nodes that a function returns for a number of jobs.
func allocate(nodes func(jobs int) []int) namedPolicy {
	return namedPolicy{Terms{Name: "given"}, Rule(func(s *solver.Snapshot) []solver.Option { return solver.Nodes(nodes(len(s.Jobs))...) })}
}

// times returns the start and completion times of a job, in seconds.
func times(job JobResult) [2]int64 {
	return [2]int64{int64(job.Start / second), int64(job.End / second)}
}

func TestRegularTimes(t *testing.T) {
	// The paper: "job 1 finishes training at 9:02:09 and releases 8 nodes. Job 2
	// joins queue since 9:01:02, so 1 second later the system allocates the 8
	// nodes to it." On 8 nodes, 129 s of the speed 4.096 from 9:00:00 on.
	first := job("1", 0, time.Duration(129*4.096*float64(second)))
	second1 := job("2", 62*second, 409600*time.Millisecond)
	result := run(t, policy(t, "greedy"), DefaultConfig(8), first, second1)
	if diff := cmp.Diff([2]int64{0, 129}, times(result.Jobs[0])); diff != "" {
		t.Errorf("job 1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([2]int64{130, 230}, times(result.Jobs[1])); diff != "" {
		t.Errorf("job 2 (-want +got):\n%s", diff)
	}
	if got := result.Jobs[1].QueueTime(); got != 68*second {
		t.Errorf("job 2 waited %v; want 68s", got)
	}
}

func TestDecisionTimes(t *testing.T) {
	// A job that is submitted at a scaling decision starts immediately. A job that is submitted between two
	// decisions starts a second later. If no nodes are free, it starts a second after a job completes.
	config := DefaultConfig(1)
	result := run(t, policy(t, "optimal"), config,
		job("a", 0, 100*second), job("b", 150*second, 10*second), job("c", 160*second, 139*second),
		job("d", 300*second, 1*second))
	var got [][2]int64
	for _, job := range result.Jobs {
		got = append(got, times(job))
	}
	want := [][2]int64{{0, 100}, {151, 161}, {162, 301}, {302, 303}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("starts and ends (-want +got):\n%s", diff)
	}
	var at []time.Duration
	for _, decision := range result.Decisions {
		at = append(at, decision.At)
	}
	if diff := cmp.Diff([]time.Duration{0, 300 * second}, at); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestEveryEvent(t *testing.T) {
	result := run(t, policy(t, "optimal-event"), DefaultConfig(16),
		job("a", 0, 1600*second), job("b", 10*second, 16*second))
	var at []int64
	for _, decision := range result.Decisions {
		at = append(at, int64(decision.At/second))
	}
	// There are decisions at 0, after the submission at 10, and after the completion of b. Job a needs all
	// nodes to complete before the next decision, and has them except while b trains.
	end := int64(result.Jobs[1].End / second)
	if diff := cmp.Diff([]int64{0, 11, end + 1}, at); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if result.Jobs[0].Resizes != 2 {
		t.Errorf("a was resized %d times; want down and up", result.Jobs[0].Resizes)
	}
}

func TestScalingDelay(t *testing.T) {
	config := DefaultConfig(16)
	config.ScalingDelay = 15 * second
	// The sizes of a single job at the decision times 0, 300 and 600.
	decision := 0
	sizes := []int{1, 4, 2}
	p := allocate(func(int) []int { decision++; return []int{sizes[decision-1]} })
	// The job makes no progress for 15 s. It runs on 1 node for 285 s and another 15 s, on 4 nodes (speed
	// 2.56) for 285 s, and then without delay on 2 nodes (speed 1.6) for 100 s.
	work := 285 + 15 + 285*2.56 + 100*1.6
	result := run(t, p, config, job("a", 0, time.Duration(work*float64(second))))
	if got := times(result.Jobs[0]); got != [2]int64{0, 700} {
		t.Errorf("start and end are %v; want 0 and 700", got)
	}
	if got := result.Jobs[0].Resizes; got != 2 {
		t.Errorf("%d resizes; want 2", got)
	}
}

func TestRestartTime(t *testing.T) {
	config := DefaultConfig(16)
	config.RestartTime = 400 * second // longer than the frequency
	decision := 0
	sizes := []int{1, 1, 4, 4, 2, 1, 1, 1}
	p := allocate(func(int) []int { decision++; return []int{sizes[decision-1]} })
	// With 1 node from 0 on, the job trains from 400 on. With 4 nodes from 600 on, it trains from 1000 on.
	// With 2 nodes from 1200 on, it does not train before the restart on 1 node from 1500 to 1900.
	work := 200 + 200*2.56 + 50
	result := run(t, p, config, job("a", 0, time.Duration(work*float64(second))))
	if got := times(result.Jobs[0]); got != [2]int64{0, 1950} {
		t.Errorf("start and end are %v; want 0 and 1950", got)
	}
	if got := result.Jobs[0].Resizes; got != 3 {
		t.Errorf("%d resizes; want 3", got)
	}
}

// TestSpeedsOfAbsentTypes checks a job with speeds on node types that the cluster does not have.
func TestSpeedsOfAbsentTypes(t *testing.T) {
	p, config := policy(t, "total-time"), DefaultConfig(1)
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		if bad := s.WithDefaults().Validate(1); len(bad) > 0 {
			t.Error(bad)
		}
	}
	config.NodeTypes = []solver.NodeType{{ID: "here", Nodes: 1}}
	phase := func(until, factor float64) Phase {
		one := solver.Scaling{Speeds: []float64{1}}
		return Phase{until, []solver.TypeSpeed{
			{NodeType: "absent", Factor: 9, Scaling: one, AllowedNodes: []int{1}},
			{NodeType: "here", Factor: factor, Scaling: one, AllowedNodes: []int{1}},
		}}
	}
	j := job("a", 0, 7200*second)
	j.Phases = []Phase{phase(0.5, 1), phase(1, 2)}
	if got := times(run(t, p, config, j).Jobs[0]); got != [2]int64{0, 5400} {
		t.Errorf("start and end are %v; want 0 and 5400", got)
	}
}

func TestRecorded(t *testing.T) {
	a, b := job("a", 0, 100*second), job("b", 10*second, 100*second)
	a.Recorded = []NodesAt{{At: 5 * second, Nodes: 4}, {At: 20 * second, Nodes: 0}, {At: 30 * second, Nodes: 8}, {At: 55 * second, Nodes: 0}}
	b.Recorded = []NodesAt{{At: 30 * second, Nodes: 2}, {At: 50 * second, Nodes: 0}}
	config := DefaultConfig(1)
	config.Name = "recorded"
	result, err := Recorded(Workload{Name: "w", Jobs: []WorkloadJob{a, b}}, config)
	if err != nil {
		t.Fatal(err)
	}
	want := []JobResult{
		{
			ID: "a", Weight: 1, MinSize: 1, Alone: 100 * second, Ideal: 190 * second, Start: 5 * second, End: 55 * second,
			Unserved: 15 * second, Resizes: 2, Nodes: a.Recorded, Outcome: OutcomeCompleted,
		},
		{
			ID: "b", Weight: 1, MinSize: 1, Alone: 100 * second, Ideal: 190 * second, Submit: 10 * second, Start: 30 * second, End: 50 * second,
			Unserved: 20 * second, Nodes: b.Recorded, Outcome: OutcomeCompleted,
		},
	}
	if diff := cmp.Diff(want, result.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if peak := result.PeakNodes(); peak != 10 {
		t.Errorf("the jobs occupied up to %d nodes; want 10", peak)
	}
	_, err = Recorded(Workload{Name: "w", Jobs: []WorkloadJob{job("c", 0, second)}}, config)
	if err == nil || !strings.Contains(err.Error(), `job "c" of w has no start_s`) {
		t.Errorf("the error is %v; want one on start_s", err)
	}
}

func TestJobThatNeverFits(t *testing.T) {
	large := job("large", 0, second)
	large.MinNodes = 8
	_, err := policy(t, "optimal").run(t.Context(), Workload{Name: "w", Jobs: []WorkloadJob{large}}, DefaultConfig(4), newAllocator())
	if err == nil || !strings.Contains(err.Error(), `job "large" of w needs at least 8 nodes; the pool has 4`) {
		t.Errorf("the error is %v; want one that names the job", err)
	}
}

func TestScalingDelayOfChanges(t *testing.T) {
	const delay = 15 * second
	type change struct{ at, nodes int }
	for name, test := range map[string]struct {
		changes  []change
		training int
		growsAt  time.Duration
	}{
		"a start takes the delay":                       {[]change{{0, 4}}, 0, delay},
		"a scale-up takes it again":                     {[]change{{0, 4}, {10, 8}}, 0, 10*second + delay},
		"a scale-down during a start does not delay it": {[]change{{0, 4}, {10, 2}}, 0, delay},
		"a preemption stops the start":                  {[]change{{0, 4}, {10, 0}}, 0, never},
		"the same nodes change nothing":                 {[]change{{0, 4}, {10, 4}}, 0, delay},
	} {
		t.Run(name, func(t *testing.T) {
			work := job("a", 0, time.Hour)
			j := newSimulatedJob(&work, &Config{ScalingDelay: delay})
			for _, c := range test.changes {
				j.resize(allocation{nodes: c.nodes}, time.Duration(c.at)*second)
			}
			if j.training != test.training || j.growsAt != test.growsAt {
				t.Errorf("trains on %d until %v; want %d until %v", j.training, j.growsAt, test.training, test.growsAt)
			}
		})
	}
}

func TestPreemptedJobKeepsQueuePosition(t *testing.T) {
	// Job a is preempted for c at 300. After c completes, a starts before b, which was submitted later but
	// waited in the queue for longer.
	decision := 0
	p := namedPolicy{Terms{Name: "given", FixedSize: true}, Rule(func(s *solver.Snapshot) []solver.Option {
		decision++
		options := make([]solver.Option, len(s.Jobs))
		if decision == 2 {
			options[2].Nodes = 1
		} else {
			options[0].Nodes = 1
		}
		return options
	})}
	result := run(t, p, DefaultConfig(1),
		job("a", 0, 310*second), job("b", 1*second, 10*second), job("c", 2*second, 10*second))
	var got [][2]int64
	for _, job := range result.Jobs {
		got = append(got, times(job))
	}
	if diff := cmp.Diff([][2]int64{{0, 321}, {322, 332}, {300, 310}}, got); diff != "" {
		t.Errorf("starts and ends (-want +got):\n%s", diff)
	}
	if result.Jobs[0].Resizes != 2 {
		t.Errorf("%d resizes; want the preemption and the resumption", result.Jobs[0].Resizes)
	}
}

func TestExceededETA(t *testing.T) {
	// The estimate is 100 s of work, but the job takes 1000 s.
	exceeded := job("a", 0, 1000*second)
	exceeded.UserEstimate = 100 * second
	var times []time.Duration
	config := DefaultConfig(1)
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		times = append(times, s.Jobs[0].RemainingETA)
	}
	result := run(t, policy(t, "optimal"), config, exceeded)
	if diff := cmp.Diff([]time.Duration{100 * second, second, second, second}, times); diff != "" {
		t.Errorf("remaining ETAs (-want +got):\n%s", diff)
	}
	if result.Jobs[0].End != 1000*second {
		t.Errorf("the job completed at %v; want 1000s", result.Jobs[0].End)
	}
}

// TestEstimatedETA checks that the ETA of a job without one is estimated from completed jobs, and that
// the ETA of a job that exceeds its estimate increases with its work.
func TestEstimatedETA(t *testing.T) {
	type spec struct {
		ETA, WorkDone time.Duration
		Error         float64
	}
	for name, c := range map[string]struct {
		second WorkloadJob
		want   []spec // of the second job
	}{
		"unknown": {
			WorkloadJob{ReportsWork: true},
			// First, the median of 20 min, an hour, and the remaining 951 s of the first job. After more
			// work than the first job did, only the first two values count.
			[]spec{{1200 * second, 49 * second, eta.UnknownError}, {2400 * second, 1149 * second, eta.UnknownError}},
		},
		"unknown, with an ETA error": {
			WorkloadJob{UserError: 0.5},
			[]spec{{1200 * second, 0, 0.5}, {2400 * second, 0, 0.5}},
		},
		"log-normal": {
			WorkloadJob{UserEstimate: 500 * second, UserError: 0.5, ReportsWork: true},
			// The first job took as long as estimated, so that the error is 0.5 sqrt(20/21).
			[]spec{{514 * second, 49 * second, 0.5}, {278 * second, 1149 * second, 0.5}},
		},
	} {
		var got []spec
		config := DefaultConfig(1)
		config.Frequency = 1100 * second
		config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
			for _, job := range s.Jobs {
				if job.ID == "b" && job.ETAError != nil {
					got = append(got, spec{job.RemainingETA.Truncate(second), job.WorkDone, *job.ETAError})
				}
			}
		}
		b := c.second
		b.ID, b.Submit, b.Demand, b.Work, b.RequestedNodes, b.Fate = "b", 1050*second, 1200*second, 1200*second, 1, OutcomeCompleted
		run(t, policy(t, "optimal"), config, job("a", 0, 1000*second), b)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFates(t *testing.T) {
	hung := job("hung", 0, 1000*second)
	hung.Fate, hung.HangAfter = OutcomeHung, 30*second
	early := job("early", 31*second, 20*second)
	early.Fate, early.HangAfter = OutcomeHung, 30*second
	killed := job("killed", 52*second, 1000*second)
	killed.Fate, killed.Work = OutcomeKilled, 40*second
	result := run(t, policy(t, "optimal"), DefaultConfig(1), hung, early, killed)
	want := []JobResult{
		{ID: "hung", Weight: 1, MinSize: 1, Alone: 30 * second, Ideal: 30 * second, Start: 0, End: 30 * second,
			Nodes: []NodesAt{{At: 0, Nodes: 1}, {At: 30 * second, Nodes: 0}}, Outcome: OutcomeHung},
		{ID: "early", Weight: 1, MinSize: 1, Alone: 20 * second, Ideal: 20 * second, Submit: 31 * second, Start: 32 * second,
			End: 52 * second, Unserved: second,
			Nodes: []NodesAt{{At: 32 * second, Nodes: 1}, {At: 52 * second, Nodes: 0}}, Outcome: OutcomeCompleted},
		{ID: "killed", Weight: 1, MinSize: 1, Alone: 40 * second, Ideal: 40 * second, Submit: 52 * second, Start: 53 * second,
			End: 93 * second, Unserved: second, Nodes: []NodesAt{{At: 53 * second, Nodes: 1}, {At: 93 * second, Nodes: 0}}, Outcome: OutcomeKilled},
	}
	if diff := cmp.Diff(want, result.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestFixedSizeLargerThanPool(t *testing.T) {
	large := job("a", 0, 100*second)
	large.RequestedNodes = 16
	result := run(t, policy(t, "fifo"), DefaultConfig(3), large)
	if got := times(result.Jobs[0]); got != [2]int64{0, 63} { // 100 / 1.6 on 2 nodes
		t.Errorf("start and end are %v; want 0 and 63", got)
	}
}

func TestRunErrors(t *testing.T) {
	broken := errors.New("broken")
	decision := func(nodes int) allocatorFunc {
		return func(s *solver.Snapshot) (solver.Decision, error) {
			decision := report.DecideNow(s, make([]solver.Option, len(s.Jobs)))
			for i := range decision.Allocations {
				decision.Allocations[i].Nodes = nodes
			}
			return decision, nil
		}
	}
	missing := allocatorFunc(func(s *solver.Snapshot) (solver.Decision, error) {
		decision, err := decision(1)(s)
		decision.Report.Attempts = []solver.Attempt{{
			Backend: solver.BackendExact, Outcome: solver.OutcomeUnavailable, Detail: "gone",
		}}
		return decision, err
	})
	for name, test := range map[string]struct {
		allocator Allocator
		want      string
	}{
		"the allocator": {allocatorFunc(func(*solver.Snapshot) (solver.Decision, error) {
			return solver.Decision{}, broken
		}), "w under optimal on 4 nodes, second 0: broken"},
		"an illegal size": {decision(3), `gives job "a" 3 nodes`},
		"a negative size": {decision(-1), `gives job "a" -1 nodes`},
		"too many nodes":  {decision(8), "gives 8 of 4 nodes"},
		"no allocation": {allocatorFunc(func(*solver.Snapshot) (solver.Decision, error) {
			return solver.Decision{}, nil
		}), "has 0 of 1 jobs"},
		"a backend that is missing": {missing, "the backend is unavailable: gone"},
		"no job ever gets nodes":    {decision(0), "no job has made progress for"},
	} {
		t.Run(name, func(t *testing.T) {
			w := Workload{Name: "w", Jobs: []WorkloadJob{job("a", 0, time.Hour)}}
			_, err := policy(t, "optimal").run(t.Context(), w, DefaultConfig(4), test.allocator)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v; want one with %q", err, test.want)
			}
		})
	}
}

// TestStalledRunNamesJobs checks that a stalled run names exactly the jobs whose nodes change repeatedly.
func TestStalledRunNamesJobs(t *testing.T) {
	for name, test := range map[string]struct {
		swap int // number of jobs that alternate on the only node
		want string
	}{
		"two":  {2, `no job has made progress for 83h25m0s under the decisions of the policy, which keeps resizing "a" and "b"`},
		"five": {5, `which keeps resizing "a", "b", "c" and 2 others`},
		"four": {4, `which keeps resizing "a", "b", "c" and 1 other`},
		"none": {0, `no job has made progress for 83h25m0s under the decisions of the policy`},
	} {
		turn := 0
		policy := allocate(func(jobs int) []int {
			nodes := make([]int, jobs)
			if test.swap > 0 {
				nodes[turn%test.swap] = 1
			}
			turn++
			return nodes
		})
		config := DefaultConfig(1)
		config.ScalingDelay, config.RestartTime = 0, config.Frequency
		w := Workload{Name: "w"}
		for _, id := range []string{"a", "b", "c", "d", "e", "waits"} {
			w.Jobs = append(w.Jobs, job(id, 0, time.Hour))
		}
		_, err := policy.run(t.Context(), w, config, allocatorFunc(func(s *solver.Snapshot) (solver.Decision, error) {
			nodes := make([]int, len(s.Jobs))
			for i := range s.Jobs {
				nodes[i] = s.Jobs[i].CurrentNodes
			}
			return report.DecideNow(s, solver.Nodes(nodes...)), nil
		}))
		if err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: the error is %v; want one that ends with %q", name, err, test.want)
		}
	}
}

// TestRunAfterIdleTime checks that a job that restarts after a long time without jobs is not stalled.
func TestRunAfterIdleTime(t *testing.T) {
	config := DefaultConfig(4)
	config.ScalingDelay, config.RestartTime = 0, 10*time.Minute
	const late = 10 * 24 * time.Hour
	result := run(t, policy(t, "fifo"), config, job("a", 0, time.Minute), job("b", late, time.Hour))
	if got, want := result.Jobs[1].End, late+70*time.Minute; got != want {
		t.Errorf("b completes after %v; want %v", got, want)
	}
}

func TestRunRejectsBadConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"nodes: is 0":            func(c *Config) { c.Nodes = 0 },
		"frequency: is 1.5s":     func(c *Config) { c.Frequency = 1500 * time.Millisecond },
		"frequency: is 0s":       func(c *Config) { c.Frequency = 0 },
		"steps: is 0":            func(c *Config) { c.Steps = 0 },
		"steps: is 25":           func(c *Config) { c.Steps = 25 },
		"scaling_delay: is -1":   func(c *Config) { c.ScalingDelay = -time.Second },
		"scaling_delay: is 5m":   func(c *Config) { c.ScalingDelay = 5 * time.Minute },
		"restart_time: is 1.5s":  func(c *Config) { c.RestartTime = 1500 * time.Millisecond },
		"must be 0s then":        func(c *Config) { c.ScalingDelay, c.RestartTime = second, second },
		"decision_budget: is -1": func(c *Config) { c.DecisionBudget = -1 },
		"ascending":              func(c *Config) { c.Resized = []NodesAt{{At: second, Nodes: 2}, {At: second, Nodes: 4}} },
		"is to 5 nodes":          func(c *Config) { c.Resized = []NodesAt{{At: second, Nodes: 5}, {At: 2 * second, Nodes: 4}} },
		"ends with 2 nodes":      func(c *Config) { c.Resized = []NodesAt{{At: second, Nodes: 2}} },
	} {
		config := DefaultConfig(4)
		change(&config)
		_, err := Run(t.Context(), Workload{}, nil, config, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want one with %q", err, want)
		}
	}
}

func TestRunStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	decisions := 0
	allocator := allocatorFunc(func(s *solver.Snapshot) (solver.Decision, error) {
		if decisions++; decisions == 3 {
			cancel()
		}
		return newAllocator().Allocate(context.Background(), s, solver.Options{})
	})
	w := Workload{Name: "w", Jobs: []WorkloadJob{job("a", 0, 1000*time.Hour)}}
	if _, err := policy(t, "optimal").run(ctx, w, DefaultConfig(4), allocator); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v; want the error of the context", err)
	}
}

// TestRunLimitsDecisions checks that the number of decisions of a run is limited, with a job of 50 years.
func TestRunLimitsDecisions(t *testing.T) {
	config := DefaultConfig(1)
	config.MaxDecisions = 10
	w := Workload{Name: "w", Jobs: []WorkloadJob{job("a", 0, 50*8766*time.Hour)}}
	result, err := policy(t, "greedy").run(t.Context(), w, config, newAllocator())
	if !errors.Is(err, ErrTooManyDecisions) || result != nil {
		t.Errorf("the error is %v; want %v", err, ErrTooManyDecisions)
	}
}

func TestRunWithoutJobs(t *testing.T) {
	if result := run(t, policy(t, "optimal"), DefaultConfig(4)); len(result.Jobs)+len(result.Decisions) != 0 {
		t.Errorf("the result is %+v; want an empty result", result)
	}
}

// TestRunAll checks that results are in the order of the tasks and do not depend on the number of workers.
