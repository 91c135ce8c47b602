package sim

import (
	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
)

// teamPolicies are what the groups of this project are compared with where teams share a
// pool.
func teamPolicies() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	return []Policy{
		{
			Name: PartitionsPolicy, Options: options, EveryEvent: true, NeedsTeams: true, Partitioned: true,
			Description: "total-time in a partition of the pool for every team, by quota",
		},
		{
			Name: "fifo-partitions", Decide: greedy.FillIdle, FixedSize: true, NeedsTeams: true, Partitioned: true,
			Description: "fixed sizes, in the order of arrival, in those partitions",
		},
		{
			Name: "borrowing", Decide: borrowing, FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "fixed sizes, teams borrow what others leave of their quotas until they reclaim it, as Kueue",
		},
		{
			Name: "borrowing-waiting", Decide: borrowingWaiting, FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "borrowing where no job loses its nodes, so that teams wait for their quotas",
		},
		{
			Name: "total-time-open", Options: options, EveryEvent: true,
			Description: "total-time in one pool for all teams, that knows of none",
		},
		{
			Name: "total-time-weights", Options: options, EveryEvent: true, Prepare: weighTeams, NeedsTeams: true,
			Description: "total-time that knows of teams only by weights: quota by the jobs the team has now",
		},
	}
}

// weighTeams gives every job a weight for its team: the team's quota, at least one node, by
// the number of its jobs.
func weighTeams(s *solver.Snapshot, groups []solver.Group) {
	jobs := make(map[string]float64)
	for i := range s.Jobs {
		jobs[s.Jobs[i].GroupID]++
	}
	weights := make(map[string]float64)
	for _, team := range teamsOf(groups) {
		weights[team.ID] = float64(max(1, team.Quota)) / max(1, jobs[team.ID])
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		job.Weight = new(job.WeightOrDefault() * weights[job.GroupID])
	}
}
