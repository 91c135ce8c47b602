package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Decider decides how many nodes every job has. It is a Request, a Rule or a Session, or decides about node types.
type Decider interface {
	// decide returns the allocation of every job and the facts of the decision.
	decide(ctx context.Context, m *decisionInput) ([]allocation, Decision, error)
}

// decisionInput is the state of a simulation at a decision.
type decisionInput struct {
	snapshot  *solver.Snapshot
	allocator Allocator
	// histories returns the histories of the jobs of the snapshot.
	histories func() []jobHistory
	// budget is the time budget of a call of the Allocator.
	budget time.Duration
	// everyEvent is Policy.EveryEvent.
	everyEvent bool
	// observe, if set, is called with a decision of the Allocator.
	observe Observer
}

// jobHistory is what Sia's rule needs to know of a job in addition to a snapshot.
type jobHistory struct {
	restarts   int  // resizes after the start
	maxNodes   int  // the largest number of nodes so far
	restarting bool // whether the job is restarting now
}

// decide makes a checked decision of a policy.
func (p *Policy) decide(ctx context.Context, m *decisionInput) ([]allocation, Decision, error) {
	m.everyEvent = p.EveryEvent
	allocations, decision, err := p.Decider.decide(ctx, m)
	if err != nil {
		return nil, decision, err
	}
	decision.Jobs = len(m.snapshot.Jobs)
	return allocations, decision, checkAllocations(m.snapshot, allocations)
}

// Rule returns the option of every job of a valid snapshot, in the order of its jobs, which is the
// order of submission. Each option is a legal size or no nodes. Their sum fits the pool.
type Rule func(*solver.Snapshot) []solver.Option

func (r Rule) decide(_ context.Context, m *decisionInput) ([]allocation, Decision, error) {
	start := time.Now()
	allocations := optionAllocations(m.snapshot, r(m.snapshot))
	return allocations, Decision{SolveTime: time.Since(start), Reason: solver.ReasonHeuristic}, nil
}

// Request calls the Allocator of the run.
type Request struct {
	// Options are the options of the calls.
	Options solver.Options
}

func (r Request) decide(ctx context.Context, m *decisionInput) ([]allocation, Decision, error) {
	options := r.Options
	options.TimeBudget = m.budget
	if !m.everyEvent {
		options = options.WithCadence(m.snapshot.Horizon.Step)
	}
	options.NoBound = true // A simulation does not use the bound of a greedy decision.
	decision, err := m.allocator.Allocate(ctx, m.snapshot, options)
	if err != nil {
		return nil, Decision{}, err
	}
	if m.observe != nil {
		m.observe(m.snapshot, decision)
	}
	report := decision.Report
	for _, attempt := range report.Attempts {
		// A fallback backend would make the results of this policy misleading.
		if attempt.Backend == r.Options.Backend && attempt.Outcome == solver.OutcomeUnavailable {
			return nil, Decision{}, fmt.Errorf("the backend is unavailable: %s", attempt.Detail)
		}
	}
	return allocationsOf(decision), Decision{SolveTime: report.SolveTime, Reason: report.Reason, Prices: report.NodePrices}, nil
}

// Session calls an Allocator of its own, which may have a state.
type Session struct {
	// Options are the options of the calls.
	Options solver.Options
	// Open returns the Allocator of one run, and a function that is called after the run.
	Open func() (Allocator, func() error, error)
}

func (s Session) decide(ctx context.Context, m *decisionInput) ([]allocation, Decision, error) {
	m.observe = nil
	return Request{s.Options}.decide(ctx, m)
}
