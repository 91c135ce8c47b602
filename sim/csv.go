package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// csvReader reads CSV whose first line names the columns, in any order.
type csvReader struct {
	reader *csv.Reader
	column map[string]int
}

// newCSVReader reads the first line. Columns that are neither required nor optional are
// ignored. The error names every column that is missing or there twice.
func newCSVReader(r io.Reader, required, optional []string) (*csvReader, error) {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line 1: want the names of columns, at least %s", strings.Join(required, ", "))
	}
	if err != nil {
		return nil, err
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
		return nil, errors.New(strings.Join(bad, "\n  ") + missing)
	}
	return &csvReader{reader, column}, nil
}

// next returns the next line, valid until the one after it, or io.EOF.
func (r *csvReader) next() (csvLine, error) {
	record, err := r.reader.Read()
	if err != nil {
		return csvLine{}, err
	}
	at, _ := r.reader.FieldPos(0)
	return csvLine{at, record, r.column}, nil
}

// csvLine is one line below the first.
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
