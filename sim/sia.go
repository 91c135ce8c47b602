package sim

import (
	"context"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/exact/rows"
)

// Sia's parameters, as published: Jayaram Subramanya et al., "Sia: Heterogeneity-aware,
// goodput-optimized ML-cluster scheduling", SOSP 2023.
const (
	siaRound        = time.Minute
	siaPower        = -0.5
	siaQueuedValue  = -1.1  // value of no nodes
	siaMinValue     = -3000 // smallest value of any nodes
	siaMinSpeed     = 1e-4  // smallest speed of a job relative to its slowest
	siaWorkPerCheck = 1e6   // work of the solver between two checks of the context
)

// typeRule returns the allocations of the jobs of a snapshot with node types, given their histories.
type typeRule func(context.Context, *solver.Snapshot, []jobHistory) ([]allocation, Decision, error)

func (r typeRule) decide(ctx context.Context, m *decisionInput) ([]allocation, Decision, error) {
	return r(ctx, m.snapshot, m.histories())
}

// siaOption is a possible allocation of a job and its value.
type siaOption struct {
	allocation
	value float64
}

// sia returns the rule of Sia, which maximizes the sum of the values of the allocations. With ramps, a
// job starts on one node and may have at most twice its largest number of nodes so far.
func sia(ramps bool) typeRule {
	return func(ctx context.Context, s *solver.Snapshot, histories []jobHistory) ([]allocation, Decision, error) {
		start := time.Now()
		options := make([][]siaOption, len(s.Jobs))
		for i := range s.Jobs {
			options[i] = siaOptions(&s.Jobs[i], s.NodeTypes, histories[i], ramps)
		}
		allocations, decision, err := bestOptions(ctx, s, options)
		decision.SolveTime = time.Since(start)
		return allocations, decision, err
	}
}

// siaOptions returns the possible allocations of a job and their values. The value of an allocation is its
// speed relative to the slowest one, multiplied by a restart factor if it is a resize, to the power of
// siaPower.
func siaOptions(job *solver.Job, types []solver.NodeType, history jobHistory, ramps bool) []siaOption {
	current := allocation{job.CurrentNodes, job.CurrentNodeType}
	slowest := math.Inf(1)
	var options []siaOption        // value is the speed at first
	first := make(map[string]bool) // whether the smallest size of a type was added
	for to, speed := range optionsOf(*job, types) {
		if ramps && to.nodes > 2*history.maxNodes && first[to.nodeType] && to != current {
			continue
		}
		first[to.nodeType] = true
		options, slowest = append(options, siaOption{to, speed}), min(slowest, speed)
	}
	age, penalty := (job.TrainingTime + job.WaitingTime).Seconds(), job.RestartTime.Seconds()
	restartFactor := 1.0
	if !job.NeverStarted() && age >= penalty && age > 0 {
		restartFactor = max(age-float64(history.restarts)*penalty, 0) / (age + penalty)
	}
	kept := []siaOption{{value: siaQueuedValue}}
	for _, option := range options {
		speed := option.value / slowest
		if option.allocation != current {
			speed *= restartFactor
		}
		option.value = -min(-siaMinValue, math.RoundToEven(100*math.Pow(max(speed, siaMinSpeed), siaPower))/100)
		if history.restarting && option.allocation == current {
			return []siaOption{option}
		}
		kept = append(kept, option)
	}
	return kept
}

// bestOptions returns the options with the largest sum of values, and whether it is proven optimal.
func bestOptions(ctx context.Context, s *solver.Snapshot, options [][]siaOption) ([]allocation, Decision, error) {
	p := rows.Problem{Start: make([]int, len(options))} // No nodes, or the allocation that a job must keep.
	position := make(map[string]int16)
	for n, t := range s.NodeTypes {
		position[t.ID] = int16(n) // at most solver.MaxNodeTypes
		p.Capacity = append(p.Capacity, t.Nodes)
	}
	plain := func(h allocation) rows.Allocation {
		on := position[h.nodeType]
		return rows.Allocation{Type: on, Row: on, Nodes: int32(h.nodes)} // at most solver.MaxNodes
	}
	for i := range options {
		var list []rows.Option
		for _, o := range options[i] {
			list = append(list, rows.Option{Allocation: plain(o.allocation), Value: o.value})
		}
		job := &s.Jobs[i]
		p.Jobs, p.Current = append(p.Jobs, list), append(p.Current, plain(allocation{job.CurrentNodes, job.CurrentNodeType}))
	}
	found := rows.Solve(model.NewClock(ctx, siaWorkPerCheck), &p, rows.DefaultEffort())
	decision := Decision{Reason: solver.ReasonFeasible}
	if (found.Bound-found.Value)/math.Abs(found.Bound) <= solver.OptimalGap {
		decision.Reason = solver.ReasonOptimal
	}
	allocations := make([]allocation, len(options))
	for i, n := range found.Choice {
		allocations[i] = options[i][n].allocation
	}
	return allocations, decision, ctx.Err()
}
