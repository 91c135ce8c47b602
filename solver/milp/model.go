package milp

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// MaxColumns is the maximum number of columns of a model. A larger file has some hundred megabytes, and
// no solver is known to solve it.
const MaxColumns = 2_000_000

// Model is a mixed-integer linear program that maximizes the objective of a problem. It is immutable
// and safe for concurrent use.
type Model struct {
	problem     *problem.Problem
	formulation solver.Formulation
	columns     []column
	integers    int // number of integer columns, which precede the continuous ones
	families    []family
	rows        []row
	terms       []term // of the next row
	cells       []cell // of job i and step t at i*Steps + t
	scale       float64
}

// kind is the meaning of a column.
type kind uint8

const (
	nodes      kind = iota // n: allocated nodes
	deltaMinus             // delta-: whether nodes <= size
	deltaPlus              // delta+: whether nodes >= size
	choice                 // x: whether nodes = size
	done                   // s: work done since the start, in units of the job
	shortage               // u: number of nodes that a group is below its floor
)

// prefix returns the prefix of the names of columns.
func (k kind) prefix() string {
	return [...]string{nodes: "n", deltaMinus: "dm", deltaPlus: "dp", choice: "x", done: "s", shortage: "u"}[k]
}

// column is a decision variable.
type column struct {
	kind         kind
	position     position
	lower, upper float64
	objective    float64 // coefficient in the objective, which is maximized
}

// position identifies a column or a row of a kind by job, step and size. Jobs and steps are counted
// from 1 as in the paper, and 0 means all of them. Columns and rows of groups have the number of the
// group as job.
type position struct {
	job, step int
	size      solver.Option
}

// noSize returns the size of a position without a size.
func noSize() solver.Option { return solver.Option{Nodes: -1} }

// cell has the indices of the first columns of a job in a step by kind. Columns per size are in the
// order of the sizes.
type cell [shortage]int

// family is a set of rows of the same constraint.
type family struct {
	name     string // prefix of the names of its rows
	equation string // the constraint, with the label of the equation in the paper
}

// sense is the relation of a row, as a letter of MPS.
type sense byte

const (
	atMost  sense = 'L'
	atLeast sense = 'G'
	equal   sense = 'E'
)

// row is a linear constraint with its terms on the left side.
type row struct {
	family   int
	position position
	sense    sense
	right    float64
	terms    []term
}

// term is a coefficient times a column.
type term struct {
	column      int
	coefficient float64
}

// minSpeed is the speed below which a size makes no progress. HiGHS omits smaller coefficients, with a
// warning.
const minSpeed = 1e-9

// Build returns the model of a problem in the given formulation. The model of a problem without jobs
// has no columns and is a valid file. Build returns an error if the formulation is unknown or if a job
// has no sizes. The error wraps solver.ErrUnsuited if the model exceeds MaxColumns, or if
// FormulationPaper cannot express the problem because it has groups or values of options.
func Build(p *problem.Problem, f solver.Formulation) (*Model, error) {
	if f != solver.FormulationPaper && f != solver.FormulationOneHot {
		return nil, fmt.Errorf("formulation is %q; must be %q or %q", f, solver.FormulationPaper, solver.FormulationOneHot)
	}
	if f == solver.FormulationPaper && len(p.Groups) > 0 {
		return nil, fmt.Errorf("%w: the paper's formulation does not support groups", solver.ErrUnsuited)
	}
	count := len(p.Groups)
	for i := range p.Jobs {
		sizes := len(p.Jobs[i].Options)
		if sizes == 0 {
			return nil, fmt.Errorf("job %d of the problem has no legal sizes", i+1)
		}
		if f == solver.FormulationPaper && p.Jobs[i].OptionValue != nil {
			return nil, fmt.Errorf("%w: the paper's formulation does not support values of sizes", solver.ErrUnsuited)
		}
		if f == solver.FormulationPaper {
			count += p.Steps * (2*sizes + 2) // n, s, and delta- and delta+ per size
		} else {
			count += p.Steps * (sizes + 1) // s, and x per size
		}
	}
	if count > MaxColumns {
		return nil, fmt.Errorf("%w: the %s model has %d columns; must have at most %d",
			solver.ErrUnsuited, f, count, MaxColumns)
	}
	m := &Model{
		problem:     p,
		formulation: f,
		columns:     make([]column, 0, count),
		cells:       make([]cell, len(p.Jobs)*p.Steps),
		scale:       1,
	}
	if f == solver.FormulationPaper {
		m.buildPaper()
	} else {
		m.buildOneHot()
	}
	m.scaleObjective()
	return m, nil
}

// Columns returns the number of columns.
func (m *Model) Columns() int { return len(m.columns) }

// Rows returns the number of rows without the objective.
func (m *Model) Rows() int { return len(m.rows) }

// ColumnName returns the name of column i, such as x_3_1_8 for 8 nodes for the third job of the problem
// in the first step, or x_3_1_8_2 for 8 nodes of the second node type. The prefix is n for nodes, dm
// and dp for delta- and delta+, x for the choice of a size, s for work done, and u for a shortage.
func (m *Model) ColumnName(i int) string {
	c := &m.columns[i]
	return c.position.name(c.kind.prefix())
}

func (m *Model) rowName(i int) string {
	return m.rows[i].position.name(m.families[m.rows[i].family].name)
}

// name returns the name of a column or row at the position.
func (p position) name(prefix string) string {
	name := []byte(prefix)
	add := func(part int) { name = strconv.AppendInt(append(name, '_'), int64(part), 10) }
	if p.job > 0 {
		add(p.job)
	}
	if p.step > 0 {
		add(p.step)
	}
	if p.size != noSize() {
		add(int(p.size.Nodes))
		if p.size.Type > 0 {
			add(int(p.size.Type) + 1)
		}
	}
	return string(name)
}

// Objective converts an objective or a bound that a solver reports for the file of WriteMPS into the
// units of problem.Problem.Objective. It reverts the negation, so that a lower bound becomes an upper
// bound, and the scaling.
func (m *Model) Objective(reported float64) float64 { return -reported * m.scale }

// scaleObjective divides the objective by a power of ten, so that the absolute tolerances of solvers,
// about 1e-7, are neither significant nor impossible to meet.
func (m *Model) scaleObjective() {
	const minBound, maxBound = 1e3, 1e6
	bound, largest := 0.0, 0.0
	for i := range m.problem.Jobs {
		bound += maxMagnitude(&m.problem.Jobs[i], m.problem.Steps)
	}
	for g := range m.problem.Groups {
		bound += m.problem.QuotaPrice * float64(m.problem.Groups[g].Floor)
	}
	for i := range m.columns {
		largest = max(largest, math.Abs(m.columns[i].objective))
	}
	if bound < math.SmallestNonzeroFloat32 || bound >= minBound && bound <= maxBound {
		return
	}
	// No coefficient may exceed maxBound, even if a job cannot reach that value.
	m.scale = math.Pow10(int(math.Floor(math.Log10(max(bound/minBound, largest/maxBound)))))
	for i := range m.columns {
		m.columns[i].objective /= m.scale
	}
}

// maxMagnitude returns an upper bound on the absolute value of a job: with the largest work in every
// step and the largest absolute value of an option.
func maxMagnitude(job *problem.AdmittedJob, steps int) float64 {
	progress, value := 0.0, 0.0
	for t := range steps {
		progress = min(1, progress+slices.Max(job.Work(t))/job.Demand)
		value += job.Gain[t] * progress
	}
	largest := 0.0
	for _, v := range job.OptionValue {
		largest = max(largest, math.Abs(v))
	}
	return value + largest
}

func (m *Model) addColumn(c column) int {
	m.columns = append(m.columns, c)
	return len(m.columns) - 1
}

// addFamily starts a family, to which the following rows belong.
func (m *Model) addFamily(name, equation string) {
	m.families = append(m.families, family{name, equation})
}

// addTerm adds a term to the next row.
func (m *Model) addTerm(coefficient float64, column int) {
	if coefficient != 0 {
		m.terms = append(m.terms, term{column: column, coefficient: coefficient})
	}
}

// addRow adds a row with the terms that were added since the last row.
func (m *Model) addRow(at position, s sense, right float64) {
	m.rows = append(m.rows, row{family: len(m.families) - 1, position: at, sense: s, right: right, terms: m.terms})
	m.terms = nil
}

// at returns the position of a job and a step, both counted from 0.
func at(job, step int) position { return position{job: job + 1, step: step + 1, size: noSize()} }

// withSize returns the position with a size.
func (p position) withSize(size solver.Option) position {
	p.size = size
	return p
}

// cell returns the cell of a job and a step, both counted from 0.
func (m *Model) cell(job, step int) *cell { return &m.cells[job*m.problem.Steps+step] }

// forEachCell calls visit for every job and every step, counted from 0.
func (m *Model) forEachCell(visit func(i, t int, job *problem.AdmittedJob, c *cell)) {
	for i := range m.problem.Jobs {
		for t := range m.problem.Steps {
			visit(i, t, &m.problem.Jobs[i], m.cell(i, t))
		}
	}
}

// unit returns the job's unit of demand in seconds on one node: the work of its smallest training size
// in a step, or its demand if that is less.
func unit(job *problem.AdmittedJob) float64 {
	for _, work := range job.StepWork {
		if work > 0 {
			return min(work, job.Demand)
		}
	}
	return job.Demand
}

// scaledSpeed converts the work of a step into units of the job, at most its demand. The limit does not
// change the model, because s <= d. Without it, a job with a second of remaining work would have speeds
// of thousands. A binary that is off by 1e-6, which solvers accept as an integer, would then do a part
// of the work, and CBC and HiGHS would report worse plans as optimal.
func scaledSpeed(job *problem.AdmittedJob, work float64) float64 {
	if speed := min(work, job.Demand) / unit(job); speed >= minSpeed {
		return speed
	}
	return 0
}

// workColumns adds s with its objective and two constraints that are bounds, in both formulations:
//
//	(obj)              max sum_i sum_t gain_i^t s_i^t / d_i
//	(< demand)         s_i^t <= d_i
//	(variable bound s) s_i^t >= 0
func (m *Model) workColumns() {
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		if m.hasWork(job) {
			demand := job.Demand / unit(job)
			c[done] = m.addColumn(column{kind: done, position: at(i, t), upper: demand, objective: job.Gain[t] / demand})
		}
	})
}

// hasWork reports whether the model has the columns s of the job. FormulationOneHot has them only if
// progress has a value.
func (m *Model) hasWork(job *problem.AdmittedJob) bool {
	return m.formulation == solver.FormulationPaper || slices.Max(job.Gain) > 0
}

// progressRows adds, for the first step and for every later one,
//
//	(linear 1) s^1 <= p speed^1
//	(linear 2) s^t <= s^(t-1) + p speed^t
//
// speeds adds the terms of the speed to the left side and returns the constant of the right side.
func (m *Model) progressRows(first, later string, speeds func(job *problem.AdmittedJob, t int, c *cell) float64) {
	for n, family := range []family{{"first", first}, {"later", later}} {
		m.addFamily(family.name, family.equation)
		m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
			if min(t, 1) != n || !m.hasWork(job) {
				return
			}
			m.addTerm(1, c[done])
			if t > 0 {
				m.addTerm(-1, m.cell(i, t-1)[done])
			}
			m.addRow(at(i, t), atMost, speeds(job, t, c))
		})
	}
}

// addNodes adds the terms of the nodes of a job in a step, both counted from 0. count returns how many nodes of an
// option are included.
func (m *Model) addNodes(job, step int, count func(*problem.AdmittedJob, solver.Option) int) {
	c := m.cell(job, step)
	if m.formulation == solver.FormulationPaper {
		m.addTerm(1, c[nodes])
		return
	}
	admitted := &m.problem.Jobs[job]
	for n, option := range admitted.Options {
		if included := count(admitted, option); included > 0 {
			m.addTerm(float64(included), c[choice]+n)
		}
	}
}

// everyNode includes all nodes.
func everyNode(_ *problem.AdmittedJob, option solver.Option) int { return int(option.Nodes) }

// poolRows adds
//
//	(< total nodes) sum_i n_i^t <= N
//
// or, if the problem has rows, the same for every row and the nodes that count in it.
func (m *Model) poolRows(equation string) {
	m.addFamily("pool", equation)
	add := func(at position, nodes int, count func(*problem.AdmittedJob, solver.Option) int) {
		for i := range m.problem.Jobs {
			m.addNodes(i, at.step-1, count)
		}
		m.addRow(at, atMost, float64(nodes))
	}
	for n, row := range m.problem.Rows {
		add(position{step: 1, size: solver.NewOption(0, n+1)}, row.Nodes, func(job *problem.AdmittedJob, option solver.Option) int {
			if int(option.Type) != row.Type {
				return 0
			}
			return row.Count(option, job.PieceNodes)
		})
	}
	if m.problem.Rows == nil {
		for t, nodes := range m.problem.Capacity {
			add(position{step: t + 1, size: noSize()}, nodes, everyNode)
		}
	}
}
