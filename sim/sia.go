package sim

import (
	"context"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/exact/nodetypes"
)

// Sia's parameters, as published: Jayaram Subramanya et al., "Sia: Heterogeneity-aware,
// goodput-optimized ML-cluster scheduling", SOSP 2023.
const (
	siaRound   = time.Minute
	siaPower   = -0.5
	siaWaiting = -1.1  // worth of no nodes
	siaWorst   = -3000 // worth of any nodes, at least
	siaSlowest = 1e-4  // of a job's speeds relative to its slowest
	siaClock   = 1e6   // work of the solver between two looks at the context
)

// siaOption is nodes that a job may be given, and what they are worth.
type siaOption struct {
	holding
	worth float64
}

// sia is Sia's rule: of all ways to give each job nodes of one type, or none, the one worth
// the most. With ramps a job may hold twice the most that it has held, and one node at first.
func sia(ramps bool) func(context.Context, *solver.Snapshot, []past) ([]holding, Decision, error) {
	return func(ctx context.Context, s *solver.Snapshot, pasts []past) ([]holding, Decision, error) {
		start := time.Now()
		options := make([][]siaOption, len(s.Jobs))
		for i := range s.Jobs {
			options[i] = siaOptions(&s.Jobs[i], s.NodeTypes, pasts[i], ramps)
		}
		holdings, decision, err := bestOptions(ctx, s, options)
		decision.SolveTime = time.Since(start)
		return holdings, decision, err
	}
}

// siaOptions returns what a job may be given and the worth of each: its speed relative to
// the slowest of them, lowered by what a restart costs a job that has often restarted, to the
// power of the policy.
func siaOptions(job *solver.Job, types []solver.NodeType, past past, ramps bool) []siaOption {
	holds := holding{job.CurrentNodes, job.CurrentNodeType}
	slowest := math.Inf(1)
	var options []siaOption        // worth is the speed at first
	first := make(map[string]bool) // whether a type's smallest size has been there
	for to, speed := range optionsOf(*job, types) {
		if ramps && to.nodes > 2*past.mostHeld && first[to.nodeType] && to != holds {
			continue
		}
		first[to.nodeType] = true
		options, slowest = append(options, siaOption{to, speed}), min(slowest, speed)
	}
	age, penalty := (job.TrainingTime + job.WaitingTime).Seconds(), job.RestartTime.Seconds()
	restartFactor := 1.0
	if !job.NeverStarted() && age >= penalty && age > 0 {
		restartFactor = max(age-float64(past.restarts)*penalty, 0) / (age + penalty)
	}
	kept := []siaOption{{worth: siaWaiting}}
	for _, option := range options {
		speed := option.worth / slowest
		if option.holding != holds {
			speed *= restartFactor
		}
		option.worth = -min(-siaWorst, math.RoundToEven(100*math.Pow(max(speed, siaSlowest), siaPower))/100)
		if past.restarting && option.holding == holds {
			return []siaOption{option}
		}
		kept = append(kept, option)
	}
	return kept
}

// bestOptions returns the choice of options that is worth the most, and how good it is.
func bestOptions(ctx context.Context, s *solver.Snapshot, options [][]siaOption) ([]holding, Decision, error) {
	p := nodetypes.Problem{Start: make([]int, len(options))} // none, or what a job must keep
	position := make(map[string]int32)
	for n, t := range s.NodeTypes {
		position[t.ID] = int32(n) // at most solver.MaxNodeTypes
		p.Capacity = append(p.Capacity, t.Nodes)
	}
	plain := func(h holding) nodetypes.Allocation {
		return nodetypes.Allocation{Type: position[h.nodeType], Nodes: int32(h.nodes)} // at most solver.MaxNodes
	}
	for i := range options {
		var list []nodetypes.Option
		for _, o := range options[i] {
			list = append(list, nodetypes.Option{Allocation: plain(o.holding), Value: o.worth})
		}
		job := &s.Jobs[i]
		p.Jobs, p.Current = append(p.Jobs, list), append(p.Current, plain(holding{job.CurrentNodes, job.CurrentNodeType}))
	}
	found := nodetypes.Solve(model.NewClock(ctx, siaClock), &p, nodetypes.DefaultEffort())
	decision := Decision{Reason: solver.ReasonFeasible}
	if (found.Bound-found.Value)/math.Abs(found.Bound) <= solver.OptimalGap {
		decision.Reason = solver.ReasonOptimal
	}
	holdings := make([]holding, len(options))
	for i, n := range found.Choice {
		holdings[i] = options[i][n].holding
	}
	return holdings, decision, ctx.Err()
}
