package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/solver"
)

// The columns of a file of groups, in any order.
const (
	columnGroupID = "id"
	columnParent  = "parent_id"
	columnLimit   = "limit"
	columnQuota   = "quota"
)

// ReadGroups reads the groups that share a pool in CSV: a header that names at least the
// columns id and quota, then one group per line. The columns parent_id and limit are read
// where they are there, and may be empty; others are ignored. The error names every bad
// field by line and column.
func ReadGroups(r io.Reader) ([]solver.Group, error) {
	reader := csv.NewReader(r)
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("groups are empty; want a header line")
	}
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	column := make(map[string]int)
	var bad []string
	addf := func(line int, format string, args ...any) {
		bad = append(bad, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
	}
	for _, name := range []string{columnGroupID, columnQuota, columnParent, columnLimit} {
		at := slices.Index(header, name)
		switch {
		case at < 0 && (name == columnGroupID || name == columnQuota):
			addf(1, "column %s is missing", name)
		case at >= 0 && slices.Contains(header[at+1:], name):
			addf(1, "column %s stands there twice", name)
		case at >= 0:
			column[name] = at
		}
	}
	if len(bad) > 0 {
		return nil, groupsError(bad)
	}

	var groups []solver.Group
	var lines []int
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("groups: %w", err)
		}
		line, _ := reader.FieldPos(0)
		text := func(name string) string {
			if at, ok := column[name]; ok {
				return record[at]
			}
			return ""
		}
		count := func(name string) int {
			n, err := strconv.ParseUint(text(name), 10, 31)
			if err != nil {
				addf(line, "%s is %q; want a whole number from 0 to %d", name, text(name), solver.MaxNodes)
				return 0
			}
			return int(n)
		}
		group := solver.Group{ID: text(columnGroupID), ParentID: text(columnParent), Quota: count(columnQuota)}
		if text(columnLimit) != "" {
			group.Limit = new(count(columnLimit))
		}
		groups, lines = append(groups, group), append(lines, line)
	}
	if len(groups) == 0 {
		return nil, errors.New("groups have no line below the header; want at least one group")
	}
	// A request's rules for groups are those of the file.
	snapshot := solver.Snapshot{Horizon: solver.DefaultHorizon(), Groups: groups}
	for _, violation := range snapshot.Validate(0) {
		var at int
		var field string
		if _, err := fmt.Sscanf(violation.Path, "groups[%d].%s", &at, &field); err != nil {
			return nil, fmt.Errorf("groups: %s", violation.Description) // too many
		}
		addf(lines[at], "%s %s", field, violation.Description)
	}
	if len(bad) > 0 {
		return nil, groupsError(bad)
	}
	return groups, nil
}

// groupsError returns an error that names everything bad.
func groupsError(bad []string) error {
	return errors.New("groups " + strings.Join(bad, "\n  "))
}
