package server

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
)

// TestCountResizes checks the reason of each change, including lost capacity of the pool, a node type or a
// group.
func TestCountResizes(t *testing.T) {
	t.Parallel()
	job := func(current int, nodeType, group string) solver.Job {
		return solver.Job{CurrentNodes: current, CurrentNodeType: nodeType, GroupID: group, TrainingTime: time.Hour}
	}
	limited := func(id, parent string, limit int) solver.Group {
		return solver.Group{ID: id, ParentID: parent, Limit: &limit}
	}
	started := job(0, "", "")
	started.TrainingTime = 0
	for name, test := range map[string]struct {
		snapshot solver.Snapshot
		changes  []solver.Change
		want     map[string]int
	}{
		"each change": {
			solver.Snapshot{TotalNodes: 9, Jobs: []solver.Job{
				job(1, "", ""), job(0, "", ""), started, job(0, "", ""), job(1, "", ""), job(2, "", ""), job(2, "", ""),
			}},
			[]solver.Change{
				solver.ChangeKeep, solver.ChangeWait, solver.ChangeStart, solver.ChangeStart,
				solver.ChangeScaleUp, solver.ChangeScaleDown, solver.ChangePreempt,
			},
			map[string]int{"resume": 1, "scale-up": 1, "scale-down": 1, "pause": 1},
		},
		"the pool shrank": {
			solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{job(2, "", ""), job(3, "ignored", ""), job(0, "", "")}},
			[]solver.Change{solver.ChangeScaleDown, solver.ChangePreempt, solver.ChangeStart},
			map[string]int{"lost-capacity": 2, "resume": 1},
		},
		"a node type shrank": {
			solver.Snapshot{
				NodeTypes: []solver.NodeType{{ID: "a", Nodes: 1}, {ID: "b", Nodes: 9}},
				Jobs:      []solver.Job{job(2, "a", ""), job(2, "b", ""), job(2, "b", "")},
			},
			[]solver.Change{solver.ChangeMove, solver.ChangePreempt, solver.ChangeMove},
			map[string]int{"lost-capacity": 1, "pause": 1, "move": 1},
		},
		"the limit of a parent shrank": {
			solver.Snapshot{
				TotalNodes: 9, Groups: []solver.Group{limited("all", "", 3), limited("team", "all", 9), limited("others", "", 9)},
				Jobs: []solver.Job{job(4, "", "team"), job(4, "", "others")},
			},
			[]solver.Change{solver.ChangeScaleDown, solver.ChangeScaleDown},
			map[string]int{"lost-capacity": 1, "scale-down": 1},
		},
	} {
		decision := solver.Decision{Allocations: make([]solver.Allocation, len(test.changes))}
		for i, change := range test.changes {
			decision.Allocations[i].Change = change
		}
		if diff := cmp.Diff(test.want, countResizes(&test.snapshot, &decision)); diff != "" {
			t.Errorf("%s: resizes (-want +got):\n%s", name, diff)
		}
	}
}
