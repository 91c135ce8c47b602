package sim

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// borrowing shares the pool among teams with jobs of one size as Kueue does, where each
// team is a ClusterQueue whose quota is its nominal quota, with one cohort for all and
// reclaimWithinCohort Any:
//
//   - The first job in each team's queue is considered, those that their team's quota
//     covers before those that borrow, the one submitted first among these. It starts if
//     the pool and the limits have room; otherwise the next of its team is considered
//     (BestEffortFIFO).
//   - A job that its team's quota covers and that finds no room reclaims it: jobs of teams
//     above their quotas lose their nodes, the one that has trained the least first, and
//     no more of them than needed. They keep what they have done.
func borrowing(s *solver.Snapshot) []solver.Option {
	c := newCohort(s)
	c.admit(true)
	// Those that lost their nodes are in the queue again, and may find what others left.
	clear(c.blocked)
	return c.admit(false)
}

// borrowingWaiting is borrowing where no job loses its nodes, Kueue's default.
func borrowingWaiting(s *solver.Snapshot) []solver.Option { return newCohort(s).admit(false) }

// cohort is the jobs of a snapshot while they are admitted.
type cohort struct {
	jobs  []solver.Job
	teams []solver.Group
	above [][]int // of each job: its team and all groups above
	nodes []int
	idle  int
	used  []int // by each group
	// blocked jobs have found no room, and evicted ones made room.
	blocked, evicted []bool
}

func newCohort(s *solver.Snapshot) *cohort {
	c := &cohort{
		jobs: s.Jobs, teams: s.Groups, above: make([][]int, len(s.Jobs)), nodes: make([]int, len(s.Jobs)),
		idle: s.TotalNodes, used: make([]int, len(s.Groups)),
		blocked: make([]bool, len(s.Jobs)), evicted: make([]bool, len(s.Jobs)),
	}
	for i := range s.Jobs {
		c.above[i] = groupsAbove(s.Groups, s.Jobs[i].GroupID)
		c.give(i, s.Jobs[i].CurrentNodes)
	}
	// Where the pool has shrunk, the jobs listed last lose their nodes, as in FillIdle.
	for i := len(s.Jobs) - 1; c.idle < 0; i-- {
		c.give(i, 0)
	}
	return c
}

func (c *cohort) give(i, nodes int) {
	more := nodes - c.nodes[i]
	c.nodes[i] = nodes
	c.idle -= more
	for _, g := range c.above[i] {
		c.used[g] += more
	}
}

func (c *cohort) size(i int) int { return c.jobs[i].LegalSizes()[0] }

// fits reports whether the pool and the limits have room for a job.
func (c *cohort) fits(i int) bool {
	for _, g := range c.above[i] {
		if limit := c.teams[g].Limit; limit != nil && c.used[g]+c.size(i) > *limit {
			return false
		}
	}
	return c.size(i) <= c.idle
}

// borrows reports whether more nodes take a job's team beyond its quota.
func (c *cohort) borrows(i, more int) bool {
	team := c.above[i][0]
	return c.used[team]+more > c.teams[team].Quota
}

// admit starts jobs until no more can start, and returns the option of each.
func (c *cohort) admit(reclaim bool) []solver.Option {
	for {
		next := c.next()
		switch {
		case next < 0:
			return solver.Nodes(c.nodes...)
		case c.fits(next):
			c.give(next, c.size(next))
		case reclaim && !c.borrows(next, c.size(next)) && c.reclaim(next):
			c.give(next, c.size(next))
			// There may be more room than it took, and less above quotas.
			copy(c.blocked, c.evicted)
		default:
			c.blocked[next] = true
		}
	}
}

// next returns the next job to consider, or -1.
func (c *cohort) next() int {
	next := -1
	seen := make([]bool, len(c.teams))
	for i := range c.jobs {
		if c.nodes[i] > 0 || c.blocked[i] || seen[c.above[i][0]] {
			continue
		}
		seen[c.above[i][0]] = true
		if next < 0 || c.borrows(next, c.size(next)) && !c.borrows(i, c.size(i)) {
			next = i
		}
	}
	return next
}

// reclaim makes room for a job and reports whether it could.
func (c *cohort) reclaim(claimant int) bool {
	var running []int
	for i := range c.jobs {
		if c.nodes[i] > 0 && c.above[i][0] != c.above[claimant][0] {
			running = append(running, i)
		}
	}
	slices.SortFunc(running, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.jobs[a].TrainingTime, c.jobs[b].TrainingTime), cmp.Compare(b, a))
	})
	type held struct{ job, nodes int }
	var taken []held
	for _, i := range running {
		if c.fits(claimant) {
			break
		}
		if c.borrows(i, 0) {
			taken = append(taken, held{i, c.nodes[i]})
			c.give(i, 0)
		}
	}
	enough := c.fits(claimant)
	for _, back := range slices.Backward(taken) {
		c.give(back.job, back.nodes)
		if !enough || c.fits(claimant) {
			continue // It need not have lost them.
		}
		c.give(back.job, 0)
		c.evicted[back.job], c.blocked[back.job] = true, true
	}
	return enough
}
