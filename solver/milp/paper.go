package milp

import "github.com/elastalloc/elastalloc/solver"

// paper builds the paper's final formulation as it stands. Its constraints on a
// single variable are bounds of the column, everything else is a row.
func (m *Model) paper() {
	m.nodesColumns()
	m.deltaColumns(minus)
	m.deltaColumns(plus)
	m.integers = len(m.columns)
	m.servedColumns()

	m.totalNodes()
	m.deltaMinus()
	m.deltaPlus()
	m.exactlyHold()
	m.linear1()
	m.linear2()
}

// bigM returns the smallest M that is valid for the job.
//
// The inequalities with M on one side must not cut off a legal n. They let n - k
// and k - n be anything in [-M, M], and over legal n and k the difference spans
// exactly [n_min - n_max, n_max - n_min]; so M must be at least n_max - n_min, and
// with the smallest and the largest size it is. With delta = 0 they also demand a
// difference of at least 1/M. Sizes are integers, so the smallest difference there
// is, is 1, and M must be at least 1: it is, but for a job with one size, which
// has no difference to show at all and may have any M > 0.
func bigM(job *solver.AdmittedJob) float64 {
	smallest, largest := job.Sizes[0], job.Sizes[len(job.Sizes)-1]
	return max(1, float64(largest-smallest))
}

// nodesColumns adds n with three constraints that are bounds:
//
//	(< max)            n_i^t <= n_i,max
//	(> min)            n_i^t >= n_i,min
//	(variable bound n) n_i^t >= 0, integer
func (m *Model) nodesColumns() {
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		c.nodes = m.addColumn(column{
			kind: nodes, position: at(i, t),
			lower: float64(job.Sizes[0]), upper: float64(job.Sizes[len(job.Sizes)-1]),
		})
	})
}

// deltaColumns adds the binaries delta- or delta+.
func (m *Model) deltaColumns(k kind) {
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		if k == minus {
			c.minus = len(m.columns)
		} else {
			c.plus = len(m.columns)
		}
		for _, size := range job.Sizes {
			m.addColumn(column{kind: k, position: at(i, t).of(size), upper: 1})
		}
	})
}

// totalNodes is
//
//	(< total nodes) sum_i n_i^t <= N
func (m *Model) totalNodes() {
	m.addFamily("pool", "(< total nodes) sum_i n_i^t <= N")
	for t := range m.problem.Steps {
		for i := range m.problem.Jobs {
			m.addTerm(1, m.cell(i, t).nodes)
		}
		m.addRow(position{step: int32(t) + 1, size: noSize}, atMost, float64(m.problem.Capacity[t]))
	}
}

// deltaMinus is the two sides of
//
//	(delta -) (1 - delta-) / M - M delta- <= n - k <= M (1 - delta-)
//
// with the variables brought to the left:
//
//	n + (M + 1/M) delta- >= k + 1/M
//	n + M delta-         <= k + M
func (m *Model) deltaMinus() {
	m.addFamily("minus_low", "(delta -), left: (1 - delta-)/M - M delta- <= n - k")
	m.forEachSize(func(at position, k, bigM float64, c *cell, size int) {
		m.addTerm(1, c.nodes)
		m.addTerm(bigM+1/bigM, c.minus+size)
		m.addRow(at, atLeast, k+1/bigM)
	})
	m.addFamily("minus_high", "(delta -), right: n - k <= M (1 - delta-)")
	m.forEachSize(func(at position, k, bigM float64, c *cell, size int) {
		m.addTerm(1, c.nodes)
		m.addTerm(bigM, c.minus+size)
		m.addRow(at, atMost, k+bigM)
	})
}

// deltaPlus is the two sides of
//
//	(delta +) (1 - delta+) / M - M delta+ <= k - n <= M (1 - delta+)
//
// with the variables brought to the left:
//
//	-n + (M + 1/M) delta+ >= -k + 1/M
//	-n + M delta+         <= -k + M
func (m *Model) deltaPlus() {
	m.addFamily("plus_low", "(delta +), left: (1 - delta+)/M - M delta+ <= k - n")
	m.forEachSize(func(at position, k, bigM float64, c *cell, size int) {
		m.addTerm(-1, c.nodes)
		m.addTerm(bigM+1/bigM, c.plus+size)
		m.addRow(at, atLeast, -k+1/bigM)
	})
	m.addFamily("plus_high", "(delta +), right: k - n <= M (1 - delta+)")
	m.forEachSize(func(at position, k, bigM float64, c *cell, size int) {
		m.addTerm(-1, c.nodes)
		m.addTerm(bigM, c.plus+size)
		m.addRow(at, atMost, -k+bigM)
	})
}

// forEachSize calls visit for every job, step and size, which is given as the
// number k and as its index.
func (m *Model) forEachSize(visit func(at position, k, bigM float64, c *cell, size int)) {
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		bigM := bigM(job)
		for size, k := range job.Sizes {
			visit(at(i, t).of(k), float64(k), bigM, c, size)
		}
	})
}

// exactlyHold is
//
//	(exactly hold) sum_k delta-_k + sum_k delta+_k = |K| + 1
func (m *Model) exactlyHold() {
	m.addFamily("hold", "(exactly hold) sum_k delta- + sum_k delta+ = |K| + 1")
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		for size := range job.Sizes {
			m.addTerm(1, c.minus+size)
			m.addTerm(1, c.plus+size)
		}
		m.addRow(at(i, t), equal, float64(len(job.Sizes)+1))
	})
}

// linear1 is, for the first step,
//
//	(linear 1) s^1 <= p sum_k speed(k) (delta-_k + delta+_k - 1)
func (m *Model) linear1() {
	m.addFamily("first", "(linear 1) s^1 <= p sum_k speed(k) (delta- + delta+ - 1), after the rescale delay")
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		if t == 0 {
			m.addTerm(1, c.served)
			m.addRow(at(i, t), atMost, m.speedTerms(job, t, c))
		}
	})
}

// linear2 is, for every later step,
//
//	(linear 2) s^t <= s^(t-1) + p sum_k speed(k) (delta-_k + delta+_k - 1)
func (m *Model) linear2() {
	m.addFamily("later", "(linear 2) s^t <= s^(t-1) + p sum_k speed(k) (delta- + delta+ - 1)")
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		if t > 0 {
			m.addTerm(1, c.served)
			m.addTerm(-1, m.cell(i, t-1).served)
			m.addRow(at(i, t), atMost, m.speedTerms(job, t, c))
		}
	})
}

// speedTerms adds the deltas of the speed, brought to the left, and returns the
// constant that stays on the right.
func (m *Model) speedTerms(job *solver.AdmittedJob, t int, c *cell) float64 {
	right := 0.0
	for size, work := range job.Work(t) {
		speed := speed(job, work)
		m.addTerm(-speed, c.minus+size)
		m.addTerm(-speed, c.plus+size)
		right -= speed
	}
	return right
}
