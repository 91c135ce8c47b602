package workloads

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// AssignTeams returns the workload with its jobs assigned to teams team-1, team-2 and so on. It shuffles
// the users with the seed and assigns them to the teams in rotation. A job without a user counts as a
// separate user. AssignTeams returns an error if there are fewer users than teams. teams is at least 1.
func AssignTeams(w sim.Workload, teams int, seed uint64) (sim.Workload, error) {
	team := make(map[string]string)
	users := make([]string, len(w.Jobs)) // of every job
	var all []string
	for i := range w.Jobs {
		users[i] = "user " + w.Jobs[i].User
		if w.Jobs[i].User == "" {
			users[i] = "job " + w.Jobs[i].ID
		}
		if _, seen := team[users[i]]; !seen {
			team[users[i]] = ""
			all = append(all, users[i])
		}
	}
	if teams > len(all) {
		return sim.Workload{}, fmt.Errorf("%s has %d users; must be at least one for each of %d teams", w.Name, len(all), teams)
	}
	random := rand.New(rand.NewPCG(seed, streamTeams))
	random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	digits := len(strconv.Itoa(teams))
	for n, user := range all {
		team[user] = fmt.Sprintf("team-%0*d", digits, n%teams+1)
	}
	w.Jobs = slices.Clone(w.Jobs)
	for i := range w.Jobs {
		w.Jobs[i].Group = team[users[i]]
	}
	return w, nil
}

// QuotaRule is a rule for dividing a pool into quotas.
type QuotaRule string

// The rules.
const (
	// QuotaByDemand makes quotas proportional to the demand of the jobs of a team, which is known only
	// in hindsight.
	QuotaByDemand QuotaRule = "demand"
	// QuotaEqual makes all quotas equal.
	QuotaEqual QuotaRule = "equal"
)

// Quotas returns the teams of the jobs in order of their names. Each has a quota of at least one node, and
// the quotas add up to nodes. Quotas returns an error if a job has no team or if there are more teams than
// nodes.
func Quotas(w *sim.Workload, rule QuotaRule, nodes int) ([]solver.Group, error) {
	share := make(map[string]float64)
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if job.Group == "" {
			return nil, fmt.Errorf("job %q of %s has no group", job.ID, w.Name)
		}
		switch rule {
		case QuotaByDemand:
			share[job.Group] += job.Demand.Seconds()
		case QuotaEqual:
			share[job.Group] = 1
		default:
			return nil, fmt.Errorf("unknown rule %q for quotas", rule)
		}
	}
	if len(share) > nodes {
		return nil, fmt.Errorf("%s has %d teams; must be at most the %d nodes of the pool", w.Name, len(share), nodes)
	}
	groups, shares := make([]solver.Group, 0, len(share)), make([]float64, 0, len(share))
	for _, id := range slices.Sorted(maps.Keys(share)) {
		groups, shares = append(groups, solver.Group{ID: id}), append(shares, share[id])
	}
	for i, quota := range Apportion(nodes, shares) {
		groups[i].Quota = quota
	}
	return groups, nil
}

// Apportion divides nodes in proportion to shares by the largest remainder method. Shares are at least 0
// and not all 0. A positive share gets at least one node. There are at least as many nodes as positive
// shares.
func Apportion(nodes int, shares []float64) []int {
	sum := 0.0
	for _, share := range shares {
		sum += share
	}
	parts, left := make([]int, len(shares)), nodes
	above := func(i int) float64 { return float64(parts[i]) - shares[i]/sum*float64(nodes) }
	for i, share := range shares {
		parts[i] = int(share / sum * float64(nodes))
		if share > 0 {
			parts[i] = max(parts[i], 1)
		}
		left -= parts[i]
	}
	for ; left != 0; left -= cmp.Compare(left, 0) {
		chosen := -1
		for i := range parts {
			switch {
			case left > 0 && shares[i] > 0 && (chosen < 0 || above(i) < above(chosen)):
				chosen = i
			case left < 0 && parts[i] > 1 && (chosen < 0 || above(i) > above(chosen)):
				chosen = i
			}
		}
		parts[chosen] += cmp.Compare(left, 0)
	}
	return parts
}

// MaxTeamLimit is the largest factor for Limited.
const MaxTeamLimit = 1e6

// Limited returns the groups with limits of times their quotas, rounded.
func Limited(groups []solver.Group, times float64) []solver.Group {
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Limit = new(int(min(math.Round(times*float64(groups[i].Quota)), math.MaxInt32)))
	}
	return groups
}
