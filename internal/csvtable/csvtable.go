// Package csvtable reads CSV whose first line names the columns.
package csvtable

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Line is one line after the header. It is valid until the next line is read.
type Line struct {
	// Number is the number of the line, from 1.
	Number int
	record []string
	column map[string]int
}

// Read reads CSV with a header, whose columns may be in any order, and calls each for every other
// line. Errors begin with what and name the line. An error of the header names all columns that are
// missing or repeated.
func Read(r io.Reader, what string, required, optional []string, each func(Line) error) error {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("line 1: must be the names of the columns, at least %s", strings.Join(required, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	// Spreadsheets often write a byte order mark.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	column := make(map[string]int)
	var bad []string
	missing := ""
	for _, name := range slices.Concat(required, optional) {
		at := slices.Index(header, name)
		switch {
		case at >= 0 && slices.Contains(header[at+1:], name):
			bad = append(bad, fmt.Sprintf("line 1: column %s is repeated", name))
		case at >= 0:
			column[name] = at
		case slices.Contains(required, name):
			bad = append(bad, fmt.Sprintf("line 1: column %s is missing", name))
			missing = fmt.Sprintf("; the line has %q, and commas separate columns", header)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s %s%s", what, strings.Join(bad, "\n  "), missing)
	}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		at, _ := reader.FieldPos(0)
		if err := each(Line{at, record, column}); err != nil {
			return fmt.Errorf("%s line %d: %w", what, at, err)
		}
	}
}

// Text returns the text of a column, "" if the column is missing.
func (l Line) Text(name string) string {
	if at, ok := l.column[name]; ok {
		return l.record[at]
	}
	return ""
}

// Count returns a column of a whole number of at least 1. The error names the column and the value.
func (l Line) Count(name string) (int, error) {
	n, err := strconv.ParseInt(l.Text(name), 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q; must be a whole number of at least 1", name, l.Text(name))
	}
	return int(n), nil
}

// UpTo returns a function that reads a column of numbers in (0, limit].
func (l Line) UpTo(limit float64) func(name string) (float64, error) {
	return func(name string) (float64, error) {
		x, err := strconv.ParseFloat(l.Text(name), 64)
		if err != nil || !(x > 0 && x <= limit) {
			return 0, fmt.Errorf("%s is %q; must be a number greater than 0 and at most %g", name, l.Text(name), limit)
		}
		return x, nil
	}
}

// Optional reads a column into value. If the column is missing or empty, value does not change.
func Optional[T any](l Line, name string, value *T, read func(name string) (T, error)) error {
	if l.Text(name) == "" {
		return nil
	}
	var err error
	*value, err = read(name)
	return err
}
