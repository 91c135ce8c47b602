package solver_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// teams returns a valid snapshot of one job in each of the given groups.
func teams(groups ...solver.Group) *solver.Snapshot {
	s := solvertest.NewJobs(len(groups))
	s.Groups = groups
	for i := range groups {
		s.Jobs[i].GroupID = groups[i].ID
	}
	return s
}

func TestValidateGroups(t *testing.T) {
	chain := func(depth int) []solver.Group {
		groups := []solver.Group{{ID: "1"}}
		for i := 2; i <= depth; i++ {
			groups = append(groups, solver.Group{ID: fmt.Sprint(i), ParentID: fmt.Sprint(i - 1)})
		}
		return groups
	}
	in := func(group string, groups ...solver.Group) *solver.Snapshot {
		s := solvertest.NewJobs(1)
		s.Groups, s.Jobs[0].GroupID = groups, group
		return s
	}
	noGroups := solvertest.NewJobs(1)
	noGroups.Jobs[0].GroupID = "whatever"
	tests := []struct {
		name     string
		snapshot *solver.Snapshot
		want     []string
	}{
		{"two teams", teams(solver.Group{ID: "a", Limit: new(0)}, solver.Group{ID: "b", Quota: 99}), nil},
		{"a job's group without groups", noGroups, nil},
		{"a parent after its child", in("a", solver.Group{ID: "a", ParentID: "b"}, solver.Group{ID: "b"}), nil},
		{"4 deep", in("4", chain(4)...), nil},
		{"6 deep", in("6", chain(6)...), []string{"groups[4].parent_id", "groups[5].parent_id"}},
		{"no id", in("a", solver.Group{ID: "a"}, solver.Group{}), []string{"groups[1].id"}},
		{"one id twice", in("a", solver.Group{ID: "a"}, solver.Group{ID: "a"}), []string{"groups[1].id"}},
		{"unknown parent", in("a", solver.Group{ID: "a", ParentID: "b"}), []string{"groups[0].parent_id"}},
		{"its own parent", in("b", solver.Group{ID: "a", ParentID: "a"}, solver.Group{ID: "b"}), []string{"groups[0].parent_id"}},
		{
			"a circle and what hangs from it",
			in("d", solver.Group{ID: "a", ParentID: "b"}, solver.Group{ID: "b", ParentID: "a"},
				solver.Group{ID: "c", ParentID: "a"}, solver.Group{ID: "d"}),
			[]string{"groups[0].parent_id", "groups[1].parent_id", "groups[2].parent_id"},
		},
		{
			"negative numbers", in("a", solver.Group{ID: "a", Limit: new(-1), Quota: -1}),
			[]string{"groups[0].limit", "groups[0].quota"},
		},
		{
			"numbers beyond all nodes", in("a", solver.Group{ID: "a", Limit: new(solver.MaxNodes + 1), Quota: solver.MaxNodes + 1}),
			[]string{"groups[0].limit", "groups[0].quota"},
		},
		{"a job without a group", in("", solver.Group{ID: "a"}), []string{"jobs[0].group_id"}},
		{"a job of an unknown group", in("b", solver.Group{ID: "a"}), []string{"jobs[0].group_id"}},
		{"a job of an inner group", in("a", solver.Group{ID: "a"}, solver.Group{ID: "b", ParentID: "a"}), []string{"jobs[0].group_id"}},
		{"too many groups", in("1", make([]solver.Group, solver.MaxGroups+1)...), []string{"groups"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, paths(test.snapshot.Validate(10))); diff != "" {
				t.Errorf("wrong paths (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGroupsNeedTotalTime checks that the paper's objective refuses groups.
func TestGroupsNeedTotalTime(t *testing.T) {
	s := teams(solver.Group{ID: "a"})
	for objective, want := range map[solver.Objective][]string{
		solver.ObjectiveProgress: {"snapshot.groups"}, solver.ObjectiveTotalTime: nil,
	} {
		o := solver.Options{Objective: objective}.WithDefaults()
		bad := solver.Validate(s, o, 10, []solver.BackendName{o.Backend})
		if diff := cmp.Diff(want, paths(bad)); diff != "" {
			t.Errorf("%s: wrong paths (-want +got):\n%s", objective, diff)
		}
	}
}
