package catalog

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// borrowing implements the admission of Kueue for jobs of one size. Each team is a ClusterQueue with its
// quota as the nominal quota. All ClusterQueues are in one cohort with reclaimWithinCohort Any:
//
//   - The candidates are the first jobs in the queues of the teams. Jobs within the quota of their team
//     precede jobs that borrow, then the order of submission decides. A candidate starts if the pool and
//     the limits permit. Otherwise the next job of its team becomes a candidate (BestEffortFIFO).
//   - A job within the quota of its team that does not fit preempts jobs of teams above their quotas,
//     jobs with the least training time first, and no more than necessary. Preempted jobs keep their
//     progress.
func borrowing(s *solver.Snapshot) []solver.Option {
	c := newCohort(s)
	c.admit(true)
	// Preempted jobs are in the queue again and may start on remaining nodes.
	clear(c.blocked)
	return c.admit(false)
}

// borrowingWaiting is borrowing without preemption, the default of Kueue.
func borrowingWaiting(s *solver.Snapshot) []solver.Option { return newCohort(s).admit(false) }

// cohort is the state of the admission of the jobs of a snapshot.
type cohort struct {
	jobs  []solver.Job
	teams []solver.Group
	above [][]int // of each job: its team and all groups above
	nodes []int
	idle  int
	used  []int // by each group
	// blocked jobs do not fit. evicted jobs were preempted.
	blocked, evicted []bool
}

func newCohort(s *solver.Snapshot) *cohort {
	c := &cohort{
		jobs: s.Jobs, teams: s.Groups, above: make([][]int, len(s.Jobs)), nodes: make([]int, len(s.Jobs)),
		idle: s.TotalNodes, used: make([]int, len(s.Groups)),
		blocked: make([]bool, len(s.Jobs)), evicted: make([]bool, len(s.Jobs)),
	}
	for i := range s.Jobs {
		c.above[i] = sim.GroupsAbove(s.Groups, s.Jobs[i].GroupID)
		c.allocate(i, s.Jobs[i].CurrentNodes)
	}
	// If the pool has shrunk, the last jobs lose their nodes, as in FillIdle.
	for i := len(s.Jobs) - 1; c.idle < 0; i-- {
		c.allocate(i, 0)
	}
	return c
}

func (c *cohort) allocate(i, nodes int) {
	more := nodes - c.nodes[i]
	c.nodes[i] = nodes
	c.idle -= more
	for _, g := range c.above[i] {
		c.used[g] += more
	}
}

func (c *cohort) size(i int) int { return c.jobs[i].LegalSizes()[0] }

// fits reports whether a job fits the idle nodes and the limits.
func (c *cohort) fits(i int) bool {
	for _, g := range c.above[i] {
		if limit := c.teams[g].Limit; limit != nil && c.used[g]+c.size(i) > *limit {
			return false
		}
	}
	return c.size(i) <= c.idle
}

// borrows reports whether more nodes would exceed the quota of the team of a job.
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
			c.allocate(next, c.size(next))
		case reclaim && !c.borrows(next, c.size(next)) && c.reclaim(next):
			c.allocate(next, c.size(next))
			// Other jobs may fit now.
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

// reclaim preempts jobs until the claimant fits, and reports whether that succeeds.
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
	type eviction struct{ job, nodes int }
	var taken []eviction
	for _, i := range running {
		if c.fits(claimant) {
			break
		}
		if c.borrows(i, 0) {
			taken = append(taken, eviction{i, c.nodes[i]})
			c.allocate(i, 0)
		}
	}
	enough := c.fits(claimant)
	for _, back := range slices.Backward(taken) {
		c.allocate(back.job, back.nodes)
		if !enough || c.fits(claimant) {
			continue // This preemption is not necessary.
		}
		c.allocate(back.job, 0)
		c.evicted[back.job], c.blocked[back.job] = true, true
	}
	return enough
}
