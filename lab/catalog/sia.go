package catalog

import (
	"context"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/sim"
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

// siaOption is a possible allocation of a job and its value.
type siaOption struct {
	nodes    int
	nodeType string
	value    float64
}

// is reports whether the option is an allocation.
func (o siaOption) is(nodes int, nodeType string) bool {
	return o.nodes == nodes && o.nodeType == nodeType
}

// sia is the policy of Sia, which maximizes the sum of the values of the allocations. If ramps is set, a
// job starts on one node and may have at most twice its largest number of nodes so far.
type sia struct{ ramps bool }

// Decide returns the decision of Sia.
func (p sia) Decide(ctx context.Context, in sim.Input) (solver.Decision, error) {
	start := time.Now()
	s := in.Snapshot
	options := make([][]siaOption, len(s.Jobs))
	for i := range s.Jobs {
		options[i] = siaOptions(&s.Jobs[i], s.NodeTypes, in.Job(i), p.ramps)
	}
	decision, err := bestOptions(ctx, s, options)
	decision.Report.SolveTime = time.Since(start)
	return decision, err
}

// siaOptions returns the possible allocations of a job and their values. The value of an allocation is its
// speed relative to the slowest one, multiplied by a restart factor if it is a resize, to the power of
// siaPower.
func siaOptions(job *solver.Job, types []solver.NodeType, state sim.JobState, ramps bool) []siaOption {
	slowest := math.Inf(1)
	var options []siaOption        // value is the speed at first
	first := make(map[string]bool) // whether the smallest size of a type was added
	for _, option := range optionsOf(*job, types) {
		if ramps && option.nodes > 2*state.LargestNodes && first[option.nodeType] && !option.is(job.CurrentNodes, job.CurrentNodeType) {
			continue
		}
		first[option.nodeType] = true
		options, slowest = append(options, option), min(slowest, option.value)
	}
	age, penalty := (job.TrainingTime + job.WaitingTime).Seconds(), job.RestartTime.Seconds()
	restartFactor := 1.0
	if !job.NeverStarted() && age >= penalty && age > 0 {
		restartFactor = max(age-float64(state.Restarts)*penalty, 0) / (age + penalty)
	}
	kept := []siaOption{{value: siaQueuedValue}}
	for _, option := range options {
		speed := option.value / slowest
		isCurrent := option.is(job.CurrentNodes, job.CurrentNodeType)
		if !isCurrent {
			speed *= restartFactor
		}
		option.value = -min(-siaMinValue, math.RoundToEven(100*math.Pow(max(speed, siaMinSpeed), siaPower))/100)
		if state.Restarting && isCurrent {
			return []siaOption{option}
		}
		kept = append(kept, option)
	}
	return kept
}

// optionsOf returns the legal allocations of a job in a pool of node types. Their values are its speeds relative to one
// reference node.
func optionsOf(job solver.Job, types []solver.NodeType) []siaOption {
	var options []siaOption
	for n := range types {
		there, factor, runs := job.ForType(&types[n])
		if !runs {
			continue
		}
		for _, size := range there.LegalSizes() {
			if size <= types[n].Nodes {
				options = append(options, siaOption{size, types[n].ID, factor * there.Speed(size)})
			}
		}
	}
	return options
}

// bestOptions returns the options with the largest sum of values, and whether it is proven optimal.
func bestOptions(ctx context.Context, s *solver.Snapshot, options [][]siaOption) (solver.Decision, error) {
	p := rows.Problem{Start: make([]int, len(options))} // No nodes, or the allocation that a job must keep.
	position := make(map[string]int16)
	for n, t := range s.NodeTypes {
		position[t.ID] = int16(n) // at most solver.MaxNodeTypes
		p.Capacity = append(p.Capacity, t.Nodes)
	}
	plain := func(nodes int, nodeType string) rows.Allocation {
		on := position[nodeType]
		return rows.Allocation{Type: on, Row: on, Nodes: int32(nodes)} // at most solver.MaxNodes
	}
	for i := range options {
		var list []rows.Option
		for _, o := range options[i] {
			list = append(list, rows.Option{Allocation: plain(o.nodes, o.nodeType), Value: o.value})
		}
		job := &s.Jobs[i]
		p.Jobs, p.Current = append(p.Jobs, list), append(p.Current, plain(job.CurrentNodes, job.CurrentNodeType))
	}
	found := rows.Solve(model.NewClock(ctx, siaWorkPerCheck), &p, rows.DefaultEffort())
	decision := solver.Decision{Allocations: make([]solver.Allocation, len(options))}
	decision.Report.Reason = solver.ReasonFeasible
	if (found.Bound-found.Value)/math.Abs(found.Bound) <= solver.OptimalGap {
		decision.Report.Reason = solver.ReasonOptimal
	}
	for i, n := range found.Choice {
		decision.Allocations[i] = solver.Allocation{Nodes: options[i][n].nodes, NodeType: options[i][n].nodeType}
	}
	return decision, ctx.Err()
}
