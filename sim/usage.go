package sim

import (
	"time"

	"github.com/elastalloc/elastalloc/client/teams"
	"github.com/elastalloc/elastalloc/solver"
)

// newUsage returns the usage of the teams of a pool.
func newUsage(config *Config) (*teams.Usage, error) {
	quotas := make(map[string]float64)
	for _, team := range teamsOf(config.Groups) {
		quotas[team.ID] = float64(team.Quota)
	}
	return teams.NewUsage(teams.Config{HalfLife: config.UsageHalfLife, Quotas: quotas})
}

// observeUsage records the nodes that the teams occupy from now on.
func (s *simulation) observeUsage() {
	if s.usage == nil {
		return
	}
	nodes := make(map[string]int)
	for _, i := range s.active {
		nodes[s.jobs[i].Group] += s.jobs[i].nodes
	}
	s.usage.Observe(time.Unix(0, int64(s.now)), nodes)
}

// weighByUsage multiplies the weights of the jobs of a snapshot by the factors of their teams.
func (s *simulation) weighByUsage(snapshot *solver.Snapshot) {
	s.observeUsage()
	factors := make(map[string]float64)
	for i := range snapshot.Jobs {
		job := &snapshot.Jobs[i]
		if _, known := factors[job.GroupID]; !known {
			factors[job.GroupID] = s.usage.Factor(job.GroupID)
		}
		job.Weight = new(job.WeightOrDefault() * factors[job.GroupID])
	}
}
