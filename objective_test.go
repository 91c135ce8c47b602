package elastalloc_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// spread returns a custom objective with decreasing benefits of the nodes of a job.
func spread() *solver.ObjectiveSpec {
	return &solver.ObjectiveSpec{
		Name: "spread", Unit: solver.Unit{Name: "roots of nodes"},
		Step: func(*solver.Options) time.Duration { return time.Minute },
		Fill: func(p *solver.Problem, s *solver.Snapshot, _ *solver.Options) {
			for n := range p.Jobs {
				job := &p.Jobs[n]
				job.Gain = []float64{0}
				for _, k := range job.Options {
					job.OptionValue = append(job.OptionValue, s.Jobs[job.Index].WeightOrDefault()*math.Sqrt(float64(k.Nodes)))
				}
			}
		},
	}
}

// late returns a custom objective over several steps: the work that is done in the last step.
func late() *solver.ObjectiveSpec {
	return &solver.ObjectiveSpec{
		Name: "late", Unit: solver.Unit{Name: "jobs done in the end"},
		Fill: func(p *solver.Problem, _ *solver.Snapshot, _ *solver.Options) {
			for n := range p.Jobs {
				p.Jobs[n].Gain = make([]float64, p.Steps)
				p.Jobs[n].Gain[p.Steps-1] = 1
			}
		},
	}
}

// TestCustomObjective checks that decisions with custom objectives are optimal by exhaustive search, that
// they respect group limits, and that scenarios use the objective too.
func TestCustomObjective(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(t *rapid.T) {
		limits := solvertest.Limits{Jobs: 4, Steps: 2, Sizes: 3, Nodes: 12}
		o := solver.Options{
			CustomObjective: rapid.SampledFrom([]*solver.ObjectiveSpec{spread(), late()}).Draw(t, "objective"),
			Admission:       rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
			Certificate:     true, // as the audit requires
		}
		s := solvertest.SnapshotsWithin(limits).Draw(t, "snapshot")
		if o.CustomObjective.Name == "spread" && rapid.Bool().Draw(t, "groups") {
			s = solvertest.GroupedSnapshots(limits).Draw(t, "grouped snapshot")
		}
		d, err := a.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		best, found := solvertest.Exhaustive(solver.NewProblemFor(s.WithDefaults(), o.WithDefaults()))
		noise := 1e-9 * max(1, math.Abs(best.Objective))
		if !found || math.Abs(d.Report.Objective-best.Objective) > noise || d.Report.Bound-best.Objective > noise {
			t.Fatalf("%s objective %v, bound %v; want %v", d.Report.Reason, d.Report.Objective, d.Report.Bound, best.Objective)
		}
		for g, nodes := range nodesByGroup(s, d) {
			if limit := s.Groups[g].Limit; limit != nil && nodes > *limit {
				t.Fatalf("group %d has %d nodes; its limit is %d", g, nodes, *limit)
			}
		}
		varied, err := a.WhatIf(t.Context(), s, o, []solver.Scenario{{}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, varied.Results[0].Decision, solvertest.IgnoreDurations()); diff != "" {
			t.Fatalf("what-if (-Allocate +got):\n%s", diff)
		}
	})
}

// TestCustomObjectiveTexts checks the validation of options for custom objectives, and that explanations
// use their units.
func TestCustomObjectiveTexts(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	for _, objective := range []*solver.ObjectiveSpec{spread(), late()} {
		s := solvertest.BusySnapshot(6, 8)
		for i := range s.Jobs {
			s.Jobs[i].RestartTime = 0
		}
		got, err := a.Explain(t.Context(), s, solver.Options{CustomObjective: objective}, nil)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, job := range got.Jobs {
			named += strings.Count(job.Text, " "+objective.Unit.Name)
			if strings.Contains(job.Text, "%") || strings.Contains(job.Text, "an hour") {
				t.Errorf("%s: %q has the unit of another objective", objective.Name, job.Text)
			}
		}
		if named == 0 {
			t.Errorf("%s: no sentence has the unit: %+v", objective.Name, got.Jobs)
		}
		if f, err := a.Forecast(t.Context(), s, solver.Options{CustomObjective: objective}, solver.ForecastOptions{}); err != nil || !f.Complete {
			t.Errorf("%s: forecast %+v, %v", objective.Name, f, err)
		}

		s.Groups = []solver.Group{{ID: "team", Limit: new(2)}}
		for i := range s.Jobs {
			s.Jobs[i].GroupID = "team"
		}
		o := solver.Options{CustomObjective: objective, Admission: solver.AdmissionPreemptive, Backend: solver.BackendCBC, Formulation: solver.FormulationPaper}
		o.TotalTime.Fairness = new(2.0)
		_, err = a.Allocate(t.Context(), s, o)
		want := `options.formulation: is FORMULATION_PAPER, for which options.objective must be OBJECTIVE_PROGRESS; it is OBJECTIVE_SPREAD`
		if objective.Step == nil {
			want = "snapshot.groups: is set, for which options.objective must be OBJECTIVE_TOTAL_TIME"
		}
		if err == nil || !strings.HasPrefix(err.Error(), "invalid request: "+want) { // Other objectives may follow.
			t.Errorf("%s: error %v; want %s", objective.Name, err, want)
		}
		if s.Groups, o.Formulation, o.Backend = nil, "", ""; objective.Step != nil {
			s.Groups = []solver.Group{{ID: "team", Limit: new(2)}}
		}
		d, err := a.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if w := d.Report.Warnings; len(w) == 0 || !strings.Contains(w[len(w)-1].Message, "options.objective is OBJECTIVE_"+strings.ToUpper(string(objective.Name))) {
			t.Errorf("%s: warnings %+v; want one about options without effect", objective.Name, w)
		}
		if len(d.Report.Groups) > 0 && d.Report.Groups[0].Nodes != 2 {
			t.Errorf("%s: the group has %d nodes; want 2", objective.Name, d.Report.Groups[0].Nodes)
		}
	}
}
