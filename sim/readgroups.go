package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The columns of a file of groups, in any order.
const (
	columnGroupID = "id"
	columnParent  = "parent_id"
	columnLimit   = "limit"
	columnQuota   = "quota"
)

// MostGroupLevels is how deep a tree of groups may be.
const MostGroupLevels = 4

// ReadGroups reads the groups that share a pool in CSV: a header that names at least the
// columns id and quota, then one group per line. The columns parent_id and limit are read
// where they are there, and may be empty; others are ignored. The error names every bad
// field by line and column.
func ReadGroups(r io.Reader) ([]Group, error) {
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

	var groups []Group
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
			n, err := strconv.ParseInt(text(name), 10, 32)
			if err != nil || n < 0 {
				addf(line, "%s is %q; want a whole number of at least 0", name, text(name))
			}
			return int(n)
		}
		group := Group{ID: text(columnGroupID), ParentID: text(columnParent), Quota: count(columnQuota)}
		if text(columnLimit) != "" {
			group.Limit = new(count(columnLimit))
		}
		groups, lines = append(groups, group), append(lines, line)
	}
	if len(groups) == 0 {
		return nil, errors.New("groups have no line below the header; want at least one group")
	}
	checkGroups(groups, func(i int, format string, args ...any) { addf(lines[i], format, args...) })
	if len(bad) > 0 {
		return nil, groupsError(bad)
	}
	return groups, nil
}

// groupsError returns an error that names everything bad.
func groupsError(bad []string) error {
	return errors.New("groups " + strings.Join(bad, "\n  "))
}

// checkGroups reports every group that has no place in a tree.
func checkGroups(groups []Group, addf func(group int, format string, args ...any)) {
	at := make(map[string]int)
	for i := range groups {
		id := groups[i].ID
		if id == "" {
			addf(i, "%s is empty", columnGroupID)
		} else if _, seen := at[id]; seen {
			addf(i, "%s %q stands there twice", columnGroupID, id)
		} else {
			at[id] = i
		}
	}
	for i := range groups {
		if parent := groups[i].ParentID; parent != "" {
			if _, known := at[parent]; !known {
				addf(i, "%s %q is no group", columnParent, parent)
			}
		}
	}
	for i := range groups {
		levels, parent := 1, groups[i].ParentID
		for parent != "" && levels <= MostGroupLevels {
			next, known := at[parent]
			if !known {
				break
			}
			levels, parent = levels+1, groups[next].ParentID
		}
		if levels > MostGroupLevels {
			addf(i, "%s %q leads up more than %d levels, or in a circle; want a tree of at most %d levels",
				columnParent, groups[i].ParentID, MostGroupLevels, MostGroupLevels)
		}
	}
}
