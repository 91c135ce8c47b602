package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// TestRemediesInMachines checks that with size limits a remedy adds whole machines: more nodes without more places
// would not help.
func TestRemediesInMachines(t *testing.T) {
	t.Parallel()
	a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	job := func(id string, size, current int) solver.Job {
		return solver.Job{ID: id, RemainingETA: time.Hour, AllowedNodes: []int{size}, CurrentNodes: current}
	}
	types := []solver.NodeType{{ID: "a100", Nodes: 24, Speed: 1}, {ID: "t4", Nodes: 8, Speed: 1}}
	for name, test := range map[string]struct {
		types []solver.NodeType
		size  int
		text  string
		total int
	}{
		"one machine":         {nil, 8, "with 1 more machine of 8.", 32},
		"two machines":        {nil, 16, "with 2 more machines of 8.", 40},
		"a machine of a type": {types, 8, "with 1 more machine of type a100 of 8", 32},
	} {
		s := &solver.Snapshot{TotalNodes: 24, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 20}, {Size: 8, Nodes: 8}}, Jobs: []solver.Job{
			job("running", 8, 8), job("waiting", test.size, 0),
		}}
		if test.types != nil {
			s.NodeTypes, s.TotalNodes = test.types, 0
			for n := range s.SizeLimits {
				s.SizeLimits[n].NodeType = "a100"
			}
			for i := range s.Jobs {
				s.Jobs[i].Speeds = []solver.TypeSpeed{{NodeType: "a100"}}
			}
			s.Jobs[0].CurrentNodeType = "a100"
		}
		o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
		explained, err := a.Explain(t.Context(), s, o, []string{"waiting"})
		if err != nil {
			t.Fatal(err)
		}
		var pool solver.Remedy
		for _, remedy := range explained.Jobs[0].Remedies {
			if remedy.TotalNodes > 0 {
				pool = remedy
			}
		}
		if got := explained.Jobs[0].Text; pool.TotalNodes != test.total ||
			pool.MachineNodes != 8 || pool.Nodes != test.size || !strings.Contains(got, test.text) {
			t.Errorf("%s: %+v, %q; want %q", name, pool, got, test.text)
		}
		// The pool of the remedy gives the job its nodes.
		for n := range s.SizeLimits {
			s.SizeLimits[n].Nodes += pool.TotalNodes - 24
		}
		if s.TotalNodes = pool.TotalNodes; test.types != nil {
			s.TotalNodes, s.NodeTypes[0].Nodes = 0, pool.TotalNodes
		}
		d, err := a.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allocations[1].Nodes != test.size {
			t.Errorf("%s: %d nodes in the larger pool; want %d", name, d.Allocations[1].Nodes, test.size)
		}
	}
}
