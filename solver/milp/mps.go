package milp

import (
	"bufio"
	"fmt"
	"io"
)

// WriteMPS writes the model in free MPS. The objective is negated, because MPS minimizes by default and
// readers differ in how a file requests maximization. It is also scaled; Objective reverts both. All
// bounds are written explicitly, because readers differ in the default bounds of integer columns.
// Numbers are exact: they have the shortest representation that is read back as the same float64.
// Comments have the equations.
func (m *Model) WriteMPS(w io.Writer) error {
	f := bufio.NewWriterSize(w, 1<<16) // Flush returns the first error.
	m.writeRows(f)
	m.writeColumns(f)
	m.writeBounds(f)
	if err := f.Flush(); err != nil {
		return fmt.Errorf("writing the MPS file: %w", err)
	}
	return nil
}

// writeRows writes the header, and the names and senses of the rows by family.
func (m *Model) writeRows(f io.Writer) {
	fmt.Fprintln(f, "* elastalloc, formulation", m.formulation)
	fmt.Fprintln(f, "* Names end in job, step and nodes; jobs and steps count from 1.")
	fmt.Fprintln(f, "* The objective is minimized: minus the training progress, divided by", m.scale)
	fmt.Fprintln(f, "NAME elastalloc\nROWS\n* (obj) max sum_i sum_t w_i s_i^t / d_i\n N progress")
	i := 0
	for n, family := range m.families {
		fmt.Fprintln(f, "*", family.equation)
		for ; i < len(m.rows) && m.rows[i].family == n; i++ {
			fmt.Fprintf(f, " %c %s\n", m.rows[i].sense, m.rowName(i))
		}
	}
}

func (m *Model) writeColumns(f io.Writer) {
	type entry struct {
		row         int
		coefficient float64
	}
	entries := make([][]entry, len(m.columns))
	for i := range m.rows {
		for _, t := range m.rows[i].terms {
			entries[t.column] = append(entries[t.column], entry{i, t.coefficient})
		}
	}
	fmt.Fprintln(f, "COLUMNS")
	for i := range m.columns {
		if i == 0 && m.integers > 0 {
			fmt.Fprintln(f, " integers 'MARKER' 'INTORG'")
		}
		name := m.ColumnName(i)
		if c := m.columns[i].objective; c != 0 {
			fmt.Fprintf(f, " %s progress %v\n", name, -c)
		}
		for _, e := range entries[i] {
			fmt.Fprintf(f, " %s %s %v\n", name, m.rowName(e.row), e.coefficient)
		}
		if i == m.integers-1 {
			fmt.Fprintln(f, " integers 'MARKER' 'INTEND'")
		}
	}
}

// writeBounds writes the right sides of the rows and the bounds of the columns.
func (m *Model) writeBounds(f io.Writer) {
	fmt.Fprintln(f, "RHS")
	for i := range m.rows {
		if r := &m.rows[i]; r.right != 0 {
			fmt.Fprintf(f, " rhs %s %v\n", m.rowName(i), r.right)
		}
	}
	fmt.Fprintln(f, "BOUNDS")
	for i := range m.columns {
		name, c := m.ColumnName(i), &m.columns[i]
		switch c.kind {
		case deltaMinus, deltaPlus, choice:
			fmt.Fprintln(f, " BV bound", name)
		case nodes, done:
			fmt.Fprintf(f, " LO bound %s %v\n UP bound %s %v\n", name, c.lower, name, c.upper)
		}
	}
	fmt.Fprintln(f, "ENDATA")
}
