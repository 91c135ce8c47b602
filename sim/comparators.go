package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// shortestRemaining is preemptive SRPT for jobs of fixed size. In ascending order of the remaining run
// time, each job runs if its size fits the remaining nodes.
func shortestRemaining(s *solver.Snapshot) []solver.Option {
	left := make([]float64, len(s.Jobs)) // ns, in which equal times are equal
	for i := range s.Jobs {
		job := &s.Jobs[i]
		left[i] = math.Round(float64(job.RemainingETA) / job.Speed(job.LegalSizes()[0]))
	}
	order := ordered(len(s.Jobs), func(a, b int) int { return cmp.Compare(left[a], left[b]) })
	options := make([]solver.Option, len(s.Jobs))
	idle := s.TotalNodes
	for _, i := range order {
		if size := s.Jobs[i].LegalSizes()[0]; size <= idle {
			options[i] = solver.NewOption(0, size)
			idle -= size
		}
	}
	return options
}

// maxMin computes max-min fair shares, like the max-min policy of Gavel with one speed curve. Admitted jobs
// start at their smallest sizes. Repeatedly, the job with the lowest ratio of speed to weight grows to its
// next size. A job whose next size does not fit stops growing.
func maxMin(s *solver.Snapshot) []solver.Option {
	m := newShares(s, solver.AdmissionFIFO)
	growing := make([]int, len(m.jobs))
	for n := range growing {
		growing[n] = n
	}
	for len(growing) > 0 {
		at, lowest := 0, math.Inf(1)
		for g, n := range growing {
			job := &s.Jobs[m.jobs[n].Index]
			if speed := job.Speed(m.nodes(n)) / job.WeightOrDefault(); speed < lowest {
				at, lowest = g, speed
			}
		}
		if !m.grow(growing[at]) {
			growing = slices.Delete(growing, at, at+1)
		}
	}
	return m.result(s)
}

// heSRPTExponent returns a in speed(k) = k^a. Each doubling of the nodes multiplies the speed by 1.6.
func heSRPTExponent() float64 { return math.Log2(2 * solver.DefaultDoublingEfficiency) }

// HeSRPTShares returns the shares of the pool that heSRPT (Berg et al., arXiv
// 1903.09346) gives to m jobs in descending order of remaining ETA. The share of job i is
// (i/m)^(1/(1-a)) - ((i-1)/m)^(1/(1-a)). These shares minimize the mean completion time if all jobs are
// present and nodes are divisible.
func HeSRPTShares(jobs int) []float64 {
	power := 1 / (1 - heSRPTExponent())
	shares := make([]float64, jobs)
	for i := range shares {
		shares[i] = math.Pow(float64(i+1)/float64(jobs), power) - math.Pow(float64(i)/float64(jobs), power)
	}
	return shares
}

// heSRPT rounds the shares of heSRPT to legal sizes. Admitted jobs start at their smallest sizes. Then, in
// ascending order of remaining ETA, each job grows up to its share. Finally, idle nodes go to the job with
// the largest ratio of its share to its next size, until no next size fits.
//
// With START_FIRST, only jobs that never started begin at their smallest size. Other jobs begin with no
// nodes and may be paused.
func heSRPT(admission solver.Admission) Rule {
	return func(s *solver.Snapshot) []solver.Option {
		m := newShares(s, admission)
		longestFirst := ordered(len(m.jobs), func(a, b int) int { return cmp.Compare(m.jobs[b].Demand, m.jobs[a].Demand) })
		targets := make([]float64, len(m.jobs))
		for i, share := range HeSRPTShares(len(m.jobs)) {
			targets[longestFirst[i]] = share * float64(s.TotalNodes) * (1 + 1e-12) // Tolerance for rounding errors.
		}
		for _, n := range slices.Backward(longestFirst) {
			for float64(m.next(n)) <= targets[n] && m.grow(n) {
				continue
			}
		}
		for {
			furthest, ratio := -1, 0.0
			for _, n := range slices.Backward(longestFirst) {
				if next := m.next(n); next-m.nodes(n) <= m.idle && targets[n]/float64(next) > ratio {
					furthest, ratio = n, targets[n]/float64(next)
				}
			}
			if furthest < 0 {
				return m.result(s)
			}
			m.grow(furthest)
		}
	}
}

// TotalTimeBound returns a lower bound of the mean completion time of a batch of jobs with the given demands
// on a pool of nodes. It is the mean completion time of heSRPT with divisible nodes and no largest size, and
// applies to every allocator, even with knowledge of the future. It is loose if there are more jobs than
// nodes, because the speed curve overestimates speeds on less than one node.
func TotalTimeBound(demands []time.Duration, nodes int) time.Duration {
	longestFirst := slices.SortedFunc(slices.Values(demands), func(a, b time.Duration) int { return cmp.Compare(b, a) })
	left := make([]float64, len(longestFirst))
	for i, demand := range longestFirst {
		left[i] = demand.Seconds()
	}
	now, sum := 0.0, 0.0
	// Jobs complete in ascending order of demand, and shares change only at completions.
	for m := len(left); m > 0; m-- {
		shares := HeSRPTShares(m)
		speed := func(i int) float64 { return math.Pow(shares[i]*float64(nodes), heSRPTExponent()) }
		span := left[m-1] / speed(m-1)
		for i := range m {
			left[i] -= span * speed(i)
		}
		now += span
		sum += now
	}
	return scale(time.Second, sum/float64(max(1, len(demands))))
}

// shares is the state of a rule that divides the pool among admitted jobs. level is the index of the
// current legal size of each job.
type shares struct {
	jobs  []problem.AdmittedJob
	level []int
	idle  int
}

func newShares(s *solver.Snapshot, admission solver.Admission) *shares {
	p := problem.NewProblem(s, admission)
	m := &shares{jobs: p.Jobs, level: make([]int, len(p.Jobs)), idle: p.Capacity[0]}
	for n := range p.Jobs {
		m.idle -= m.nodes(n)
	}
	return m
}

// nodes returns the number of nodes of admitted job n.
func (m *shares) nodes(n int) int { return int(m.jobs[n].Options[m.level[n]].Nodes) }

// next returns the next size of admitted job n, math.MaxInt after the largest.
func (m *shares) next(n int) int {
	if m.level[n]+1 == len(m.jobs[n].Options) {
		return math.MaxInt
	}
	return int(m.jobs[n].Options[m.level[n]+1].Nodes)
}

// grow resizes admitted job n to its next size if it fits, and reports whether it did.
func (m *shares) grow(n int) bool {
	more := m.next(n) - m.nodes(n)
	if more > m.idle {
		return false
	}
	m.idle -= more
	m.level[n]++
	return true
}

func (m *shares) result(s *solver.Snapshot) []solver.Option {
	options := make([]solver.Option, len(s.Jobs))
	for n := range m.jobs {
		options[m.jobs[n].Index] = m.jobs[n].Options[m.level[n]]
	}
	return options
}

// ordered returns the indices below count in a stable order.
func ordered(count int, compare func(a, b int) int) []int {
	order := make([]int, count)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	return order
}
