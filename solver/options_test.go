package solver_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
)

func TestRelativeGap(t *testing.T) {
	tests := []struct {
		name                   string
		objective, bound, want float64
	}{
		{name: "open", objective: 9, bound: 10, want: 0.1},
		{name: "closed", objective: 10, bound: 10},
		{name: "noise", objective: 10 + 1e-12, bound: 10},
		{name: "nothing to gain", objective: 0, bound: 0},
		{name: "a bound below tiny", objective: 0, bound: 1e-13, want: 0.1},
		{name: "an objective of 0", objective: 0, bound: 5, want: 1},
		{name: "no bound", objective: 5, bound: math.Inf(1), want: math.Inf(1)},
		{name: "a negative objective", objective: -4, bound: -3, want: 0.25},
		{name: "a positive bound on it", objective: -4, bound: 1, want: 1.25},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := solver.RelativeGap(test.objective, test.bound); got != test.want && math.Abs(got-test.want) > 1e-15 {
				t.Errorf("RelativeGap(%v, %v) = %v; want %v", test.objective, test.bound, got, test.want)
			}
		})
	}
}

func TestDefaultOptions(t *testing.T) {
	want := solver.Options{
		Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
		BadJobs: solver.BadJobsRefuse,
	}
	if diff := cmp.Diff(want, solver.DefaultOptions()); diff != "" {
		t.Errorf("DefaultOptions() (-want +got):\n%s", diff)
	}
	want.Objective, want.Admission = solver.ObjectiveProgress, solver.AdmissionFIFO
	if diff := cmp.Diff(want, solver.Options{Objective: solver.ObjectiveProgress}.WithDefaults()); diff != "" {
		t.Errorf("defaults of ObjectiveProgress (-want +got):\n%s", diff)
	}
	if spec := new(solver.Options).Spec(); spec.Name != solver.DefaultObjective {
		t.Errorf("unset options have the objective %s; want %s", spec.Name, solver.DefaultObjective)
	}
}
