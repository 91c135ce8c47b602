package milp

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// oneHot builds the formulation with a binary x_(i,t,k) for every job, step and
// size. Nodes and speed are sums over them, so that the paper's n and its deltas
// are not needed: n = sum_k k x_k and speed = sum_k speed(k) x_k.
func (m *Model) oneHot() {
	m.choiceColumns()
	m.integers = len(m.columns)
	m.servedColumns()

	m.totalChosenNodes()
	m.oneSize()
	m.firstProgress()
	m.laterProgress()
}

// choiceColumns adds the binaries x, of which those of the first step may have a
// value of their own. The sizes there are stand for the paper's (< max), (> min) and
// (variable bound n).
func (m *Model) choiceColumns() {
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		c.choice = len(m.columns)
		for n, size := range job.Sizes {
			x := column{kind: choice, position: at(i, t).of(size), upper: 1}
			if t == 0 && job.SizeValue != nil {
				x.objective = job.SizeValue[n]
			}
			m.addColumn(x)
		}
	})
}

// totalChosenNodes is
//
//	(< total nodes) sum_i sum_k k x_(i,t,k) <= N
func (m *Model) totalChosenNodes() {
	m.addFamily("pool", "(< total nodes) sum_i sum_k k x_k <= N")
	for t := range m.problem.Steps {
		for i := range m.problem.Jobs {
			c := m.cell(i, t)
			for size, k := range m.problem.Jobs[i].Sizes {
				m.addTerm(float64(k), c.choice+size)
			}
		}
		m.addRow(position{step: int32(t) + 1, size: noSize}, atMost, float64(m.problem.Capacity[t]))
	}
}

// oneSize takes the place of the paper's (delta -), (delta +) and (exactly hold):
//
//	sum_k x_(i,t,k) = 1
func (m *Model) oneSize() {
	m.addFamily("one", "one size per job and step, for (delta -), (delta +), (exactly hold): sum_k x_k = 1")
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		for size := range job.Sizes {
			m.addTerm(1, c.choice+size)
		}
		m.addRow(at(i, t), equal, 1)
	})
}

// firstProgress is, for the first step,
//
//	(training progress 1) s^1 <= p sum_k speed(k) x_k
func (m *Model) firstProgress() {
	m.addFamily("first", "(training progress 1) s^1 <= p sum_k speed(k) x_k, after the rescale delay")
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		if t == 0 && progresses(job) {
			m.addTerm(1, c.served)
			m.choiceTerms(job, t, c)
			m.addRow(at(i, t), atMost, 0)
		}
	})
}

// laterProgress is, for every later step,
//
//	(training progress 2) s^t <= s^(t-1) + p sum_k speed(k) x_k
func (m *Model) laterProgress() {
	m.addFamily("later", "(training progress 2) s^t <= s^(t-1) + p sum_k speed(k) x_k")
	m.forEachCell(func(i, t int, job *solver.AdmittedJob, c *cell) {
		if t > 0 && progresses(job) {
			m.addTerm(1, c.served)
			m.addTerm(-1, m.cell(i, t-1).served)
			m.choiceTerms(job, t, c)
			m.addRow(at(i, t), atMost, 0)
		}
	})
}

// choiceTerms adds the speed of the chosen size, brought to the left.
func (m *Model) choiceTerms(job *solver.AdmittedJob, t int, c *cell) {
	for size, work := range job.Work(t) {
		m.addTerm(-speed(job, work), c.choice+size)
	}
}

// progresses reports whether the job's progress is worth anything.
func progresses(job *solver.AdmittedJob) bool { return slices.Max(job.Gain) > 0 }
