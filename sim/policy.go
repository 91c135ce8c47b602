package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Decider makes decisions: the server's Allocate, in this process or at a server.
type Decider interface {
	Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
}

// Policy decides at scaling moments how many nodes every job holds: by asking the
// Decider or, for a comparator, by a rule of its own. It has no state, and knows
// of the jobs what a snapshot tells.
type Policy struct {
	// Name is what flags and results call it.
	Name string
	// Description says in a line what it does.
	Description string
	// Options are what the Decider is asked with; not used where there is a Rule.
	Options *elastallocv1.AllocateOptions
	// Rule is the rule of a comparator.
	Rule Rule
	// FixedSize gives every job the nodes it asked for as its only legal size.
	FixedSize bool
	// RankByETA tells the Decider a job's remaining ETA in the place of its
	// training time. The greedy allocator, which ranks by training time and looks
	// at no ETA, then ranks by remaining ETA.
	RankByETA bool
	// EveryEvent makes decisions also one second after a job was submitted or
	// ended, in the place of the regular-time rule.
	EveryEvent bool
}

// Rule returns the nodes of every job of a valid snapshot, whose jobs are in the
// order of submission: each a legal size or 0, together within the pool.
type Rule func(*solver.Snapshot) []int

// Policies returns all policies: the paper's two, variants of them, and
// comparators. To add one is to add it here.
func Policies() []Policy {
	options := func(backend elastallocv1.Backend, admission elastallocv1.Admission) *elastallocv1.AllocateOptions {
		return &elastallocv1.AllocateOptions{Backend: backend, Admission: admission}
	}
	const (
		exact  = elastallocv1.Backend_BACKEND_EXACT
		cbc    = elastallocv1.Backend_BACKEND_CBC
		highs  = elastallocv1.Backend_BACKEND_HIGHS
		greedy = elastallocv1.Backend_BACKEND_GREEDY

		fifo       = elastallocv1.Admission_ADMISSION_FIFO
		optimized  = elastallocv1.Admission_ADMISSION_OPTIMIZED
		preemptive = elastallocv1.Admission_ADMISSION_PREEMPTIVE
	)
	return []Policy{
		{
			Name: "optimal", Options: options(exact, fifo),
			Description: "the optimum of the paper's model, by the embedded exact backend",
		},
		{
			Name: "optimal-cbc", Options: options(cbc, fifo),
			Description: "the same, by CBC",
		},
		{
			Name: "optimal-highs", Options: options(highs, fifo),
			Description: "the same, by HiGHS",
		},
		{
			Name: "optimal-optimized", Options: options(exact, optimized),
			Description: "the optimum where queued jobs may be left waiting",
		},
		{
			Name: "optimal-preemptive", Options: options(exact, preemptive),
			Description: "the optimum where running jobs may be preempted as well",
		},
		{
			Name: "optimal-event", Options: options(exact, fifo), EveryEvent: true,
			Description: "optimal that decides at every submission and end of a job, too",
		},
		{
			Name: "greedy", Options: options(greedy, fifo),
			Description: "the rules that the paper compares with; ranks by training time",
		},
		{
			Name: "greedy-eta", Options: options(greedy, fifo), RankByETA: true,
			Description: "greedy that ranks by remaining ETA",
		},
		{
			Name: "fifo", Rule: FirstInFirstOut, FixedSize: true,
			Description: "fixed sizes, in the order of arrival",
		},
		{
			Name: "srpt", Rule: ShortestRemaining, FixedSize: true,
			Description: "fixed sizes, the shortest remaining first, preemptive",
		},
		{
			Name: "max-min", Rule: MaxMin,
			Description: "equal shares as far as sizes allow",
		},
		{
			Name: "hesrpt", Rule: HeSRPT,
			Description: "heSRPT, the best mean time for divisible nodes, rounded to sizes",
		},
	}
}

// FindPolicy returns the policy of a name.
func FindPolicy(name string) (Policy, error) {
	policies := Policies()
	names := make([]string, len(policies))
	for i, policy := range policies {
		if policy.Name == name {
			return policy, nil
		}
		names[i] = policy.Name
	}
	return Policy{}, fmt.Errorf("there is no policy %q; want one of %s", name, strings.Join(names, ", "))
}

// decide returns the nodes of every job at a scaling moment and what is known of
// the decision. observe, which may be nil, is shown a Decider's decision.
func (p *Policy) decide(
	ctx context.Context, decider Decider, s *solver.Snapshot, budget time.Duration, observe Observer,
) ([]int, Decision, error) {
	decision := Decision{Jobs: len(s.Jobs)}
	if p.Rule != nil {
		start := time.Now()
		nodes := p.Rule(s)
		decision.SolveTime = time.Since(start)
		decision.Reason = elastallocv1.Reason_REASON_HEURISTIC
		return nodes, decision, checkNodes(s, nodes)
	}
	request := &elastallocv1.AllocateRequest{Snapshot: convertSnapshot(s), Options: proto.CloneOf(p.Options)}
	if budget > 0 {
		request.Options.TimeBudget = durationpb.New(budget)
	}
	nodes, report, err := ask(ctx, decider, s, request, observe)
	if err != nil {
		return nil, decision, err
	}
	for _, attempt := range report.GetAttempts() {
		// Another backend's decisions under this policy's name would mislead.
		if attempt.GetBackend() == p.Options.GetBackend() &&
			attempt.GetOutcome() == elastallocv1.Outcome_OUTCOME_UNAVAILABLE {
			return nil, decision, fmt.Errorf("the backend is unavailable: %s", attempt.GetDetail())
		}
	}
	decision.SolveTime = report.GetSolveTime().AsDuration()
	decision.Backend = report.GetBackend()
	decision.Reason = report.GetReason()
	decision.RelativeGap = report.GetRelativeGap()
	return nodes, decision, nil
}

// fillIdle returns the nodes of every job after the regular-time rule, which is
// the Decider's too.
func fillIdle(ctx context.Context, decider Decider, s *solver.Snapshot) ([]int, error) {
	nodes, _, err := ask(ctx, decider, s, &elastallocv1.AllocateRequest{
		Snapshot: convertSnapshot(s),
		Options:  &elastallocv1.AllocateOptions{Mode: elastallocv1.Mode_MODE_FILL_IDLE},
	}, nil)
	return nodes, err
}

// ask has the Decider decide and checks its answer.
func ask(
	ctx context.Context, decider Decider, s *solver.Snapshot, request *elastallocv1.AllocateRequest, observe Observer,
) ([]int, *elastallocv1.SolveReport, error) {
	response, err := decider.Allocate(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	if observe != nil {
		observe(request, response)
	}
	nodes := make([]int, len(response.GetAllocations()))
	for i, allocation := range response.GetAllocations() {
		nodes[i] = int(allocation.GetNodes())
	}
	return nodes, response.GetReport(), checkNodes(s, nodes)
}

// checkNodes returns nil if nodes can be carried out.
func checkNodes(s *solver.Snapshot, nodes []int) error {
	if len(nodes) != len(s.Jobs) {
		return fmt.Errorf("a decision speaks of %d of %d jobs", len(nodes), len(s.Jobs))
	}
	total := 0
	for i, n := range nodes {
		if n != 0 && n != s.Jobs[i].CurrentNodes && !isLegal(&s.Jobs[i], n) {
			return fmt.Errorf("a decision gives job %q %d nodes, no legal size", s.Jobs[i].ID, n)
		}
		total += n
	}
	if total > s.TotalNodes {
		return fmt.Errorf("a decision gives %d of %d nodes", total, s.TotalNodes)
	}
	return nil
}

func isLegal(job *solver.Job, nodes int) bool {
	for _, size := range job.LegalSizes() {
		if size == nodes {
			return true
		}
	}
	return false
}

// convertSnapshot converts a snapshot into the API's terms. Scaling and weight are
// the defaults in a simulation, and so is their absence.
func convertSnapshot(s *solver.Snapshot) *elastallocv1.Snapshot {
	converted := &elastallocv1.Snapshot{
		Id:         s.ID,
		TotalNodes: int32(s.TotalNodes),
		Horizon: &elastallocv1.Horizon{
			Step:  durationpb.New(s.Horizon.Step),
			Steps: proto.Int32(int32(s.Horizon.Steps)),
		},
		Jobs: make([]*elastallocv1.Job, len(s.Jobs)),
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		converted.Jobs[i] = &elastallocv1.Job{
			Id:           job.ID,
			RemainingEta: durationpb.New(job.RemainingETA),
			MinNodes:     proto.Int32(int32(job.MinNodes)),
			MaxNodes:     proto.Int32(int32(job.MaxNodes)),
			CurrentNodes: int32(job.CurrentNodes),
			TrainingTime: durationpb.New(job.TrainingTime),
		}
		for _, size := range job.AllowedNodes {
			converted.Jobs[i].AllowedNodes = append(converted.Jobs[i].AllowedNodes, int32(size))
		}
		if job.RescaleDelay > 0 {
			converted.Jobs[i].RescaleDelay = durationpb.New(job.RescaleDelay)
		}
	}
	return converted
}
