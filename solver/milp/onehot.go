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
	m.shortColumns()

	m.totalChosenNodes()
	m.groupLimits()
	m.groupFloors()
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
//
// or, where there are node types, the same for the sizes and the nodes of each.
func (m *Model) totalChosenNodes() {
	m.addFamily("pool", "(< total nodes) sum_i sum_k k x_k <= N")
	for g, nodes := range m.problem.TypeNodes {
		for i := range m.problem.Jobs {
			c := m.cell(i, 0)
			for n, option := range m.problem.Jobs[i].Sizes {
				if solver.OptionType(option) == g {
					m.addTerm(float64(solver.OptionNodes(option)), c.choice+n)
				}
			}
		}
		m.addRow(position{step: 1, size: g + 1}, atMost, float64(nodes))
	}
	if m.problem.TypeNodes != nil {
		return
	}
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

// shortColumns adds, for every group with a floor, the nodes that it is short of it, which
// are as continuous as they are worth.
func (m *Model) shortColumns() {
	for g := range m.problem.Groups {
		if floor := m.problem.Groups[g].Floor; floor > 0 {
			m.addColumn(column{
				kind: short, position: at(g, 0), upper: float64(floor), objective: -m.problem.QuotaPrice,
			})
		}
	}
}

// groupLimits is, for every group that its jobs could exceed the limit of,
//
//	sum over the jobs within it of sum_k k x_(i,1,k) <= limit
func (m *Model) groupLimits() {
	if len(m.problem.Groups) == 0 {
		return
	}
	m.addFamily("limit", "limits of groups: sum_i sum_k k x_k <= limit")
	members, largest := m.members()
	for g := range m.problem.Groups {
		if limit := m.problem.Groups[g].Limit; limit < largest[g] {
			m.memberTerms(members[g])
			m.addRow(at(g, 0), atMost, float64(limit))
		}
	}
}

// groupFloors is, for every group with a floor,
//
//	sum over the jobs within it of sum_k k x_(i,1,k) + u >= floor
func (m *Model) groupFloors() {
	if len(m.problem.Groups) == 0 {
		return
	}
	m.addFamily("floor", "floors of groups: sum_i sum_k k x_k + u >= floor")
	members, _ := m.members()
	for column := range m.columns {
		if c := &m.columns[column]; c.kind == short {
			g := int(c.position.job) - 1
			m.memberTerms(members[g])
			m.addTerm(1, column)
			m.addRow(at(g, 0), atLeast, float64(m.problem.Groups[g].Floor))
		}
	}
}

// members returns the jobs that count towards each group, and the most nodes they can hold
// together.
func (m *Model) members() (members [][]int, largest []int) {
	groups := m.problem.Groups
	members, largest = make([][]int, len(groups)), make([]int, len(groups))
	for i := range m.problem.Jobs {
		for g := m.problem.Jobs[i].Group; g >= 0; g = groups[g].Parent {
			members[g] = append(members[g], i)
			largest[g] += slices.Max(m.problem.Jobs[i].Sizes)
		}
	}
	return members, largest
}

// memberTerms adds the nodes of jobs in the first step.
func (m *Model) memberTerms(jobs []int) {
	for _, i := range jobs {
		c := m.cell(i, 0)
		for size, k := range m.problem.Jobs[i].Sizes {
			m.addTerm(float64(k), c.choice+size)
		}
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
