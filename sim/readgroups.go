package sim

import (
	"errors"
	"fmt"
	"io"
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

// ReadGroups reads the groups that share a pool in CSV, one group per line. parent_id and
// limit may be missing or empty. The error names every bad field by line and column.
func ReadGroups(r io.Reader) ([]solver.Group, error) {
	var bad []string
	addf := func(line int, format string, args ...any) {
		bad = append(bad, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
	}
	var groups []solver.Group
	var numbers []int // of their lines
	err := readCSV(r, "groups", []string{columnGroupID, columnQuota}, []string{columnParent, columnLimit}, func(line csvLine) error {
		count := func(name string) int {
			n, err := strconv.ParseUint(line.text(name), 10, 31)
			if err != nil {
				addf(line.at, "%s is %q; want a whole number from 0 to %d", name, line.text(name), solver.MaxNodes)
				return 0
			}
			return int(n)
		}
		group := solver.Group{ID: line.text(columnGroupID), ParentID: line.text(columnParent), Quota: count(columnQuota)}
		if line.text(columnLimit) != "" {
			group.Limit = new(count(columnLimit))
		}
		groups, numbers = append(groups, group), append(numbers, line.at)
		return nil
	})
	if err != nil {
		return nil, err
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
		addf(numbers[at], "%s %s", field, violation.Description)
	}
	if len(bad) > 0 {
		return nil, errors.New("groups " + strings.Join(bad, "\n  "))
	}
	return groups, nil
}
