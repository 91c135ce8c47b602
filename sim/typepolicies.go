package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/elastalloc/elastalloc/solver"
)

// TypePartitionsPolicy is the name of the policy with a separate pool for each node type.
const TypePartitionsPolicy = "type-partitions"

// TeamTypePartitionsPolicy is the name of the policy with a separate pool for each team and node type.
const TeamTypePartitionsPolicy = "team-type-partitions"

// typePolicies returns the policies that are compared with total-time in pools with node types.
func typePolicies() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	return []Policy{
		{
			Name: TypePartitionsPolicy, Decider: typePools{Request{options}, fastestAtItsShare}, EveryEvent: true, NeedsTypes: true,
			Description: "total-time in a separate pool for every node type; jobs are assigned to a type at submission",
		},
		{
			Name: "type-kept", Decider: Request{options}, EveryEvent: true, NeedsTypes: true, KeepsType: true,
			Description: "total-time without changes of the node type of a job",
		},
		{
			Name: TeamTypePartitionsPolicy, Decider: typePools{Request{options}, fastestAtItsShare},
			EveryEvent: true, NeedsTypes: true, NeedsTeams: true, Partitioned: true,
			Description: "total-time in a separate pool for every team and node type, by quota; jobs are assigned to a type at submission",
		},
		{
			Name: "sia", NeedsTypes: true, EveryEvent: true, Rounds: siaRound, Decider: sia(false),
			Description: "the optimum of Sia's objective every minute, with known speeds",
		},
		{
			Name: "sia-ramp", NeedsTypes: true, EveryEvent: true, Rounds: siaRound, Decider: sia(true),
			Description: "sia with its scale-up rule: jobs start on one node and at most double their largest size",
		},
	}
}

// knowsTypes reports whether the policy supports node types.
func (p *Policy) knowsTypes() bool {
	_, session := p.Decider.(Session)
	return p.NeedsTypes || session || p.Options().Objective == solver.ObjectiveTotalTime && !p.FixedSize
}

// speedsOn returns the speeds of a job restricted to one node type.
func speedsOn(speeds []solver.TypeSpeed, nodeType string) []solver.TypeSpeed {
	for i := range speeds {
		if speeds[i].NodeType == nodeType {
			return speeds[i : i+1]
		}
	}
	return []solver.TypeSpeed{{NodeType: nodeType}}
}

// speedsAmong returns the speeds of a job restricted to the node types of a cluster, if it has any.
func speedsAmong(speeds []solver.TypeSpeed, types []solver.NodeType) []solver.TypeSpeed {
	if len(types) == 0 {
		return speeds
	}
	return slices.DeleteFunc(slices.Clone(speeds), func(speed solver.TypeSpeed) bool {
		return !slices.ContainsFunc(types, func(t solver.NodeType) bool { return t.ID == speed.NodeType })
	})
}

// fastestAtItsShare returns the node type on which a job would be the fastest if the jobs on each type
// had the same share of its nodes.
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

// speedOfShare returns the speed of a job, relative to one node, on a fractional number of nodes. It
// interpolates log speed over log nodes between legal sizes, after making speeds monotonic. It returns 0
// if the job does not fit the pool.
func speedOfShare(job *solver.Job, pool int, nodes float64) float64 {
	at, speed := 0.0, 0.0 // the previous size, and the largest speed up to it
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

// typePools calls the Allocator for each node type as a separate pool, with the jobs that are assigned to it.
type typePools struct {
	Request
	// assign chooses the node type of a submitted job, given a snapshot of the active jobs.
	assign func(*solver.Snapshot, solver.Job) string
}

// decide returns the decisions about all pools, which count as one.
func (p typePools) decide(ctx context.Context, m *decisionInput) ([]allocation, Decision, error) {
	s := m.snapshot
	allocations := make([]allocation, len(s.Jobs))
	all := Decision{Reason: solver.ReasonOptimal, Prices: make([]float64, len(s.NodeTypes))}
	for n := range s.NodeTypes {
		nodeType := &s.NodeTypes[n]
		pool := solver.Snapshot{ID: s.ID, TotalNodes: nodeType.Nodes, Horizon: s.Horizon}
		for _, limit := range s.SizeLimits {
			if limit.NodeType == nodeType.ID {
				limit.NodeType = ""
				pool.SizeLimits = append(pool.SizeLimits, limit)
			}
		}
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
		in := *m
		in.snapshot = &pool
		there, decision, err := p.Request.decide(ctx, &in)
		if err != nil {
			return nil, all, err
		}
		for k, i := range pinned {
			if there[k].nodes > 0 {
				allocations[i] = allocation{there[k].nodes, nodeType.ID}
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
	return allocations, all, nil
}

// checkTypes returns an error if the policy does not support the node types of the pool, or if a job
// fits no node type.
func (w *Workload) checkTypes(policy *Policy, config *Config) error {
	if len(config.NodeTypes) == 0 {
		if policy.NeedsTypes {
			return fmt.Errorf("the policy %s needs node types", policy.Name)
		}
		return nil
	}
	if !policy.knowsTypes() && (policy.Name != RecordedPolicy || !w.recordsTypes()) {
		typed := slices.DeleteFunc(Policies(), func(p Policy) bool { return !p.knowsTypes() })
		return fmt.Errorf("the policy %s does not support node types (must be one of %s)", policy.Name, strings.Join(PolicyNames(typed), ", "))
	}
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if len(job.smallestOnTypes(config.NodeTypes)) == 0 {
			return fmt.Errorf("job %q of %s has no size that fits a node type of the cluster", job.ID, w.Name)
		}
	}
	return nil
}

// recordsTypes reports whether all recorded allocations have a node type.
func (w *Workload) recordsTypes() bool {
	untyped := func(period NodesAt) bool { return period.Nodes > 0 && period.NodeType == "" }
	return !slices.ContainsFunc(w.Jobs, func(job WorkloadJob) bool { return slices.ContainsFunc(job.Recorded, untyped) })
}
