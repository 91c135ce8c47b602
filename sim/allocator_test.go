package sim

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/solver"
)

func newAllocator() audittest.Allocator { return audittest.NewAllocator() }

// allocatorFunc is an allocator that calls a function for every decision.
type allocatorFunc func(*solver.Snapshot) (solver.Decision, error)

func (f allocatorFunc) Allocate(_ context.Context, s *solver.Snapshot, _ solver.Options) (solver.Decision, error) {
	return f(s)
}

func (f allocatorFunc) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return f(s)
}

// namedPolicy is a policy with its Terms.
type namedPolicy struct {
	Terms
	Policy
}

// run simulates a workload under the policy.
func (p namedPolicy) run(ctx context.Context, w Workload, config Config, allocator Allocator) (*Result, error) {
	config.Terms = p.Terms
	return Run(ctx, w, p.Policy, config, allocator)
}

// policies returns policies of all kinds.
func policies() []namedPolicy {
	request := func(terms Terms, backend solver.BackendName, objective solver.Objective, admission solver.Admission) namedPolicy {
		return namedPolicy{terms, Request{solver.Options{Backend: backend, Objective: objective, Admission: admission}}}
	}
	const (
		exact     = solver.BackendExact
		progress  = solver.ObjectiveProgress
		totalTime = solver.ObjectiveTotalTime
	)
	return []namedPolicy{
		request(Terms{Name: "greedy"}, solver.BackendGreedy, progress, solver.AdmissionFIFO),
		request(Terms{Name: "optimal"}, exact, progress, solver.AdmissionFIFO),
		request(Terms{Name: "optimal-optimized"}, exact, progress, solver.AdmissionOptimized),
		request(Terms{Name: "optimal-preemptive"}, exact, progress, solver.AdmissionPreemptive),
		request(Terms{Name: "optimal-event", EveryEvent: true}, exact, progress, solver.AdmissionFIFO),
		request(Terms{Name: "total-time", EveryEvent: true, GroupLimits: true}, exact, totalTime, solver.AdmissionStartFirst),
		request(Terms{Name: "total-time-waiting", EveryEvent: true, GroupLimits: true}, exact, totalTime, solver.AdmissionOptimized),
		request(Terms{Name: "total-time-steady", GroupLimits: true}, exact, totalTime, solver.AdmissionFIFO),
		{Terms{Name: "fill-idle", NoRestartBudget: true}, Rule(greedy.FillIdle)},
		{Terms{Name: "fifo", FixedSize: true, NoRestartBudget: true}, Rule(greedy.FillIdle)},
		{Terms{Name: "fifo-event", FixedSize: true, EveryEvent: true, GroupLimits: true, NoRestartBudget: true}, Rule(greedy.FillIdle)},
	}
}

// policy returns the policy with the given name.
func policy(t rapid.TB, name string) namedPolicy {
	t.Helper()
	list := policies()
	i := slices.IndexFunc(list, func(p namedPolicy) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no policy %q", name)
	}
	return list[i]
}

// job returns a job that takes as long as its estimate.
func job(id string, submit, demand time.Duration) WorkloadJob {
	return WorkloadJob{
		ID: id, Submit: submit, Demand: demand, RequestedNodes: 1, UserEstimate: demand, Fate: OutcomeCompleted, Work: demand,
	}
}

// run simulates a workload with the real allocator.
func run(t rapid.TB, p namedPolicy, config Config, jobs ...WorkloadJob) *Result {
	t.Helper()
	result, err := p.run(context.Background(), Workload{Name: "test", Jobs: jobs}, config, newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// inTeam assigns a job to a team.
func inTeam(team string, job WorkloadJob) WorkloadJob {
	job.Group = team
	return job
}
