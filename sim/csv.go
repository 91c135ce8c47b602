package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// readCSV reads CSV whose first line names the columns, in any order, and calls each with every
// line below. Errors begin with what is read, and name the line; that of the first line names
// every column that is missing or there twice.
func readCSV(r io.Reader, what string, required, optional []string, each func(csvLine) error) error {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("line 1: want the names of columns, at least %s", strings.Join(required, ", "))
	}
	if err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	// Spreadsheets like to begin a file with a byte order mark.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	column := make(map[string]int)
	var bad []string
	missing := ""
	for _, name := range slices.Concat(required, optional) {
		at := slices.Index(header, name)
		switch {
		case at >= 0 && slices.Contains(header[at+1:], name):
			bad = append(bad, fmt.Sprintf("line 1: column %s stands there twice", name))
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
		if err := each(csvLine{at, record, column}); err != nil {
			return fmt.Errorf("%s line %d: %w", what, at, err)
		}
	}
}

// csvLine is one line below the first, valid until the one after it is read.
type csvLine struct {
	at     int // the number of the line
	record []string
	column map[string]int
}

// text returns the text of a column, "" where it is not there.
func (l csvLine) text(name string) string {
	if at, ok := l.column[name]; ok {
		return l.record[at]
	}
	return ""
}
