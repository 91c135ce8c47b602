package catalog

import (
	"context"
	"math"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// forTypes returns the policies that are compared with total-time in pools with node types.
func forTypes() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	pools := requesting(sim.Terms{Name: TypePartitions, EveryEvent: true, AssignType: fastestAtItsShare}, options,
		"total-time in a separate pool for every node type; jobs are assigned to a type at submission")
	pools.decide = func(o solver.Options, _ *sim.Config) (sim.Policy, error) {
		return typePools{sim.Request{Options: o}}, nil
	}
	teamPools := partitioned(pools)
	teamPools.Name, teamPools.Pools = TeamTypePartitions, TypedTeamPools
	teamPools.Description = "total-time in a separate pool for every team and node type, by quota; jobs are assigned to a type at submission"
	ofSia := func(name, description string, p sia) Policy {
		return Policy{
			Terms: sim.Terms{Name: name, EveryEvent: true}, Description: description, Rounds: siaRound,
			Options: solver.Options{Backend: solver.BackendExact},
			decide:  func(solver.Options, *sim.Config) (sim.Policy, error) { return p, nil },
		}
	}
	return []Policy{
		pools.on(TypedPools),
		teamPools,
		requesting(sim.Terms{Name: "type-kept", EveryEvent: true, KeepType: true},
			options, "total-time without changes of the node type of a job").on(TypedPools),
		ofSia("sia", "the optimum of Sia's objective every minute, with known speeds", sia{}).on(TypedPools),
		ofSia("sia-ramp", "sia with its scale-up rule: jobs start on one node and at most double their largest size",
			sia{ramps: true}).on(TypedPools),
	}
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

// typePools is a policy that decides on each node type as a separate pool, with the jobs that are assigned to it.
type typePools struct{ sim.Policy }

// Decide returns the decisions about all pools, which count as one.
func (p typePools) Decide(ctx context.Context, in sim.Input) (solver.Decision, error) {
	s := in.Snapshot
	all := solver.Decision{Allocations: make([]solver.Allocation, len(s.Jobs))}
	all.Report.Reason, all.Report.NodePrices = solver.ReasonOptimal, make([]float64, len(s.NodeTypes))
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
			job.RemainingETA = max(sim.Scale(job.RemainingETA, 1/factor), 1)
			pool.Jobs, pinned = append(pool.Jobs, job), append(pinned, i)
		}
		if len(pinned) == 0 {
			continue
		}
		in.Snapshot = &pool
		decision, err := p.Policy.Decide(ctx, in)
		if err != nil {
			return solver.Decision{}, err
		}
		for k, i := range pinned {
			all.Allocations[i] = solver.Allocation{Nodes: decision.Allocations[k].Nodes, NodeType: nodeType.ID}
		}
		report := &decision.Report
		all.Report.SolveTime += report.SolveTime
		if report.Reason != solver.ReasonOptimal {
			all.Report.Reason = report.Reason
		}
		if len(report.NodePrices) > 0 {
			all.Report.NodePrices[n] = report.NodePrices[0]
		}
	}
	return all, nil
}
