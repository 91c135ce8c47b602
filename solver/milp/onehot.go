package milp

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// buildOneHot builds the formulation with a binary x_(i,t,k) for every job, step and size. Nodes and
// speed are sums over x, so that n and the deltas of the paper are not needed: n = sum_k k x_k and
// speed = sum_k speed(k) x_k.
func (m *Model) buildOneHot() {
	m.choiceColumns()
	m.integers = len(m.columns)
	m.workColumns()
	m.shortageColumns()

	m.poolRows("(< total nodes) sum_i sum_k k x_k <= N")
	m.groupRows()
	m.oneSizeRows()
	m.progressRows(
		"(training progress 1) s^1 <= p sum_k speed(k) x_k, after resize_delay",
		"(training progress 2) s^t <= s^(t-1) + p sum_k speed(k) x_k",
		func(job *problem.AdmittedJob, t int, c *cell) float64 {
			for size, work := range job.Work(t) {
				m.addTerm(-scaledSpeed(job, work), c[choice]+size)
			}
			return 0
		},
	)
}

// choiceColumns adds the binaries x. In the first step, they may have a value. There are binaries only
// for legal sizes, which replaces the constraints (< max), (> min) and (variable bound n) of the paper.
func (m *Model) choiceColumns() {
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		c[choice] = len(m.columns)
		for n, size := range job.Options {
			x := column{kind: choice, position: at(i, t).withSize(size), upper: 1}
			if t == 0 && job.OptionValue != nil {
				x.objective = job.OptionValue[n]
			}
			m.addColumn(x)
		}
	})
}

// shortageColumns adds a continuous column for every group with a floor: the number of nodes below the floor.
func (m *Model) shortageColumns() {
	for g := range m.problem.Groups {
		if floor := m.problem.Groups[g].Floor; floor > 0 {
			m.addColumn(column{
				kind: shortage, position: at(g, 0), upper: float64(floor), objective: -m.problem.QuotaPrice,
			})
		}
	}
}

// groupRows adds, for every group whose limit its jobs could exceed and for every group with a floor,
// the rows below. The sums are over the jobs of the group.
//
//	sum_i sum_k k x_(i,1,k) <= limit
//	sum_i sum_k k x_(i,1,k) + u >= floor
func (m *Model) groupRows() {
	groups := m.problem.Groups
	if len(groups) == 0 {
		return
	}
	members, largest := make([][]int, len(groups)), make([]int, len(groups))
	for i := range m.problem.Jobs {
		for g := m.problem.Jobs[i].Group; g >= 0; g = groups[g].Parent {
			members[g] = append(members[g], i)
			largest[g] += problem.LargestNodes(m.problem.Jobs[i].Options)
		}
	}
	addNodes := func(group int) {
		for _, i := range members[group] {
			m.addNodes(i, 0, everyNode)
		}
	}
	m.addFamily("limit", "limits of groups: sum_i sum_k k x_k <= limit")
	for g := range groups {
		if limit := groups[g].Limit; limit < largest[g] {
			addNodes(g)
			m.addRow(at(g, 0), atMost, float64(limit))
		}
	}
	m.typeLimitRows(members)
	m.addFamily("floor", "floors of groups: sum_i sum_k k x_k + u >= floor")
	for column := range m.columns {
		if c := &m.columns[column]; c.kind == shortage {
			g := c.position.job - 1
			addNodes(g)
			m.addTerm(1, column)
			m.addRow(at(g, 0), atLeast, float64(groups[g].Floor))
		}
	}
}

// typeLimitRows adds a row for every limit of a group on the nodes of a type. The step of its position is the type.
func (m *Model) typeLimitRows(members [][]int) {
	if !slices.ContainsFunc(m.problem.Groups, func(g problem.AdmittedGroup) bool { return g.TypeLimits != nil }) {
		return
	}
	m.addFamily("type", "limits of groups per node type: sum_i sum_k k x_k <= limit")
	for g := range m.problem.Groups {
		for on, limit := range m.problem.Groups[g].TypeLimits {
			if limit == problem.NoLimit {
				continue
			}
			for _, i := range members[g] {
				m.addNodes(i, 0, func(job *problem.AdmittedJob, o solver.Option) int {
					if int(o.Type) != on {
						return 0
					}
					return everyNode(job, o)
				})
			}
			m.addRow(at(g, on), atMost, float64(limit))
		}
	}
}

// oneSizeRows replaces the constraints (delta -), (delta +) and (exactly hold) of the paper:
//
//	sum_k x_(i,t,k) = 1
func (m *Model) oneSizeRows() {
	m.addFamily("one", "one size per job and step, for (delta -), (delta +), (exactly hold): sum_k x_k = 1")
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		for size := range job.Options {
			m.addTerm(1, c[choice]+size)
		}
		m.addRow(at(i, t), equal, 1)
	})
}
