package workloads

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

func TestReadGroups(t *testing.T) {
	const text = "\ufeffquota,id,notes,limit,parent_id,type_limits\n" +
		"10,vision,x,20,research,a100=8 t4=0\n" +
		"0,research,,,,\n" +
		"5,\"speech, old\",,0,, v100=3\n"
	got, err := ReadGroups(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []solver.Group{
		{ID: "vision", ParentID: "research", Limit: new(20), Quota: 10,
			TypeLimits: []solver.GroupTypeLimit{{NodeType: "a100", Limit: 8}, {NodeType: "t4", Limit: 0}}},
		{ID: "research"},
		{ID: "speech, old", Limit: new(0), Quota: 5, TypeLimits: []solver.GroupTypeLimit{{NodeType: "v100", Limit: 3}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestReadGroupsNamesEveryBadField checks that one error names all fields that are not valid.
func TestReadGroupsNamesEveryBadField(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":  {"", "groups line 1: must be the names of the columns, at least id, quota"},
		"no group": {"id,quota\n", "groups have no line below the header"},
		"columns": {
			"name,quota,quota\n",
			"groups line 1: column id is missing\n  line 1: column quota is repeated; " +
				"the line has [\"name\" \"quota\" \"quota\"], and commas separate columns",
		},
		"a short line": {"id,quota\na\n", "groups: record on line 2: wrong number of fields"},
		"every field": {
			"id,quota,limit,parent_id\na,-1,x,b\n,1e3,2147483648,\n",
			"groups line 2: quota is \"-1\"; must be a whole number from 0 to 2147483647\n  line 2: limit is \"x\"; must be a whole number from " +
				"0 to 2147483647\n  line 3: quota is \"1e3\"; must be a whole number from 0 to 2147483647\n  line 3: limit is \"2147483648\"; must " +
				"be a whole number from 0 to 2147483647\n  line 2: parent_id is \"b\"; must be the id of a group\n  line 3: id is empty",
		},
		"type limits": {
			"id,quota,type_limits\na,1,a100\nb,1,a100=x\nc,1,a100=1 a100=2\nd,1,=1\n",
			"groups line 2: type_limits is \"a100\"; must be TYPE=NODES separated by spaces, such as a100=8\n  line 3: type_limits is \"x\"; " +
				"must be a whole number from 0 to 2147483647\n  line 4: type_limits[1].node_type is \"a100\" like type_limits[0].node_type; " +
				"must be unique\n  line 5: type_limits[0].node_type is \"\"; must be one of the node types \"a100\"",
		},
		"the same id":   {"id,quota\na,1\n\nb,2\na,3\n", "groups line 5: id is \"a\" like groups[0].id; ids must be unique"},
		"its own child": {"id,quota,parent_id\na,1,a\n", "groups line 2: parent_id is \"a\", whose parents form a cycle"},
		"a cycle":       {"id,quota,parent_id\na,1,b\nb,1,a\n", "line 3: parent_id is \"a\", whose parents form a cycle"},
		"five levels": {
			"id,quota,parent_id\na,1,\nb,1,a\nc,1,b\nd,1,c\ne,1,d\n",
			"groups line 6: parent_id is \"d\", which puts the group at depth 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			groups, err := ReadGroups(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || groups != nil {
				t.Errorf("the groups are %v and the error\n%v; want\n%s", groups, err, test.want)
			}
		})
	}
}

// FuzzReadGroups checks that the result is a tree of at most four levels.
func FuzzReadGroups(f *testing.F) {
	for _, seed := range []string{
		"id,quota,parent_id,limit\na,1,,\nb,2,a,3\n",
		"id,quota,parent_id\na,1,b\nb,1,a\n",
		"quota,id\n-1,\"a\n",
		"\ufeffid,quota,limit\r\na,0,2147483647\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		groups, err := ReadGroups(strings.NewReader(text))
		if err != nil {
			if groups != nil {
				t.Errorf("groups are returned with the error %q", err)
			}
			return
		}
		parents := make(map[string]string)
		for i, group := range groups {
			if _, seen := parents[group.ID]; seen || group.ID == "" || group.Quota < 0 || group.Limit != nil && *group.Limit < 0 {
				t.Errorf("group %d is %+v", i, group)
			}
			parents[group.ID] = group.ParentID
		}
		for id := range parents {
			levels := 0
			for at := id; at != "" && levels <= 4; levels++ {
				parent, known := parents[at]
				if !known {
					t.Fatalf("group %q is below the unknown group %q", id, at)
				}
				at = parent
			}
			if levels > 4 {
				t.Errorf("group %q is more than 4 levels deep", id)
			}
		}
		if len(sim.Teams(groups)) == 0 {
			t.Error("no group is a team")
		}
	})
}
