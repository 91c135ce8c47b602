package milp

import (
	"github.com/elastalloc/elastalloc/solver/problem"
)

// buildPaper builds the final formulation of the paper verbatim. Constraints on a single variable are
// bounds of its column, and all others are rows.
func (m *Model) buildPaper() {
	m.nodesColumns()
	m.deltaColumns(deltaMinus)
	m.deltaColumns(deltaPlus)
	m.integers = len(m.columns)
	m.workColumns()

	m.poolRows("(< total nodes) sum_i n_i^t <= N")
	m.deltaRows(deltaMinus, 1, family{"minus_low", "(delta -), left: (1 - delta-)/M - M delta- <= n - k"},
		family{"minus_high", "(delta -), right: n - k <= M (1 - delta-)"})
	m.deltaRows(deltaPlus, -1, family{"plus_low", "(delta +), left: (1 - delta+)/M - M delta+ <= k - n"},
		family{"plus_high", "(delta +), right: k - n <= M (1 - delta+)"})
	m.exactlyHoldRows()
	m.progressRows(
		"(linear 1) s^1 <= p sum_k speed(k) (delta- + delta+ - 1), after resize_delay",
		"(linear 2) s^t <= s^(t-1) + p sum_k speed(k) (delta- + delta+ - 1)",
		func(job *problem.AdmittedJob, t int, c *cell) float64 {
			right := 0.0
			for size, work := range job.Work(t) {
				speed := scaledSpeed(job, work)
				m.addTerm(-speed, c[deltaMinus]+size)
				m.addTerm(-speed, c[deltaPlus]+size)
				right -= speed
			}
			return right
		},
	)
}

// bigM returns the smallest M that is valid for the job.
//
// The inequalities with M must not exclude a legal n. They allow n - k and k - n in [-M, M]. Over all
// legal n and k, the difference ranges over [n_min - n_max, n_max - n_min], so M must be at least n_max
// - n_min. If delta = 0, the inequalities also require a difference of at least 1/M. Sizes are
// integers, so the smallest difference is 1, and M must be at least 1. A job with one size has no
// differences, so that any M > 0 is valid.
func bigM(job *problem.AdmittedJob) float64 {
	smallest, largest := job.Options[0], job.Options[len(job.Options)-1]
	return max(1, float64(largest.Nodes-smallest.Nodes))
}

// nodesColumns adds n with three constraints that are bounds:
//
//	(< max)            n_i^t <= n_i,max
//	(> min)            n_i^t >= n_i,min
//	(variable bound n) n_i^t >= 0, integer
func (m *Model) nodesColumns() {
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		c[nodes] = m.addColumn(column{
			kind: nodes, position: at(i, t),
			lower: float64(job.Options[0].Nodes), upper: float64(job.Options[len(job.Options)-1].Nodes),
		})
	})
}

// deltaColumns adds the binaries delta- or delta+.
func (m *Model) deltaColumns(k kind) {
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		c[k] = len(m.columns)
		for _, size := range job.Options {
			m.addColumn(column{kind: k, position: at(i, t).withSize(size), upper: 1})
		}
	})
}

// deltaRows adds both sides of
//
//	(delta -) (1 - delta-) / M - M delta- <= n - k <= M (1 - delta-)
//	(delta +) (1 - delta+) / M - M delta+ <= k - n <= M (1 - delta+)
//
// with the variables on the left side. The sign is 1 for delta- and -1 for delta+:
//
//	sign n + (M + 1/M) delta >= sign k + 1/M
//	sign n + M delta         <= sign k + M
func (m *Model) deltaRows(delta kind, sign float64, low, high family) {
	add := func(rows family, sense sense) {
		m.addFamily(rows.name, rows.equation)
		m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
			factor, right := bigM(job), bigM(job)
			if sense == atLeast {
				factor, right = factor+1/factor, 1/factor
			}
			for n, k := range job.Options {
				m.addTerm(sign, c[nodes])
				m.addTerm(factor, c[delta]+n)
				m.addRow(at(i, t).withSize(k), sense, sign*float64(k.Nodes)+right)
			}
		})
	}
	add(low, atLeast)
	add(high, atMost)
}

// exactlyHoldRows adds
//
//	(exactly hold) sum_k delta-_k + sum_k delta+_k = |K| + 1
func (m *Model) exactlyHoldRows() {
	m.addFamily("hold", "(exactly hold) sum_k delta- + sum_k delta+ = |K| + 1")
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		for size := range job.Options {
			m.addTerm(1, c[deltaMinus]+size)
			m.addTerm(1, c[deltaPlus]+size)
		}
		m.addRow(at(i, t), equal, float64(len(job.Options)+1))
	})
}
