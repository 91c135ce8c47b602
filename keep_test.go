package elastalloc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// addKept inserts jobs with Keep into a snapshot and adds the nodes that they occupy to the pool, to their
// node types, their groups and the size limits, so that the other jobs have what they had.
func addKept(t *rapid.T, s *solver.Snapshot) *solver.Snapshot {
	mixed := *s
	mixed.Jobs, mixed.Groups = slices.Clone(s.Jobs), slices.Clone(s.Groups)
	mixed.NodeTypes, mixed.SizeLimits = slices.Clone(s.NodeTypes), slices.Clone(s.SizeLimits)
	parents := make(map[string]string)
	for _, g := range s.Groups {
		parents[g.ID] = g.ParentID
	}
	for n := range rapid.IntRange(1, 3).Draw(t, "kept jobs") {
		kept := solver.Job{
			ID: fmt.Sprint("kept-", n), Keep: true, CurrentNodes: rapid.IntRange(0, 9).Draw(t, "current nodes"),
			PieceNodes: rapid.IntRange(0, 9).Draw(t, "piece nodes"),
		}
		if len(s.Groups) > 0 && rapid.Bool().Draw(t, "in a group") {
			kept.GroupID = s.Jobs[rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "group of job")].GroupID
		}
		if len(s.NodeTypes) > 0 {
			at := rapid.IntRange(0, len(s.NodeTypes)-1).Draw(t, "node type")
			kept.CurrentNodeType = s.NodeTypes[at].ID
			mixed.NodeTypes[at].Nodes += kept.CurrentNodes
		}
		mixed.TotalNodes += kept.CurrentNodes
		for id := kept.GroupID; id != ""; id = parents[id] {
			g := &mixed.Groups[slices.IndexFunc(mixed.Groups, func(g solver.Group) bool { return g.ID == id })]
			if g.Quota > 0 {
				g.Quota += kept.CurrentNodes
			}
			if g.Limit != nil {
				g.Limit = new(*g.Limit + kept.CurrentNodes)
			}
		}
		for n := range mixed.SizeLimits {
			if l := &mixed.SizeLimits[n]; l.NodeType == "" || l.NodeType == kept.CurrentNodeType {
				l.Nodes += solvertest.CountedNodes(&kept, kept.CurrentNodes, l.Size)
			}
		}
		mixed.Jobs = slices.Insert(mixed.Jobs, rapid.IntRange(0, len(mixed.Jobs)).Draw(t, "position"), kept)
	}
	return &mixed
}

// TestKeep checks that the other jobs get what they get in a snapshot without the kept jobs and without their
// nodes, and that kept jobs keep theirs, with teams, node types, size limits or none of them.
func TestKeep(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	limits := solvertest.SmallLimits()
	plain, grouped := solvertest.Snapshots(), solvertest.GroupedSnapshots(limits)
	typed, limited := solvertest.TypedSnapshots(limits), solvertest.LimitedSnapshots(limits)
	rapid.Check(t, func(rt *rapid.T) {
		o, s := randomOptions(rt), plain.Draw(rt, "plain")
		if rapid.Bool().Draw(rt, "constrained") {
			o.Objective = solver.ObjectiveTotalTime
			s = rapid.OneOf(grouped, typed, limited).Draw(rt, "constrained snapshot")
		}
		if len(s.Jobs) == 0 {
			rt.Skip("no jobs")
		}
		mixed := addKept(rt, s)
		decide := allocator.Allocate
		if rapid.Bool().Draw(rt, "fill idle") {
			decide = func(ctx context.Context, s *solver.Snapshot, _ solver.Options) (solver.Decision, error) {
				return allocator.FillIdle(ctx, s)
			}
		}
		want, err := decide(rt.Context(), s, o)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := decide(rt.Context(), mixed, o)
		if err != nil {
			rt.Fatal(err)
		}
		var others []solver.Allocation
		for i, a := range got.Allocations {
			job := &mixed.Jobs[i]
			switch {
			case !job.Keep:
				others = append(others, a)
			case a.JobID != job.ID || a.Nodes != job.CurrentNodes || a.Current != job.CurrentNodes || a.WaitReason != "":
				rt.Fatalf("a kept job on %d nodes: %+v", job.CurrentNodes, a)
			case a.Nodes > 0 && a.NodeType != job.CurrentNodeType:
				rt.Fatalf("a kept job of type %q: %+v", job.CurrentNodeType, a)
			}
		}
		// A job that does not fit only because of kept jobs waits for room.
		reasons := cmpopts.IgnoreFields(solver.Allocation{}, "WaitReason", "BehindJobID")
		if diff := cmp.Diff(want.Allocations, others, cmpopts.EquateEmpty(), reasons); diff != "" {
			rt.Fatalf("other jobs (-alone +with kept jobs):\n%s", diff)
		}
		if got.Report.Objective != want.Report.Objective || got.Report.IdleNodes != want.Report.IdleNodes {
			rt.Fatalf("report %+v; want %+v", got.Report, want.Report)
		}
		if n := slices.IndexFunc(got.Report.Warnings, func(w solver.Warning) bool { return w.Code == solver.WarningBadJobHeld }); n >= 0 {
			rt.Fatalf("warning %+v", got.Report.Warnings[n])
		}
	})
}

// TestKeepSizeLimits checks two pools in which the nodes of a job fit and the place of its piece does not, unless
// the limit is reduced by the job that keeps its nodes.
func TestKeepSizeLimits(t *testing.T) {
	kept := func(nodes int) solver.Job {
		return solver.Job{ID: "a", CurrentNodes: nodes, PieceNodes: nodes, Keep: true}
	}
	twoBlocks := &solver.Snapshot{TotalNodes: 36, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 32}}, Jobs: []solver.Job{
		kept(16), sized("b", 4, 0), sized("c", 16, 0),
	}}
	twoMachines := &solver.Snapshot{TotalNodes: 24, SizeLimits: []solver.SizeLimit{{Size: 8, Nodes: 16}}, Jobs: []solver.Job{
		kept(8), sized("b", 8, 8), sized("c", 8, 0),
	}}
	a := newAllocator(t, elastalloc.Options{})
	for name, test := range map[string]struct {
		snapshot *solver.Snapshot
		want     int // nodes of the other jobs
	}{"two blocks of 18 machines": {twoBlocks, 4}, "two whole machines": {twoMachines, 8}} {
		d, err := a.Allocate(t.Context(), test.snapshot, solver.Options{Objective: solver.ObjectiveTotalTime})
		if err != nil {
			t.Fatal(err)
		}
		got := d.Allocations[1].Nodes + d.Allocations[2].Nodes
		if got != test.want || d.Report.SizeLimits[0].Nodes != test.snapshot.SizeLimits[0].Nodes {
			t.Errorf("%s: the other jobs have %d nodes; want %d, and the limit is %+v", name, got, test.want, d.Report.SizeLimits[0])
		}
	}
}

// TestKeepQuestions checks the responses of the other methods for a job that keeps its nodes.
func TestKeepQuestions(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{})
	s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
		{ID: "kept", CurrentNodes: 6, Keep: true}, {ID: "paused", Keep: true}, sized("b", 2, 0), sized("c", 4, 0),
	}}
	explained, err := a.Explain(t.Context(), s, solver.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []solver.Why{solver.WhyKept, solver.WhyKept, solver.WhyOnlySize, solver.Why(solver.WaitNoRoom)} {
		if got := explained.Jobs[i]; got.Why != want {
			t.Errorf("job %s: %q because %q; want %q", got.JobID, got.Why, got.Text, want)
		}
	}
	future, err := a.Forecast(t.Context(), s, solver.Options{}, solver.ForecastOptions{Until: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i, ends := range []bool{false, false, true, false} {
		if got := future.Jobs[i]; (got.End != nil) != ends {
			t.Errorf("job %s: the forecast is %+v; want an end: %v", got.JobID, got, ends)
		}
	}
	released := solver.Job{ID: "kept", RemainingETA: time.Hour, AllowedNodes: []int{4}, CurrentNodes: 6}
	answer, err := a.WhatIf(t.Context(), s, solver.Options{}, []solver.Scenario{{Name: "released", PutJobs: []solver.Job{released}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Results[0].Decision.Allocations[0].Nodes; got != 4 || answer.Base.Allocations[0].Nodes != 6 {
		t.Errorf("the job has %d nodes if it is released and %d before; want 4 and 6", got, answer.Base.Allocations[0].Nodes)
	}
}

// TestKeepViolations checks which fields of a job with Keep are read.
func TestKeepViolations(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{})
	for name, test := range map[string]struct {
		job  solver.Job
		want string
	}{
		"no other fields":  {solver.Job{ID: "a", Keep: true}, ""},
		"bad other fields": {solver.Job{ID: "a", Keep: true, RemainingETA: -1, MinNodes: -3, Weight: new(-1.0)}, ""},
		"negative nodes":   {solver.Job{ID: "a", Keep: true, CurrentNodes: -1}, "snapshot.jobs[1].current_nodes: is -1; must be at least 0"},
		"too many nodes": {
			solver.Job{ID: "a", Keep: true, CurrentNodes: solver.MaxNodes + 1}, "snapshot.jobs[1].current_nodes: is 2147483648",
		},
		"negative piece":    {solver.Job{ID: "a", Keep: true, PieceNodes: -1}, "snapshot.jobs[1].piece_nodes: is -1; must be 0 to"},
		"no id":             {solver.Job{Keep: true}, "snapshot.jobs[1].id: is empty"},
		"the id of another": {solver.Job{ID: "b", Keep: true}, `snapshot.jobs[1].id: is "b" like jobs[0].id`},
		"an unknown group":  {solver.Job{ID: "a", Keep: true, GroupID: "other"}, `snapshot.jobs[1].group_id: is "other"`},
		"an unknown type": {
			solver.Job{ID: "a", Keep: true, CurrentNodes: 1, CurrentNodeType: "other"}, `snapshot.jobs[1].current_node_type: is "other"`,
		},
		"no type":            {solver.Job{ID: "a", Keep: true, CurrentNodes: 1}, "snapshot.jobs[1].current_node_type: is empty"},
		"no type, no nodes":  {solver.Job{ID: "a", Keep: true}, ""},
		"more than the pool": {solver.Job{ID: "a", Keep: true, CurrentNodes: 100, CurrentNodeType: "gpu"}, ""},
	} {
		other := sized("b", 1, 0)
		other.GroupID = "team"
		s := &solver.Snapshot{
			TotalNodes: 4, Groups: []solver.Group{{ID: "team"}}, NodeTypes: []solver.NodeType{{ID: "gpu", Nodes: 4, Speed: 1}},
			Jobs: []solver.Job{other, test.job},
		}
		d, err := a.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime})
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v; want %q", name, err, test.want)
		case err == nil && d.Allocations[1].Nodes != test.job.CurrentNodes:
			t.Errorf("%s: %d nodes; want %d", name, d.Allocations[1].Nodes, test.job.CurrentNodes)
		}
	}
}

// TestDuplicateIDs checks that jobs with one id have one allocation, of the largest current nodes, if bad jobs
// keep their nodes.
func TestDuplicateIDs(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{})
	job := func(id string, nodes int) solver.Job { return sized(id, 2, nodes) }
	s := &solver.Snapshot{
		TotalNodes: 10, Jobs: []solver.Job{job("a", 1), job("b", 0), job("a", 5), job("a", 5), job("c", 0), job("b", 3), job("d", 2)},
	}
	if _, err := a.Allocate(t.Context(), s, solver.Options{}); err == nil {
		t.Error("two jobs with one id are accepted")
	}
	for _, objective := range []solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime} {
		d, err := a.Allocate(t.Context(), s, solver.Options{BadJobs: solver.BadJobsHold, Objective: objective})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]int)
		for _, allocation := range d.Allocations {
			got[allocation.JobID] = allocation.Nodes
		}
		// a and b occupy 8 of 10 nodes.
		if want := map[string]int{"a": 5, "b": 3, "c": 0, "d": 2}; len(d.Allocations) != len(want) || !cmp.Equal(got, want) {
			t.Errorf("allocations %v; want %v", d.Allocations, want)
		}
		warned, held := codes(d.Report.Warnings), []solver.WarningCode{solver.WarningBadJobHeld, solver.WarningBadJobHeld}
		if !cmp.Equal(warned, held) {
			t.Errorf("warnings %v; want %v", warned, held)
		}
		// The positions are those of the request.
		for n, want := range []string{`snapshot.jobs[2].id: is "a" like jobs[0].id`, `snapshot.jobs[5].id: is "b" like jobs[1].id`} {
			if got := d.Report.Warnings[n].Message; !strings.Contains(got, want) {
				t.Errorf("warning %q; want %q", got, want)
			}
		}
	}
}

func codes(warnings []solver.Warning) []solver.WarningCode {
	var all []solver.WarningCode
	for _, w := range warnings {
		all = append(all, w.Code)
	}
	return all
}

// packs reports whether machines with the given free units have places for all pieces, by trying all ways.
func packs(free, pieces []int) bool {
	if len(pieces) == 0 {
		return true
	}
	for i := range free {
		if free[i] < pieces[0] || slices.Contains(free[:i], free[i]) {
			continue
		}
		free[i] -= pieces[0]
		packed := packs(free, pieces[1:])
		free[i] += pieces[0]
		if packed {
			return true
		}
	}
	return false
}

// addMachines adds random damaged machines of a node type to a snapshot, and their size limits. It returns the free units of
// each machine.
func addMachines(rt *rapid.T, s *solver.Snapshot, nodeType string, sizes []int) (free []int) {
	var machines []placement.Node
	nodes := 0
	for n := range rapid.IntRange(1, 5).Draw(rt, "machines") {
		units := 8 - max(0, rapid.IntRange(-7, 7).Draw(rt, "missing units"))
		free = append(free, units)
		machines = append(machines, placement.Node{ID: fmt.Sprint(n), Block: fmt.Sprint(n), Units: 8, Free: units})
		nodes += units
	}
	if s.TotalNodes += nodes; nodeType != "" {
		s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: nodeType, Nodes: nodes, Speed: rapid.Float64Range(0.5, 2).Draw(rt, "speed")})
	}
	limits, err := placement.Limits(machines, sizes)
	if err != nil {
		rt.Fatal(err)
	}
	for _, l := range limits {
		s.SizeLimits = append(s.SizeLimits, solver.SizeLimit{Size: int(l.GetSize()), Nodes: int(l.GetNodes()), NodeType: nodeType})
	}
	return free
}

// randomDamagedPool returns a pool of damaged machines of one or two node types with jobs of which some keep their units.
// free are the units of the machines, and kept the units of the jobs that keep them, by node type. Their places exist.
func randomDamagedPool(rt *rapid.T) (s *solver.Snapshot, free, kept map[string][]int) {
	s, free, kept = new(solver.Snapshot), make(map[string][]int), make(map[string][]int)
	sizes := []int{1, 2, 4, 8}
	types := []string{"", "new"}[:rapid.IntRange(1, 2).Draw(rt, "node types")]
	if len(types) > 1 {
		types[0] = "old"
	}
	for _, nodeType := range types {
		free[nodeType] = addMachines(rt, s, nodeType, sizes)
	}
	for n := range rapid.IntRange(1, 3).Draw(rt, "kept jobs") {
		nodeType := rapid.SampledFrom(types).Draw(rt, "node type of kept job")
		if size := rapid.SampledFrom(sizes).Draw(rt, "kept units"); packs(free[nodeType], append(kept[nodeType], size)) {
			kept[nodeType] = append(kept[nodeType], size)
			s.Jobs = append(s.Jobs, solver.Job{ID: fmt.Sprint("kept-", n), CurrentNodes: size, CurrentNodeType: nodeType, Keep: true})
		}
	}
	for n := range rapid.IntRange(2, 10).Draw(rt, "jobs") {
		job := solver.Job{
			ID: fmt.Sprint("job-", n), RemainingETA: time.Hour * time.Duration(1+n),
			AllowedNodes: sizes[rapid.SampledFrom([]int{0, 1, 2, 3, 3, 3, 3, 3, 3}).Draw(rt, "smallest"):],
			CurrentNodes: rapid.SampledFrom([]int{0, 0, 1, 2, 4, 8}).Draw(rt, "current units"),
		}
		if job.CurrentNodes > 0 {
			job.CurrentNodeType = rapid.SampledFrom(types).Draw(rt, "node type of job")
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s, free, kept
}

// TestKeptJobsArePlaced decides on damaged machines with jobs that keep their units, with the size limits of all
// machines, on one or two node types. An exhaustive packer places every decision together with the kept jobs.
func TestKeptJobsArePlaced(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	limited := 0
	rapid.Check(t, func(rt *rapid.T) {
		s, free, kept := randomDamagedPool(rt)
		o := randomOptions(rt)
		o.Objective = solver.ObjectiveTotalTime
		d, err := allocator.Allocate(rt.Context(), s, o)
		if rapid.Bool().Draw(rt, "fill idle") {
			d, err = allocator.FillIdle(rt.Context(), s)
		}
		if err != nil {
			rt.Fatal(err)
		}
		pieces := make(map[string][]int)
		for _, a := range d.Allocations {
			if a.Nodes > 0 {
				pieces[a.NodeType] = append(pieces[a.NodeType], a.Nodes)
			}
			if a.WaitReason == solver.WaitSizeLimit {
				limited++
			}
		}
		for nodeType, of := range pieces {
			slices.SortFunc(of, func(a, b int) int { return b - a })
			if !packs(free[nodeType], of) {
				rt.Fatalf("machines with %v free units have no places for %v, of which %v are kept", free[nodeType], of, kept[nodeType])
			}
		}
	})
	if limited == 0 && !testing.Short() { // Short tests have few pools.
		t.Error("no job waited because of a size limit")
	}
}
