package milp

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// objectiveRow is the name of the objective in the file.
const objectiveRow = "progress"

// WriteMPS writes the model in free MPS. MPS minimises, and readers differ on how
// a file says otherwise, so the objective is negated, and scaled where
// numbers ask for it; Objective undoes both. Every bound is written out, since
// readers differ on the bounds of an integer column as well. Numbers have the
// digits that tell a float64 from every other. Comments name the equations.
func (m *Model) WriteMPS(w io.Writer) error {
	f := &mpsFile{w: bufio.NewWriterSize(w, 1<<16)}
	m.writeHead(f)
	m.writeRows(f)
	m.writeColumns(f)
	m.writeRightSides(f)
	m.writeBounds(f)
	f.text("ENDATA").end()
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("writing the MPS file: %w", err)
	}
	return nil
}

// mpsFile writes lines. An error of the writer below stays in it until the flush.
type mpsFile struct {
	w    *bufio.Writer
	line []byte
}

func (f *mpsFile) text(s string) *mpsFile {
	f.line = append(f.line, s...)
	return f
}

func (f *mpsFile) space() *mpsFile {
	f.line = append(f.line, ' ')
	return f
}

func (f *mpsFile) number(v float64) *mpsFile {
	f.line = strconv.AppendFloat(f.line, v, 'g', -1, 64)
	return f
}

func (f *mpsFile) column(m *Model, i int) *mpsFile {
	f.line = m.appendColumnName(f.line, i)
	return f
}

func (f *mpsFile) row(family string, p position) *mpsFile {
	f.line = p.append(append(f.line, family...))
	return f
}

func (f *mpsFile) end() {
	f.line = append(f.line, '\n')
	_, _ = f.w.Write(f.line) // bufio.Writer keeps the error for Flush.
	f.line = f.line[:0]
}

func (m *Model) writeHead(f *mpsFile) {
	f.text("* elastalloc, formulation ").text(string(m.formulation)).end()
	f.text("* Names end in job, step and nodes; jobs and steps count from 1.").end()
	f.text("* The objective is to be minimised: minus the training progress, divided by ").number(m.scale).end()
	f.text("NAME elastalloc").end()
}

// writeRows writes the names of the rows and their senses, family by family.
func (m *Model) writeRows(f *mpsFile) {
	f.text("ROWS").end()
	f.text("* (obj) max sum_i sum_t w_i s_i^t / d_i").end()
	f.text(" N ").text(objectiveRow).end()
	for n, family := range m.families {
		f.text("* ").text(family.equation).end()
		for i := family.first; i < m.familyEnd(n); i++ {
			f.line = append(f.line, ' ', byte(m.rows[i].sense), ' ')
			f.row(family.name, m.rows[i].position).end()
		}
	}
}

// familyEnd returns the end of the rows of family n.
func (m *Model) familyEnd(n int) int {
	if n+1 < len(m.families) {
		return m.families[n+1].first
	}
	return len(m.rows)
}

// entry is a coefficient of a column in a row.
type entry struct {
	family, row int
	coefficient float64
}

// byColumn returns the terms of the rows sorted by column, keeping the order of
// the rows, and where those of each column end.
func (m *Model) byColumn() (entries []entry, ends []int) {
	next := make([]int, len(m.columns)+1)
	for _, t := range m.terms {
		next[t.column+1]++
	}
	for i := range m.columns {
		next[i+1] += next[i]
	}
	entries = make([]entry, len(m.terms))
	for n, family := range m.families {
		for i := family.first; i < m.familyEnd(n); i++ {
			for _, t := range m.rowTerms(i) {
				entries[next[t.column]] = entry{family: n, row: i, coefficient: t.coefficient}
				next[t.column]++
			}
		}
	}
	return entries, next[:len(m.columns)]
}

func (m *Model) writeColumns(f *mpsFile) {
	f.text("COLUMNS").end()
	entries, ends := m.byColumn()
	begin := 0
	for i := range m.columns {
		if i == 0 && m.integers > 0 {
			f.text(" integers 'MARKER' 'INTORG'").end()
		}
		if c := m.columns[i].objective; c != 0 {
			f.space().column(m, i).text(" " + objectiveRow + " ").number(-c).end()
		}
		for _, e := range entries[begin:ends[i]] {
			f.space().column(m, i).space()
			f.row(m.families[e.family].name, m.rows[e.row].position).space().number(e.coefficient).end()
		}
		begin = ends[i]
		if i == m.integers-1 {
			f.text(" integers 'MARKER' 'INTEND'").end()
		}
	}
}

func (m *Model) writeRightSides(f *mpsFile) {
	f.text("RHS").end()
	for n, family := range m.families {
		for i := family.first; i < m.familyEnd(n); i++ {
			if r := &m.rows[i]; r.right != 0 {
				f.text(" rhs ").row(family.name, r.position).space().number(r.right).end()
			}
		}
	}
}

func (m *Model) writeBounds(f *mpsFile) {
	f.text("BOUNDS").end()
	for i := range m.columns {
		c := &m.columns[i]
		switch c.kind {
		case minus, plus, choice:
			f.text(" BV bound ").column(m, i).end()
		case nodes, served:
			f.text(" LO bound ").column(m, i).space().number(c.lower).end()
			f.text(" UP bound ").column(m, i).space().number(c.upper).end()
		}
	}
}
