package catalog

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/internal/hesrpt"
	"github.com/elastalloc/elastalloc/sim"
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

// heSRPT rounds the shares of heSRPT to legal sizes. Admitted jobs start at their smallest sizes. Then, in
// ascending order of remaining ETA, each job grows up to its share. Finally, idle nodes go to the job with
// the largest ratio of its share to its next size, until no next size fits.
//
// With START_FIRST, only jobs that never started begin at their smallest size. Other jobs begin with no
// nodes and may be paused.
func heSRPT(admission solver.Admission) sim.Rule {
	return func(s *solver.Snapshot) []solver.Option {
		m := newShares(s, admission)
		longestFirst := ordered(len(m.jobs), func(a, b int) int { return cmp.Compare(m.jobs[b].Demand, m.jobs[a].Demand) })
		targets := make([]float64, len(m.jobs))
		for i, share := range hesrpt.Shares(len(m.jobs)) {
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
