package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// TypePartitionsPolicy is the name of the policy of a pool for each node type.
const TypePartitionsPolicy = "type-partitions"

// typePolicies are what total-time is compared with where there are node types.
func typePolicies() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	return []Policy{
		{
			Name: TypePartitionsPolicy, Options: options, EveryEvent: true, NeedsTypes: true, pin: fastestAtItsShare,
			Description: "total-time in a pool for every node type, to one of which each job goes when it is submitted",
		},
		{
			Name: "type-kept", Options: options, EveryEvent: true, NeedsTypes: true, KeepsType: true,
			Description: "total-time where no job moves to another node type than it started on",
		},
		{
			Name: "sia", NeedsTypes: true, EveryEvent: true, Rounds: siaRound, decideTypes: sia(false),
			Description: "the optimum of Sia's objective every minute, on the speeds told",
		},
		{
			Name: "sia-ramp", NeedsTypes: true, EveryEvent: true, Rounds: siaRound, decideTypes: sia(true),
			Description: "sia where a job starts on one node and may double what it has held, as published",
		},
	}
}

// knowsTypes reports whether the policy can decide on a pool of node types.
func (p *Policy) knowsTypes() bool {
	return p.NeedsTypes || p.Teams && !p.NeedsTeams
}

// speedsOn returns the speeds of a job on one type alone.
func speedsOn(speeds []solver.TypeSpeed, nodeType string) []solver.TypeSpeed {
	for i := range speeds {
		if speeds[i].NodeType == nodeType {
			return speeds[i : i+1]
		}
	}
	return []solver.TypeSpeed{{NodeType: nodeType}}
}

// speedsAmong returns the speeds of a job on those types that a cluster has, where it has types.
func speedsAmong(speeds []solver.TypeSpeed, types []solver.NodeType) []solver.TypeSpeed {
	if len(types) == 0 {
		return speeds
	}
	return slices.DeleteFunc(slices.Clone(speeds), func(speed solver.TypeSpeed) bool {
		return !slices.ContainsFunc(types, func(t solver.NodeType) bool { return t.ID == speed.NodeType })
	})
}

// fastestAtItsShare returns the type on which a job would be the fastest if the type's nodes
// were shared out equally among the jobs there.
func fastestAtItsShare(s *solver.Snapshot, job solver.Job) string {
	best, fastest := "", 0.0
	for n := range s.NodeTypes {
		nodeType := &s.NodeTypes[n]
		pinned := 1
		for i := range s.Jobs {
			if s.Jobs[i].Speeds[0].NodeType == nodeType.ID {
				pinned++
			}
		}
		there, factor, runs := job.ForType(nodeType)
		if !runs {
			continue
		}
		if speed := factor * speedOfShare(&there, nodeType.Nodes, float64(nodeType.Nodes)/float64(pinned)); speed > fastest {
			best, fastest = nodeType.ID, speed
		}
	}
	return best
}

// speedOfShare returns the speed of a job, relative to one node, on nodes that need not be
// whole: on a straight line of logarithms between sizes, of which one that is slower than a
// smaller one counts as that. It is 0 for a job that the pool cannot hold.
func speedOfShare(job *solver.Job, pool int, nodes float64) float64 {
	at, speed := 0.0, 0.0 // the size below, and the best speed up to it
	for _, size := range job.LegalSizes() {
		if size > pool {
			break
		}
		next := max(speed, job.Speed(size))
		if k := float64(size); nodes < k {
			if at == 0 {
				return next * nodes / k
			}
			return speed * math.Pow(next/speed, math.Log(nodes/at)/math.Log(k/at))
		}
		at, speed = float64(size), next
	}
	return speed
}

// askPools has the Allocator decide on the jobs pinned to each type, in a pool of its own
// whose nodes are the reference. The decisions count as one.
func (p *Policy) askPools(
	ctx context.Context, allocator Allocator, s *solver.Snapshot, budget time.Duration, observe Observer,
) ([]holding, Decision, error) {
	holdings := make([]holding, len(s.Jobs))
	all := Decision{Reason: solver.ReasonOptimal, Prices: make([]float64, len(s.NodeTypes))}
	for n := range s.NodeTypes {
		nodeType := &s.NodeTypes[n]
		pool := solver.Snapshot{ID: s.ID, TotalNodes: nodeType.Nodes, Horizon: s.Horizon}
		var pinned []int
		for i := range s.Jobs {
			if s.Jobs[i].Speeds[0].NodeType != nodeType.ID {
				continue
			}
			job, factor, _ := s.Jobs[i].ForType(nodeType)
			job.RemainingETA = max(scale(job.RemainingETA, 1/factor), 1)
			pool.Jobs, pinned = append(pool.Jobs, job), append(pinned, i)
		}
		if len(pinned) == 0 {
			continue
		}
		there, decision, err := p.ask(ctx, allocator, &pool, budget, observe)
		if err != nil {
			return nil, all, err
		}
		for k, i := range pinned {
			if there[k].nodes > 0 {
				holdings[i] = holding{there[k].nodes, nodeType.ID}
			}
		}
		all.SolveTime += decision.SolveTime
		if decision.Reason != solver.ReasonOptimal {
			all.Reason = decision.Reason
		}
		if len(decision.Prices) > 0 {
			all.Prices[n] = decision.Prices[0]
		}
	}
	return holdings, all, nil
}

// suitsTypes returns an error if a policy and the node types of a pool do not go together, or
// if no type has room for a job.
func (w *Workload) suitsTypes(policy *Policy, config *Config) error {
	if len(config.NodeTypes) == 0 {
		if policy.NeedsTypes {
			return fmt.Errorf("the policy %s needs node types", policy.Name)
		}
		return nil
	}
	if len(config.Groups) > 0 {
		return errors.New("node types are set beside teams; want one of the two")
	}
	if !policy.knowsTypes() && (policy.Name != RecordedPolicy || !w.recordsTypes()) {
		typed := slices.DeleteFunc(Policies(), func(p Policy) bool { return !p.knowsTypes() })
		return fmt.Errorf("the policy %s knows no node types (want some of %s)", policy.Name, strings.Join(PolicyNames(typed), ", "))
	}
	for i := range w.Jobs {
		job, fits := &w.Jobs[i], false
		for range optionsOf(job.Told(), config.NodeTypes) {
			fits = true
			break
		}
		if !fits {
			return fmt.Errorf("job %q of %s has no size that fits a node type of the cluster", job.ID, w.Name)
		}
	}
	return nil
}

// recordsTypes reports whether it is known of which type all nodes were that jobs held.
func (w *Workload) recordsTypes() bool {
	untyped := func(held NodesAt) bool { return held.Nodes > 0 && held.NodeType == "" }
	return !slices.ContainsFunc(w.Jobs, func(job WorkloadJob) bool { return slices.ContainsFunc(job.Recorded, untyped) })
}
