package milp

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// MaxColumns is the size beyond which Build refuses: a file of some hundred
// megabytes that no solver is known to finish.
const MaxColumns = 2_000_000

// Model is a mixed-integer linear program that maximises the objective of a
// problem. It is immutable and safe for concurrent use.
type Model struct {
	problem     *problem.Problem
	formulation problem.Formulation
	columns     []column
	integers    int // columns before this one are integer, the others continuous
	families    []family
	rows        []row
	terms       []term // of the row that is added next
	cells       []cell // of job i and step t at i*Steps + t
	scale       float64
}

// kind is what a column stands for.
type kind uint8

const (
	nodes  kind = iota // n: nodes held
	minus              // delta-: whether nodes <= size
	plus               // delta+: whether nodes >= size
	choice             // x: whether nodes = size
	served             // s: demand served since the start, in units of the job
	short              // u: nodes that a group is short of its floor
)

// prefix returns the first part of a column's name.
func (k kind) prefix() string {
	return [...]string{nodes: "n", minus: "dm", plus: "dp", choice: "x", served: "s", short: "u"}[k]
}

// column is a decision variable.
type column struct {
	kind         kind
	position     position
	lower, upper float64
	objective    float64 // coefficient of the objective to maximise
}

// position is what a column or a row belongs to: a job and a step, counted from 1
// as in the paper and 0 where it belongs to all of them, and a size. Those of a group
// have its number instead of the job's.
type position struct {
	job, step int
	size      snapshot.Option
}

// noSize returns the size of a position that has none.
func noSize() snapshot.Option { return snapshot.Option{Nodes: -1} }

// cell is where the columns of one job in one step begin, by kind; those of a kind that
// has one per size stand in the order of the sizes.
type cell [short]int

// family is a set of rows that are one constraint of the paper.
type family struct {
	name     string // first part of the name of each of its rows
	equation string // what it says, with the label of the paper's equation
}

// sense relates the two sides of a row, in the letters of MPS.
type sense byte

const (
	atMost  sense = 'L'
	atLeast sense = 'G'
	equal   sense = 'E'
)

// row is a linear constraint: the sum of its terms on the left.
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

// negligible is the speed below which a size serves nothing. HiGHS leaves smaller
// coefficients out of a matrix, with a warning.
const negligible = 1e-9

// Build returns the model of a problem in the given formulation. A problem without
// jobs makes a model without columns: a valid file in which there is nothing to
// solve. It fails for an unknown formulation and a job without sizes, and with
// problem.ErrUnsuited for a problem that exceeds MaxColumns and for one with groups or whose
// sizes have a value of their own, which the paper's formulation cannot say.
func Build(p *problem.Problem, f problem.Formulation) (*Model, error) {
	if f != problem.FormulationPaper && f != problem.FormulationOneHot {
		return nil, fmt.Errorf("formulation is %q; want %q or %q", f, problem.FormulationPaper, problem.FormulationOneHot)
	}
	if f == problem.FormulationPaper && len(p.Groups) > 0 {
		return nil, fmt.Errorf("%w: the paper's formulation has no groups", problem.ErrUnsuited)
	}
	count := len(p.Groups)
	for i := range p.Jobs {
		sizes := len(p.Jobs[i].Options)
		if sizes == 0 {
			return nil, fmt.Errorf("job %d of the problem has no legal size", i+1)
		}
		if f == problem.FormulationPaper && p.Jobs[i].OptionValue != nil {
			return nil, fmt.Errorf("%w: the paper's formulation has no value of a size", problem.ErrUnsuited)
		}
		if f == problem.FormulationPaper {
			count += p.Steps * (2*sizes + 2) // n, delta- and delta+ of each size, s
		} else {
			count += p.Steps * (sizes + 1) // x of each size, s
		}
	}
	if count > MaxColumns {
		return nil, fmt.Errorf("%w: the %s model has %d columns; want at most %d",
			problem.ErrUnsuited, f, count, MaxColumns)
	}
	m := &Model{
		problem:     p,
		formulation: f,
		columns:     make([]column, 0, count),
		cells:       make([]cell, len(p.Jobs)*p.Steps),
		scale:       1,
	}
	if f == problem.FormulationPaper {
		m.paper()
	} else {
		m.oneHot()
	}
	m.scaleObjective()
	return m, nil
}

// Columns returns the number of columns.
func (m *Model) Columns() int { return len(m.columns) }

// Rows returns the number of rows, the objective aside.
func (m *Model) Rows() int { return len(m.rows) }

// ColumnName returns the name of column i, such as x_3_1_8 for 8 nodes for the
// third job of the problem in the first step, or x_3_1_8_2 for those of the second node type.
// The names begin with n for nodes, dm
// and dp for delta- and delta+, x for a choice of a size, and s for served demand.
func (m *Model) ColumnName(i int) string {
	c := &m.columns[i]
	return c.position.name(c.kind.prefix())
}

func (m *Model) rowName(i int) string {
	return m.rows[i].position.name(m.families[m.rows[i].family].name)
}

// name returns the name of what is at the position.
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

// Objective translates an objective or a bound that a solver reports for the file
// of WriteMPS into that of problem.Problem.Objective: it undoes the negation, which
// makes a lower bound an upper one, and the scaling.
func (m *Model) Objective(reported float64) float64 { return -reported * m.scale }

// scaleObjective divides the objective by a power of ten where the best plan is
// of so small a value that a solver's absolute tolerances, about 1e-7, would matter, or
// so much that they could not be met.
func (m *Model) scaleObjective() {
	const little, much = 1e3, 1e6
	bound, largest := 0.0, 0.0
	for i := range m.problem.Jobs {
		bound += potential(&m.problem.Jobs[i], m.problem.Steps)
	}
	for g := range m.problem.Groups {
		bound += m.problem.QuotaPrice * float64(m.problem.Groups[g].Floor)
	}
	for i := range m.columns {
		largest = max(largest, math.Abs(m.columns[i].objective))
	}
	if bound < math.SmallestNonzeroFloat32 || bound >= little && bound <= much {
		return
	}
	// No coefficient may exceed much, not even where a job cannot get that far.
	m.scale = math.Pow10(int(math.Floor(math.Log10(max(bound/little, largest/much)))))
	for i := range m.columns {
		m.columns[i].objective /= m.scale
	}
}

// potential returns the magnitude that the job's value may come to: with the size
// that serves most in every step, and with the value of a size that is largest.
func potential(job *problem.AdmittedJob, steps int) float64 {
	progress, value := 0.0, 0.0
	for t := range steps {
		progress = min(1, progress+slices.Max(job.Work(t))/job.Demand)
		value += job.Gain[t] * progress
	}
	most := 0.0
	for _, v := range job.OptionValue {
		most = max(most, math.Abs(v))
	}
	return value + most
}

func (m *Model) addColumn(c column) int {
	m.columns = append(m.columns, c)
	return len(m.columns) - 1
}

// addFamily begins a family; the rows added next are its rows.
func (m *Model) addFamily(name, equation string) {
	m.families = append(m.families, family{name, equation})
}

// addTerm appends a term to the row that addRow will add next.
func (m *Model) addTerm(coefficient float64, column int) {
	if coefficient != 0 {
		m.terms = append(m.terms, term{column: column, coefficient: coefficient})
	}
}

// addRow makes a row of the terms added since the last one.
func (m *Model) addRow(at position, s sense, right float64) {
	m.rows = append(m.rows, row{family: len(m.families) - 1, position: at, sense: s, right: right, terms: m.terms})
	m.terms = nil
}

// at returns the position of a job and a step, both counted from 0.
func at(job, step int) position { return position{job: job + 1, step: step + 1, size: noSize()} }

// of returns the position for one of the sizes.
func (p position) of(size snapshot.Option) position {
	p.size = size
	return p
}

// cell returns where the columns of a job in a step are.
func (m *Model) cell(job, step int) *cell { return &m.cells[job*m.problem.Steps+step] }

// forEachCell calls visit for every job and every step, counted from 0.
func (m *Model) forEachCell(visit func(i, t int, job *problem.AdmittedJob, c *cell)) {
	for i := range m.problem.Jobs {
		for t := range m.problem.Steps {
			visit(i, t, &m.problem.Jobs[i], m.cell(i, t))
		}
	}
}

// unit returns the job's unit of demand in seconds on one node: what its smallest
// training size serves in a step, or its demand if that is less.
func unit(job *problem.AdmittedJob) float64 {
	for _, work := range job.StepWork {
		if work > 0 {
			return min(work, job.Demand)
		}
	}
	return job.Demand
}

// speed returns what serving the given work in a step means in units of the job, at most
// its demand: no integer point changes, since s <= d anyway. Without that a job with a second
// left would have speeds of thousands, and a binary off by 1e-6, which a solver takes
// for an integer, would serve some of it: CBC and HiGHS then call worse plans optimal.
func speed(job *problem.AdmittedJob, work float64) float64 {
	if speed := min(work, job.Demand) / unit(job); speed >= negligible {
		return speed
	}
	return 0
}

// servedColumns adds s and with it the objective and two constraints that are
// bounds, in both formulations:
//
//	(obj)              max sum_i sum_t gain_i^t s_i^t / d_i
//	(< demand)         s_i^t <= d_i
//	(variable bound s) s_i^t >= 0
func (m *Model) servedColumns() {
	m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
		if m.progresses(job) {
			demand := job.Demand / unit(job)
			c[served] = m.addColumn(column{kind: served, position: at(i, t), upper: demand, objective: job.Gain[t] / demand})
		}
	})
}

// progresses reports whether the model has s of the job: ONE_HOT only where it is worth
// anything.
func (m *Model) progresses(job *problem.AdmittedJob) bool {
	return m.formulation == problem.FormulationPaper || slices.Max(job.Gain) > 0
}

// progressRows is, for the first step and for every later one,
//
//	(linear 1) s^1 <= p speed^1
//	(linear 2) s^t <= s^(t-1) + p speed^t
//
// where speeds adds the terms of the speed, brought to the left, and returns what of it
// stays on the right.
func (m *Model) progressRows(first, later string, speeds func(job *problem.AdmittedJob, t int, c *cell) float64) {
	for n, family := range []family{{"first", first}, {"later", later}} {
		m.addFamily(family.name, family.equation)
		m.forEachCell(func(i, t int, job *problem.AdmittedJob, c *cell) {
			if min(t, 1) != n || !m.progresses(job) {
				return
			}
			m.addTerm(1, c[served])
			if t > 0 {
				m.addTerm(-1, m.cell(i, t-1)[served])
			}
			m.addRow(at(i, t), atMost, speeds(job, t, c))
		})
	}
}

// addNodes adds the nodes that a job holds in a step, both counted from 0, with the options that
// count.
func (m *Model) addNodes(job, step int, counts func(*problem.AdmittedJob, snapshot.Option) bool) {
	c := m.cell(job, step)
	if m.formulation == problem.FormulationPaper {
		m.addTerm(1, c[nodes])
		return
	}
	of := &m.problem.Jobs[job]
	for n, option := range of.Options {
		if counts(of, option) {
			m.addTerm(float64(option.Nodes), c[choice]+n)
		}
	}
}

// everyOption counts all options.
func everyOption(*problem.AdmittedJob, snapshot.Option) bool { return true }

// poolRows is
//
//	(< total nodes) sum_i n_i^t <= N
//
// or the same for every row of the problem, where the sum is over the options that count in it.
func (m *Model) poolRows(equation string) {
	m.addFamily("pool", equation)
	add := func(at position, nodes int, counts func(*problem.AdmittedJob, snapshot.Option) bool) {
		for i := range m.problem.Jobs {
			m.addNodes(i, at.step-1, counts)
		}
		m.addRow(at, atMost, float64(nodes))
	}
	for n, row := range m.problem.Rows {
		add(position{step: 1, size: snapshot.NewOption(0, n+1)}, row.Nodes, func(job *problem.AdmittedJob, option snapshot.Option) bool {
			return slices.Contains(m.problem.Rows.Counting(option, job.PieceNodes), row)
		})
	}
	if m.problem.Rows == nil {
		for t, nodes := range m.problem.Capacity {
			add(position{step: t + 1, size: noSize()}, nodes, everyOption)
		}
	}
}
