package workloads

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/elastalloc/elastalloc/internal/csvtable"
	"github.com/elastalloc/elastalloc/solver"
)

// The columns of a file of groups, in any order.
const (
	columnGroupID = "id"
	columnParent  = "parent_id"
	columnLimit   = "limit"
	columnQuota   = "quota"

	columnTypeLimits = "type_limits"
)

// ReadGroups reads the groups that share a pool in CSV, one group per line. parent_id, limit and type_limits may
// be missing or empty. type_limits is a list of TYPE=NODES separated by spaces. An error names the line and the
// column of every invalid field.
func ReadGroups(r io.Reader) ([]solver.Group, error) {
	var bad []string
	addf := func(line int, format string, args ...any) {
		bad = append(bad, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
	}
	snapshot := solver.Snapshot{Horizon: solver.DefaultHorizon()}
	var groups []solver.Group
	var numbers []int // line numbers of groups
	err := csvtable.Read(r, "groups", []string{columnGroupID, columnQuota},
		[]string{columnParent, columnLimit, columnTypeLimits}, func(line csvtable.Line) error {
			parse := func(name, text string) int {
				n, err := strconv.ParseUint(text, 10, 31)
				if err != nil {
					addf(line.Number, "%s is %q; must be a whole number from 0 to %d", name, text, solver.MaxNodes)
					return 0
				}
				return int(n)
			}
			count := func(name string) int { return parse(name, line.Text(name)) }
			group := solver.Group{ID: line.Text(columnGroupID), ParentID: line.Text(columnParent), Quota: count(columnQuota)}
			if line.Text(columnLimit) != "" {
				group.Limit = new(count(columnLimit))
			}
			for word := range strings.FieldsSeq(line.Text(columnTypeLimits)) {
				nodeType, nodes, found := strings.Cut(strings.Clone(word), "=")
				if !found {
					addf(line.Number, "%s is %q; must be TYPE=NODES separated by spaces, such as a100=8", columnTypeLimits, line.Text(columnTypeLimits))
					break
				}
				group.TypeLimits = append(group.TypeLimits, solver.GroupTypeLimit{NodeType: nodeType, Limit: parse(columnTypeLimits, nodes)})
				if nodeType != "" && snapshot.TypeIndex(nodeType) < 0 { // The cluster is not known here.
					snapshot.NodeTypes = append(snapshot.NodeTypes, solver.NodeType{ID: nodeType, Speed: 1})
				}
			}
			groups, numbers = append(groups, group), append(numbers, line.Number)
			return nil
		})
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, errors.New("groups have no line below the header; must have at least one group")
	}
	// The rules for groups in a request apply.
	snapshot.Groups = groups
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
