package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// shortestRemaining is SRPT over jobs of fixed size, preemptive: in the order of the run time
// left at that size, each job runs whose size fits in what is left of the pool.
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

// maxMin shares the pool as evenly as it can, as Gavel's max-min policy with one
// speed curve: admitted jobs begin at their smallest size, and the one whose speed
// by its weight is the lowest grows to its next size until none can. A job whose
// next size does not fit any more stays as it is.
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

// heSRPTExponent returns a of speed(k) = k^a, where each doubling of the nodes
// multiplies the speed by 1.6.
func heSRPTExponent() float64 { return math.Log2(2 * solver.DefaultDoublingEfficiency) }

// HeSRPTShares returns the shares of the pool that heSRPT (Berg et al., arXiv
// 1903.09346) gives to jobs of the given number, the one with the longest
// remaining ETA first: (i/m)^(1/(1-a)) - ((i-1)/m)^(1/(1-a)) for the i-th of m.
// With all jobs present and nodes divisible at will, that is the least mean time.
func HeSRPTShares(jobs int) []float64 {
	power := 1 / (1 - heSRPTExponent())
	shares := make([]float64, jobs)
	for i := range shares {
		shares[i] = math.Pow(float64(i+1)/float64(jobs), power) - math.Pow(float64(i)/float64(jobs), power)
	}
	return shares
}

// heSRPT is heSRPT rounded to legal sizes: admitted jobs begin at their smallest
// size; then each, the shortest remaining ETA first, grows up to its share of the
// pool; then what rounding left idle goes to the job that is the furthest below
// its share, by the ratio of the two at its next size, until no next size fits.
//
// Under START_FIRST only jobs that never started begin at their smallest size, every
// other at no nodes, so that it may be paused.
func heSRPT(admission solver.Admission) Rule {
	return func(s *solver.Snapshot) []solver.Option {
		m := newShares(s, admission)
		longestFirst := ordered(len(m.jobs), func(a, b int) int { return cmp.Compare(m.jobs[b].Demand, m.jobs[a].Demand) })
		due := make([]float64, len(m.jobs))
		for i, share := range HeSRPTShares(len(m.jobs)) {
			due[longestFirst[i]] = share * float64(s.TotalNodes) * (1 + 1e-12) // Half the pool is half of it.
		}
		for _, n := range slices.Backward(longestFirst) {
			for float64(m.next(n)) <= due[n] && m.grow(n) {
				continue
			}
		}
		for {
			furthest, ratio := -1, 0.0
			for _, n := range slices.Backward(longestFirst) {
				if next := m.next(n); next-m.nodes(n) <= m.idle && due[n]/float64(next) > ratio {
					furthest, ratio = n, due[n]/float64(next)
				}
			}
			if furthest < 0 {
				return m.result(s)
			}
			m.grow(furthest)
		}
	}
}

// TotalTimeBound returns the least mean total time that any allocator, with any
// foresight, could reach for a batch of jobs of the given demands, all present at
// once on a pool of the given nodes: that of heSRPT with nodes divisible at will
// and no largest size. It is loose where there are more jobs than nodes, since the
// curve has parts of a node train faster than they could.
func TotalTimeBound(demands []time.Duration, nodes int) time.Duration {
	longestFirst := slices.SortedFunc(slices.Values(demands), func(a, b time.Duration) int { return cmp.Compare(b, a) })
	left := make([]float64, len(longestFirst))
	for i, demand := range longestFirst {
		left[i] = demand.Seconds()
	}
	now, sum := 0.0, 0.0
	// The jobs end in the order of their demands, the shortest first, and the
	// shares change only then.
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

// shares is the admitted jobs of a snapshot while a rule shares out the pool, each at a level
// of its legal sizes.
type shares struct {
	jobs  []solver.AdmittedJob
	level []int
	idle  int
}

func newShares(s *solver.Snapshot, admission solver.Admission) *shares {
	p := solver.NewProblem(s, admission)
	m := &shares{jobs: p.Jobs, level: make([]int, len(p.Jobs)), idle: p.Capacity[0]}
	for n := range p.Jobs {
		m.idle -= m.nodes(n)
	}
	return m
}

// nodes returns what admitted job n has.
func (m *shares) nodes(n int) int { return int(m.jobs[n].Options[m.level[n]].Nodes) }

// next returns the next size of admitted job n, one that no pool has after the largest.
func (m *shares) next(n int) int {
	if m.level[n]+1 == len(m.jobs[n].Options) {
		return math.MaxInt
	}
	return int(m.jobs[n].Options[m.level[n]+1].Nodes)
}

// grow gives admitted job n its next size if the idle nodes allow it.
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

// ordered returns the numbers below count in the given order, ties ascending.
func ordered(count int, compare func(a, b int) int) []int {
	order := make([]int, count)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	return order
}
