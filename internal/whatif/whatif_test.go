package whatif_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// auditedAllocator has its decisions audited.
type auditedAllocator struct{ *elastalloc.Allocator }

func (a auditedAllocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	return audittest.Allocate(ctx, s, o, a.Allocator.Allocate)
}

// newAllocator returns an allocator without a default budget.
func newAllocator(tb testing.TB, options elastalloc.Options) auditedAllocator {
	tb.Helper()
	if options.DefaultBudget == 0 {
		options.DefaultBudget = elastalloc.NoBudget
	}
	a, err := elastalloc.New(options)
	if err != nil {
		tb.Fatal(err)
	}
	return auditedAllocator{a}
}

// twoJobs returns a snapshot of two jobs.
func twoJobs() *solver.Snapshot {
	return &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
		{ID: "a", RemainingETA: time.Hour}, {ID: "b", RemainingETA: 3 * time.Hour},
	}}
}

// TestWhatIfIsAllocate checks that each scenario has the decision of Allocate alone, on
// the snapshot that the scenario describes, made here in another way.
func TestWhatIfIsAllocate(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		o := solver.Options{
			Certificate: true, // for the audit
			Objective:   rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(t, "objective"),
			Admission:   rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		}
		if o.Objective == solver.ObjectiveTotalTime && rapid.Bool().Draw(t, "groups") {
			s = solvertest.GroupedSnapshots(solvertest.Limits{Jobs: 6, Steps: 2, Sizes: 3, Nodes: 20}).Draw(t, "grouped snapshot")
		}
		var cases []variedSnapshot
		var scenarios []solver.Scenario
		for n := range rapid.IntRange(0, 4).Draw(t, "scenarios") {
			cases = append(cases, vary(t, s, o, fmt.Sprint("scenario ", n)))
			scenarios = append(scenarios, cases[n].scenario)
		}
		got, err := a.WhatIf(context.Background(), s, o, scenarios)
		if err != nil {
			t.Fatal(err)
		}
		base := allocateEqual(t, a, "base", s, o, got.Base)
		for n, result := range got.Results {
			if cases[n].snapshot == nil {
				var invalid *solver.InvalidError
				if !errors.As(result.Err, &invalid) || result.Decision.Allocations != nil {
					t.Fatalf("scenario %q: %+v; want an error", result.Name, result)
				}
				continue
			}
			if result.Err != nil || result.Name != scenarios[n].Name {
				t.Fatalf("scenario %q: %v", result.Name, result.Err)
			}
			decision := allocateEqual(t, a, result.Name, cases[n].snapshot, cases[n].options, result.Decision)
			if want := differing(base, decision); !slices.Equal(want, slices.Sorted(slices.Values(result.ChangedJobIDs))) {
				t.Fatalf("changed jobs %q; want %q", result.ChangedJobIDs, want)
			}
		}
	})
}

// variedSnapshot is a scenario, and the snapshot and options that it describes.
type variedSnapshot struct {
	scenario solver.Scenario
	snapshot *solver.Snapshot // nil for a scenario that is wrong
	options  solver.Options
}

// vary returns a random scenario of a snapshot.
func vary(t *rapid.T, s *solver.Snapshot, o solver.Options, name string) variedSnapshot {
	scenario, changed := solver.Scenario{Name: name}, *s
	changed.Jobs = slices.Clone(s.Jobs)
	if rapid.Bool().Draw(t, "other pool") {
		changed.TotalNodes = rapid.IntRange(0, 40).Draw(t, "nodes")
		scenario.TotalNodes = new(changed.TotalNodes)
	}
	if len(s.Jobs) > 0 && rapid.Bool().Draw(t, "removes") {
		i := rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "removed")
		scenario.RemoveJobIDs = []string{s.Jobs[i].ID}
		changed.Jobs = slices.Delete(changed.Jobs, i, i+1)
	}
	if rapid.Bool().Draw(t, "joins") {
		job := solver.NewJob("joins", time.Hour)
		if len(s.Jobs) > 0 {
			job.GroupID = s.Jobs[0].GroupID
		} else if len(s.Groups) > 0 {
			t.Skip("without jobs it is unknown which groups are leaves")
		}
		scenario.PutJobs = append(scenario.PutJobs, job)
		changed.Jobs = append(changed.Jobs, job)
	}
	if len(changed.Jobs) > 1 && rapid.Bool().Draw(t, "replaces") {
		job := &changed.Jobs[0]
		job.Weight = new(rapid.Float64Range(0, 10).Draw(t, "weight"))
		scenario.PutJobs = append(scenario.PutJobs, *job)
	}
	if rapid.Bool().Draw(t, "other options") {
		o.Admission = solver.AdmissionPreemptive
		scenario.Options = new(o)
	}
	if rapid.Float64Range(0, 1).Draw(t, "lot") < 0.2 {
		scenario.RemoveJobIDs = append(scenario.RemoveJobIDs, "ghost")
		return variedSnapshot{scenario: scenario}
	}
	return variedSnapshot{scenario, &changed, o}
}

// allocateEqual checks that a decision is that of Allocate, and returns it.
func allocateEqual(
	t *rapid.T, a auditedAllocator, name string, s *solver.Snapshot, o solver.Options, got solver.Decision,
) solver.Decision {
	want, err := a.Allocate(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, solvertest.IgnoreDurations()); diff != "" {
		t.Fatalf("%s (-alone +got):\n%s", name, diff)
	}
	return want
}

// TestWhatIfOfManyJobs checks the same for many jobs, and that a scenario may override the options.
func TestWhatIfOfManyJobs(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	s, scenarios := mayEnd(450)
	scenarios[1].Options = &solver.Options{Admission: solver.AdmissionPreemptive}
	scenarios[2].Options = &solver.Options{Objective: solver.ObjectiveTotalTime}
	got, err := a.WhatIf(t.Context(), s, solver.Options{}, scenarios)
	if err != nil {
		t.Fatal(err)
	}
	for n, scenario := range scenarios {
		varied, o := *s, solver.Options{}
		varied.TotalNodes = *scenario.TotalNodes
		if scenario.Options != nil {
			o = *scenario.Options
		}
		want, err := a.Allocate(t.Context(), &varied, o)
		if err != nil || got.Results[n].Err != nil {
			t.Fatal(err, got.Results[n].Err)
		}
		if diff := cmp.Diff(want.Allocations, got.Results[n].Decision.Allocations); diff != "" {
			t.Errorf("scenario %d (-alone +got):\n%s", n, diff)
		}
	}
}

// differing returns the jobs whose nodes differ between two decisions, sorted.
func differing(a, b solver.Decision) []string {
	var ids []string
	nodes := func(d solver.Decision, id string) int {
		for i := range d.Allocations {
			if d.Allocations[i].JobID == id {
				return d.Allocations[i].Nodes
			}
		}
		return 0
	}
	for _, d := range []solver.Decision{a, b} {
		for i := range d.Allocations {
			if id := d.Allocations[i].JobID; nodes(a, id) != nodes(b, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// TestWhatIfErrors checks that the error of an invalid scenario has the path of its field, and does not affect the
// other scenarios.
func TestWhatIfErrors(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{MaxJobs: 4})
	bad := solver.NewJob("a", time.Hour)
	bad.MaxNodes, bad.MinNodes = 1, 2
	many := make([]solver.Job, 3)
	for i := range many {
		many[i] = solver.NewJob(fmt.Sprint("new", i), time.Hour)
	}
	for name, test := range map[string]struct {
		scenario solver.Scenario
		want     []solver.Violation
	}{
		"a bad job that replaces another": {
			solver.Scenario{PutJobs: []solver.Job{many[0], bad}},
			[]solver.Violation{{Path: "scenarios[1].put_jobs[1].max_nodes", Description: "is 1; must be at least min_nodes (2)"}},
		},
		"an unknown job": {
			solver.Scenario{RemoveJobIDs: []string{"b", "c", "b"}},
			[]solver.Violation{
				{Path: "scenarios[1].remove_job_ids[1]", Description: `is "c"; must be a job of the snapshot that is not removed already`},
				{Path: "scenarios[1].remove_job_ids[2]", Description: `is "b"; must be a job of the snapshot that is not removed already`},
			},
		},
		"one id twice": {
			solver.Scenario{PutJobs: []solver.Job{many[0], many[0]}},
			[]solver.Violation{{Path: "scenarios[1].put_jobs[1].id", Description: `is "new0" like put_jobs[0].id; ids must be unique`}},
		},
		"a pool of less than nothing": {
			solver.Scenario{TotalNodes: new(-1)},
			[]solver.Violation{{Path: "scenarios[1].total_nodes", Description: "is -1; must be at least 0"}},
		},
		"options": {
			solver.Scenario{Options: &solver.Options{RelativeGap: 2}},
			[]solver.Violation{{Path: "scenarios[1].options.relative_gap", Description: "is 2; must be at least 0 and less than 1"}},
		},
		"too many jobs": {
			solver.Scenario{PutJobs: many},
			[]solver.Violation{{Path: "scenarios[1].jobs", Description: "has 5 jobs; must have at most 4"}},
		},
		"what another form could not express": {
			solver.Scenario{Bad: []solver.Violation{{Path: "put_jobs", Description: "is bad"}}},
			[]solver.Violation{{Path: "scenarios[1].put_jobs", Description: "is bad"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := a.WhatIf(t.Context(), twoJobs(), solver.Options{}, []solver.Scenario{{}, test.scenario, {}})
			if err != nil || len(w.Results) != 3 {
				t.Fatalf("%d results, %v; want 3", len(w.Results), err)
			}
			for _, n := range []int{0, 2} {
				if w.Results[n].Err != nil || len(w.Results[n].Decision.Allocations) != 2 {
					t.Errorf("scenario %d: %v; want it undisturbed", n, w.Results[n].Err)
				}
			}
			var invalid *solver.InvalidError
			if !errors.As(w.Results[1].Err, &invalid) {
				t.Fatalf("error %v; want bad fields", w.Results[1].Err)
			}
			if diff := cmp.Diff(test.want, invalid.Violations); diff != "" {
				t.Errorf("bad fields (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("too many scenarios", func(t *testing.T) {
		t.Parallel()
		_, err := a.WhatIf(t.Context(), twoJobs(), solver.Options{}, make([]solver.Scenario, solver.MaxScenarios+1))
		if want := "invalid request: scenarios: has 65 scenarios; must have at most 64"; err == nil || err.Error() != want {
			t.Errorf("error %v; want %q", err, want)
		}
	})
	t.Run("too many jobs in all", func(t *testing.T) {
		t.Parallel()
		w, err := a.WhatIf(t.Context(), twoJobs(), solver.Options{}, make([]solver.Scenario, 5))
		if err != nil || w.Results[3].Err != nil || w.Results[4].Err == nil {
			t.Errorf("%+v, %v; want an error of the fifth scenario", w.Results, err)
		}
	})
	t.Run("a bad snapshot", func(t *testing.T) {
		t.Parallel()
		if _, err := a.WhatIf(t.Context(), nil, solver.Options{}, nil); err == nil {
			t.Error("no error")
		}
	})
}

// mayEnd returns a busy pool whose jobs may end within the horizon of an objective of progress,
// where the prices of nodes are hardest to find, and sizes that the pool could have.
func mayEnd(jobs int) (*solver.Snapshot, []solver.Scenario) {
	s := solvertest.BusySnapshot(jobs, 4*jobs)
	for i := range s.Jobs {
		s.Jobs[i].RemainingETA /= 20
	}
	var scenarios []solver.Scenario
	for n := range 8 {
		scenarios = append(scenarios, solver.Scenario{TotalNodes: new(s.TotalNodes + (n+1)*jobs/40)})
	}
	return s, scenarios
}

// BenchmarkWhatIf decides 8 sizes of a pool of 1,000 jobs in one call, where the searches start
// from the prices of the first, and one by one.
func BenchmarkWhatIf(b *testing.B) {
	a := newAllocator(b, elastalloc.Options{})
	s, scenarios := mayEnd(1000)
	b.Run("one-call", func(b *testing.B) {
		solvertest.ReportCPU(b)
		for b.Loop() {
			if _, err := a.WhatIf(b.Context(), s, solver.Options{}, scenarios); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one-by-one", func(b *testing.B) {
		solvertest.ReportCPU(b)
		for b.Loop() {
			for n := range len(scenarios) + 1 {
				varied := *s
				if n > 0 {
					varied.TotalNodes = *scenarios[n-1].TotalNodes
				}
				if _, err := a.Allocate(b.Context(), &varied, solver.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// TestNodeTypesArePut checks scenarios that change how many nodes types have.
func TestNodeTypesArePut(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	s := twoJobs()
	s.TotalNodes, s.NodeTypes = 0, []solver.NodeType{{ID: "a100", Nodes: 2, Speed: 3}, {ID: "t4", Nodes: 4}}
	o := solver.Options{Objective: solver.ObjectiveTotalTime}
	put := func(types ...solver.NodeType) solver.Scenario { return solver.Scenario{PutNodeTypes: types} }
	w, err := a.WhatIf(t.Context(), s, o, []solver.Scenario{
		put(solver.NodeType{ID: "t4", Nodes: 32}),
		put(solver.NodeType{ID: "v100", Nodes: 1}, solver.NodeType{ID: "t4"}, solver.NodeType{ID: "t4"}),
		put(solver.NodeType{ID: "t4", Nodes: -1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	varied := *s
	varied.NodeTypes = []solver.NodeType{s.NodeTypes[0], {ID: "t4", Nodes: 32}}
	want, err := a.Allocate(t.Context(), &varied, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.Results[0].Decision, solvertest.IgnoreDurations()); diff != "" {
		t.Errorf("decision (-Allocate +got):\n%s", diff)
	}
	for n, paths := range map[int][]string{
		1: {"scenarios[1].put_node_types[0].id", "scenarios[1].put_node_types[2].id"},
		2: {"scenarios[2].put_node_types[0].nodes"},
	} {
		var bad *solver.InvalidError
		if !errors.As(w.Results[n].Err, &bad) {
			t.Fatalf("scenario %d: %v", n, w.Results[n].Err)
		}
		var got []string
		for _, v := range bad.Violations {
			got = append(got, v.Path)
		}
		if !slices.Equal(got, paths) {
			t.Errorf("scenario %d: bad fields %v; want %v", n, bad.Violations, paths)
		}
	}
}

// TestSizeLimitsArePut checks scenarios that change the size limits, and the warning if a scenario changes the
// nodes alone.
func TestSizeLimitsArePut(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	s := &solver.Snapshot{TotalNodes: 24, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 16}, {Size: 8, Nodes: 8}}}
	for _, id := range []string{"a", "b", "c"} {
		s.Jobs = append(s.Jobs, solver.Job{ID: id, RemainingETA: time.Hour, AllowedNodes: []int{8}})
	}
	o := solver.Options{Objective: solver.ObjectiveTotalTime}
	w, err := a.WhatIf(t.Context(), s, o, []solver.Scenario{
		{TotalNodes: new(64)},
		{TotalNodes: new(64), PutSizeLimits: []solver.SizeLimit{{Size: 8, Nodes: 24}, {Size: 4, Nodes: 24}, {Size: 16, Nodes: 16}}},
		{PutSizeLimits: []solver.SizeLimit{{Size: 8, Nodes: 16}}},
		{TotalNodes: new(24)},
		{PutSizeLimits: []solver.SizeLimit{{Size: 8, Nodes: 16}, {Size: 8, Nodes: 8}}},
		{PutSizeLimits: []solver.SizeLimit{{Size: 2, Nodes: 2}, {Size: 1, Nodes: -1}}},
		{PutSizeLimits: []solver.SizeLimit{{Size: 8, Nodes: 16, NodeType: "a100"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []struct {
		nodes int
		kept  bool
		bad   []string
	}{
		{nodes: 8, kept: true}, {nodes: 24}, {nodes: 16}, {nodes: 8},
		{bad: []string{"scenarios[4].put_size_limits[1].size"}},
		{bad: []string{"scenarios[5].put_size_limits[1].size", "scenarios[5].put_size_limits[1].nodes"}},
		{bad: []string{"scenarios[6].put_size_limits[0].node_type"}},
	} {
		got, nodes := w.Results[n], 0
		for _, a := range got.Decision.Allocations {
			nodes += a.Nodes
		}
		kept := slices.ContainsFunc(got.Decision.Report.Warnings, func(w solver.Warning) bool { return w.Code == solver.WarningSizeLimitsKept })
		if nodes != want.nodes || kept != want.kept || (got.Err != nil) != (want.bad != nil) {
			t.Errorf("scenario %d: %d nodes, limits kept: %t, error %v; want %+v", n, nodes, kept, got.Err, want)
		}
		if paths := solvertest.InvalidPaths(t, got.Err); want.bad != nil && !slices.Equal(paths, want.bad) {
			t.Errorf("scenario %d: bad fields %v; want %v", n, paths, want.bad)
		}
	}
}

// TestBenefit checks the benefits of scenarios by what must be true of optimal plans: with every job free to wait, no
// plan for the larger pool is worth more than the optimal plan for it, so that the benefit of more nodes is not
// negative and is the difference of the objectives of both plans for the larger pool, and that the benefit of as many
// nodes less is its opposite.
func TestBenefit(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive, Certificate: true}
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		small := solvertest.Snapshots().Draw(t, "snapshot")
		for i := range small.Jobs {
			small.Jobs[i].RecentRestarts, small.Jobs[i].Keep = nil, false
		}
		large := *small
		large.TotalNodes += rapid.IntRange(0, 20).Draw(t, "more")
		whatIf := func(s *solver.Snapshot, nodes int) (solver.WhatIf, float64) {
			w, err := a.WhatIf(context.Background(), s, o, []solver.Scenario{{TotalNodes: &nodes}})
			if err != nil || w.Results[0].Err != nil {
				t.Fatal(err, w.Results)
			}
			if w.Results[0].Benefit == nil {
				t.Skip("a job gets a size that does not fit the smaller pool")
			}
			return w, *w.Results[0].Benefit
		}
		up, gain := whatIf(small, large.TotalNodes)
		_, loss := whatIf(&large, small.TotalNodes)
		tolerance := 1e-9 * (1 + math.Abs(up.Results[0].Decision.Report.Bound))
		if up.Results[0].Decision.Report.Reason == solver.ReasonOptimal && gain < -tolerance {
			t.Errorf("%d → %d nodes has the benefit %v", small.TotalNodes, large.TotalNodes, gain)
		}
		if diff := gain + loss; diff < -tolerance || diff > tolerance {
			t.Errorf("%d → %d nodes has the benefit %v, and the opposite %v", small.TotalNodes, large.TotalNodes, gain, loss)
		}
		if same := large.TotalNodes == small.TotalNodes; same && gain != 0 {
			t.Errorf("the same pool has the benefit %v", gain)
		}
		if gain > tolerance {
			decided++
		}
	})
	if decided == 0 {
		t.Error("no scenario has a benefit")
	}
}

// TestBenefitOfOneJob checks benefits that are known from the derivation of the objective: work of the only job is
// worth 1 / s(max) job-seconds per second, so that 8 nodes in place of 4 complete it twice as fast and save half a
// second per second.
func TestBenefitOfOneJob(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	job := solver.NewJob("a", 10*time.Hour)
	job.MinNodes, job.MaxNodes, job.CurrentNodes, job.Scaling = 1, 8, 4, solver.Scaling{DoublingEfficiency: 1}
	s := &solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{job}}
	o := solver.Options{
		Objective: solver.ObjectiveTotalTime, Certificate: true,
		TotalTime: solver.TotalTimeOptions{Fairness: new(0.0), SharePrice: new(0.0), ResizePrice: new(time.Duration)},
	}
	other := o
	other.Admission = solver.AdmissionOptimized
	bigger := job
	bigger.MaxNodes = 16
	for name, test := range map[string]struct {
		scenario solver.Scenario
		want     float64 // NaN for none
	}{
		"twice the nodes":             {solver.Scenario{TotalNodes: new(8)}, 0.5},
		"no nodes":                    {solver.Scenario{TotalNodes: new(0)}, -1},
		"the job is removed":          {solver.Scenario{RemoveJobIDs: []string{"a"}}, 0},
		"another admission":           {solver.Scenario{Options: &other}, 0},
		"a size that was not allowed": {solver.Scenario{TotalNodes: new(16), PutJobs: []solver.Job{bigger}}, math.NaN()},
	} {
		w, err := a.WhatIf(t.Context(), s, o, []solver.Scenario{test.scenario})
		if err != nil || w.Results[0].Err != nil {
			t.Fatal(name, err, w.Results)
		}
		got := math.NaN()
		if benefit := w.Results[0].Benefit; benefit != nil {
			got = *benefit
		}
		if math.IsNaN(got) != math.IsNaN(test.want) || math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: the benefit is %v; want %v", name, got, test.want)
		}
	}
	w, err := a.WhatIf(t.Context(), s, solver.Options{Objective: solver.ObjectiveProgress, Certificate: true}, []solver.Scenario{{}})
	if err != nil || w.Results[0].Benefit != nil {
		t.Errorf("the objective progress has the benefit %v, %v; want none", w.Results[0].Benefit, err)
	}
}
