package catalog

import (
	"time"

	"github.com/elastalloc/elastalloc/client/teams"
	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// forTeams returns the policies that are compared with total-time in pools that teams share.
func forTeams() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	usage := requesting(sim.Terms{Name: "total-time-usage", EveryEvent: true}, options,
		"total-time with higher weights for teams that used less than their quotas lately, instead of limits").on(TeamPools)
	usage.decide = newUsage
	return []Policy{
		partitioned(requesting(sim.Terms{Name: Partitions, EveryEvent: true},
			options, "total-time in a partition of the pool for every team, by quota")),
		partitioned(ruled(sim.Terms{Name: "fifo-partitions", FixedSize: true}, greedy.FillIdle,
			"fixed sizes, in the order of submission, in a partition of the pool for every team")),
		ruled(sim.Terms{Name: "borrowing", EveryEvent: true, FixedSize: true, GroupLimits: true}, borrowing,
			"fixed sizes, teams borrow unused quota until its owner reclaims it, like Kueue").on(TeamPools),
		ruled(sim.Terms{Name: "borrowing-waiting", EveryEvent: true, FixedSize: true, GroupLimits: true}, borrowingWaiting,
			"borrowing without preemption, so that teams may wait for their quotas").on(TeamPools),
		requesting(sim.Terms{Name: "total-time-open", EveryEvent: true}, options,
			"total-time in one pool for all teams, without regard to teams"),
		requesting(sim.Terms{Name: "total-time-weights", EveryEvent: true}, options,
			"total-time with a weight for each team instead of limits: its quota per active job").on(TeamPools).prepared(weighTeams),
		usage,
	}
}

// weighTeams multiplies the weight of every job by the quota of its team, at least one node, divided
// by the number of the team's jobs.
func weighTeams(s *solver.Snapshot, groups []solver.Group) {
	jobs := make(map[string]float64)
	for i := range s.Jobs {
		jobs[s.Jobs[i].GroupID]++
	}
	weights := make(map[string]float64)
	for _, team := range sim.Teams(groups) {
		weights[team.ID] = float64(max(1, team.Quota)) / max(1, jobs[team.ID])
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		job.Weight = new(job.WeightOrDefault() * weights[job.GroupID])
	}
}

// newUsage returns the policy of one run that multiplies the weights of jobs by the factors of teams.Usage.
func newUsage(o solver.Options, config *sim.Config) (sim.Policy, error) {
	quotas := make(map[string]float64)
	for _, team := range sim.Teams(config.Groups) {
		quotas[team.ID] = float64(team.Quota)
	}
	usage, err := teams.NewUsage(teams.Config{HalfLife: config.UsageHalfLife, Quotas: quotas})
	if err != nil {
		return nil, err
	}
	config.Watch = func(at time.Duration, nodes map[string]int) { usage.Observe(time.Unix(0, int64(at)), nodes) }
	return preparing{sim.Request{Options: o}, func(s *solver.Snapshot) {
		factors := make(map[string]float64)
		for i := range s.Jobs {
			job := &s.Jobs[i]
			if _, known := factors[job.GroupID]; !known {
				factors[job.GroupID] = usage.Factor(job.GroupID)
			}
			job.Weight = new(job.WeightOrDefault() * factors[job.GroupID])
		}
	}}, nil
}

// partitioned returns a policy that divides the pool among the teams and decides on each partition alone.
func partitioned(p Policy) Policy {
	p.Pools, p.check, p.run = TeamPools, checkPartitions, runPartitions
	return p
}
