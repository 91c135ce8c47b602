package solvertest

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestSnapshotsAreValidAndWithinLimits(t *testing.T) {
	limits := SmallLimits()
	rapid.Check(t, func(t *rapid.T) {
		s := Snapshots().Draw(t, "snapshot")
		if bad := s.Validate(limits.Jobs); len(bad) > 0 {
			t.Fatalf("not valid: %v", bad)
		}
		most := slices.ContainsFunc(s.Jobs, func(job solver.Job) bool { return len(job.LegalSizes()) == solver.MaxSizes })
		if s.Horizon.Steps > limits.Steps || s.TotalNodes > limits.Nodes && !most {
			t.Fatalf("exceeds %+v: %+v", limits, s)
		}
		for _, job := range s.Jobs {
			if n := len(job.LegalSizes()); n > limits.Sizes && n != solver.MaxSizes {
				t.Fatalf("job %s has %d sizes", job.ID, n)
			}
			if job.RemainingETA < time.Millisecond || job.RemainingETA > 10*365*24*time.Hour {
				t.Fatalf("job %s has ETA %v", job.ID, job.RemainingETA)
			}
		}
	})
}

// TestSnapshotsAreValidBeyondSmallLimits checks random snapshots with as many powers of two as a job may have, and
// pools in which the nodes of an ETA may be so slow that little work remains.
func TestSnapshotsAreValidBeyondSmallLimits(t *testing.T) {
	limits := Limits{Jobs: 4, Steps: 2, Sizes: solver.MaxSizes, Nodes: 1000}
	slow := rapid.Custom(func(t *rapid.T) *solver.Snapshot {
		job := solver.NewJob("slow", time.Hour)
		job.ETANodes, job.Scaling.DoublingEfficiency = limits.Nodes, 0.05
		s := &solver.Snapshot{Jobs: []solver.Job{job}}
		DrawNodeTypes(t, s)
		return s
	})
	untyped, typed := SnapshotsWithin(limits), TypedSnapshots(limits)
	for seed := range 3000 {
		for _, s := range []*solver.Snapshot{untyped.Example(seed), typed.Example(seed), slow.Example(seed)} {
			if bad := s.WithDefaults().Validate(limits.Jobs); len(bad) > 0 {
				t.Fatalf("seed %d: %v", seed, bad)
			}
		}
	}
}

func TestSnapshotsHaveEveryFeature(t *testing.T) {
	seen := map[string]int{}
	note := func(feature string, has bool) {
		if has {
			seen[feature]++
		} else {
			seen[feature] += 0
		}
	}
	for seed := range 2000 {
		s := Snapshots().Example(seed)
		held, minimums := 0, 0
		for i, job := range s.Jobs {
			sizes := job.LegalSizes()
			legal := false
			for _, k := range sizes {
				legal = legal || k == job.CurrentNodes
			}
			held += job.CurrentNodes
			minimums += sizes[0]
			note("running", job.CurrentNodes > 0)
			note("illegal current size", job.CurrentNodes > 0 && !legal)
			note("weight 0", job.WeightOrDefault() == 0)
			note("weight above 1", job.WeightOrDefault() > 1)
			note("weights 18 decades apart", i > 0 && job.WeightOrDefault() == 1e9 && s.Jobs[i-1].WeightOrDefault() == 1e-9)
			note("most sizes", len(sizes) == solver.MaxSizes)
			note("speed table", job.Scaling.Speeds != nil)
			note("non-monotone table", len(job.Scaling.Speeds) > 1 && job.Scaling.Speeds[0] > job.Scaling.Speeds[1])
			note("speeds of sizes out of range", job.Scaling.Speeds != nil && len(job.Scaling.Speeds) != len(sizes))
			note("explicit sizes", job.AllowedNodes != nil)
			note("delay above the step", job.ResizeDelay > s.Horizon.Step)
			note("shortest ETA", job.RemainingETA == time.Millisecond)
			note("longest ETA", job.RemainingETA == 10*365*24*time.Hour)
			note("equal ETAs", i > 0 && job.RemainingETA == s.Jobs[i-1].RemainingETA)
			note("unfinishable", problem.NewProblem(s, solver.AdmissionPreemptive).Jobs[i].Demand > 1e6)
		}
		note("no jobs", len(s.Jobs) == 0)
		note("no nodes", s.TotalNodes == 0)
		note("shrunken pool", held > s.TotalNodes)
		note("ample pool", len(s.Jobs) > 1 && s.TotalNodes > 2*minimums)
		note("several steps", s.Horizon.Steps > 1)
	}
	for feature, times := range seen {
		if times == 0 {
			t.Errorf("no snapshot of 2000 has: %s", feature)
		}
	}
}

// TestGeneratorsSetEveryField checks that the conformance suite includes every field of a snapshot that can change which
// plans are legal.
func TestGeneratorsSetEveryField(t *testing.T) {
	set := map[string]bool{
		"Job.ETAError": true, "Job.WorkDone": true, // They change only the values of plans.
		"Job.Overrun": true, "Job.Bad": true, // They change no model.
		"Job.Keep": true, // Such a job is in no model.
	}
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			visit(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Struct:
			for field, value := range v.Fields() {
				if !value.IsZero() {
					set[v.Type().Name()+"."+field.Name] = true
					visit(value)
				}
			}
		}
	}
	limits := SmallLimits()
	for seed := range 300 {
		for _, snapshots := range []*rapid.Generator[*solver.Snapshot]{
			SnapshotsWithin(limits), TypedSnapshots(limits), GroupedSnapshots(limits), LimitedSnapshots(limits), SharedSnapshots(limits),
		} {
			visit(reflect.ValueOf(snapshots.Example(seed)))
		}
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[solver.Snapshot](), reflect.TypeFor[solver.Job](), reflect.TypeFor[solver.Group](), reflect.TypeFor[solver.NodeType](),
		reflect.TypeFor[solver.TypeSpeed](), reflect.TypeFor[solver.SizeLimit](), reflect.TypeFor[solver.GroupTypeLimit](),
	} {
		for field := range of.Fields() {
			if name := of.Name() + "." + field.Name; !set[name] {
				t.Errorf("no generator of this package sets %s", name)
			}
		}
	}
}

func TestExhaustiveFindsNoPlanWhereThereIsNone(t *testing.T) {
	p := &problem.Problem{Capacity: []int{1}, Steps: 1, Jobs: []problem.AdmittedJob{
		{Demand: 1, Gain: []float64{1, 1}, Options: solver.Nodes(2), FirstStepWork: []float64{1}, StepWork: []float64{1}},
	}}
	if optimum, ok := Exhaustive(p); ok {
		t.Errorf("Exhaustive() = %+v; want no plan", optimum)
	}
}

func TestExhaustive(t *testing.T) {
	flat := func(current int32) problem.AdmittedJob { // Any size does the same.
		return problem.AdmittedJob{Demand: 10, Gain: []float64{1, 1}, Current: solver.Option{Nodes: current}, Options: solver.Nodes(1, 2),
			FirstStepWork: []float64{5, 5}, StepWork: []float64{5, 5}}
	}
	linear := func(demand float64) problem.AdmittedJob {
		return problem.AdmittedJob{Demand: demand, Gain: []float64{1, 1}, Current: solver.Option{Nodes: 1}, Options: solver.Nodes(1, 2),
			FirstStepWork: []float64{1, 2}, StepWork: []float64{1, 2}}
	}
	tests := []struct {
		name    string
		problem problem.Problem
		want    Optimum
		any     bool // the plan itself is not unique
	}{
		{
			name:    "no jobs",
			problem: problem.Problem{Capacity: []int{3, 3}, Steps: 2},
			want:    Optimum{Plan: problem.Plan{}},
		},
		{
			name:    "ties go to the fewest changed jobs",
			problem: problem.Problem{Capacity: []int{4}, Steps: 1, Jobs: []problem.AdmittedJob{flat(2), flat(2)}},
			want:    Optimum{Plan: problem.Plan{solver.Nodes(2), solver.Nodes(2)}, Objective: 1, Changed: 0, Nodes: 4},
		},
		{
			name:    "then to the fewest nodes",
			problem: problem.Problem{Capacity: []int{4}, Steps: 1, Jobs: []problem.AdmittedJob{flat(0), flat(7)}},
			want:    Optimum{Plan: problem.Plan{solver.Nodes(1), solver.Nodes(1)}, Objective: 1, Changed: 2, Nodes: 2},
		},
		{
			// Job 1 first: 2/2 + 2/2 and 1/4 + 3/4, against 1/2 + 2/2 and 2/4 + 4/4.
			name: "the short job goes first", any: true,
			problem: problem.Problem{Capacity: []int{3, 3}, Steps: 2, Jobs: []problem.AdmittedJob{linear(2), linear(4)}},
			want:    Optimum{Objective: 3, Changed: 1, Nodes: 3},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := Exhaustive(&test.problem)
			if !ok {
				t.Fatal("Exhaustive() found no plan")
			}
			if err := test.problem.Check(got.Plan); err != nil {
				t.Error(err)
			}
			if test.any {
				got.Plan = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Exhaustive() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExhaustiveAgainstCounting counts through all plans of tiny problems without
// pruning of any kind.
func TestExhaustiveAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := SnapshotsWithin(Limits{Jobs: 3, Steps: 2, Sizes: 2, Nodes: 10}).Draw(t, "snapshot")
		admission := rapid.SampledFrom([]solver.Admission{
			solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive,
		}).Draw(t, "admission")
		p := problem.NewProblem(s, admission)
		want := Optimum{Objective: math.Inf(-1)}
		forEachPlan(p, func(plan problem.Plan) { want.Objective = max(want.Objective, p.Objective(plan)) })
		tie := tieTolerance * math.Abs(want.Objective)
		for i := range p.Jobs { // A sum is not more exact than what is summed up.
			largest := 0.0
			for _, choice := range enumerate(&p.Jobs[i], p.Steps) {
				largest = max(largest, math.Abs(choice.value))
			}
			tie += roundingError * largest
		}
		want.Changed = math.MaxInt
		forEachPlan(p, func(plan problem.Plan) {
			if p.Objective(plan) < want.Objective-tie {
				return
			}
			changed, nodes := 0, 0
			for i := range plan {
				nodes += int(plan[i][0].Nodes)
				if plan[i][0] != p.Jobs[i].Current {
					changed++
				}
			}
			if changed < want.Changed || changed == want.Changed && nodes < want.Nodes {
				want.Changed, want.Nodes = changed, nodes
			}
		})
		got, ok := Exhaustive(p)
		if !ok {
			t.Fatal("Exhaustive() found no plan of an admitted problem")
		}
		if err := p.Check(got.Plan); err != nil {
			t.Fatal(err)
		}
		got.Plan = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Exhaustive() (-want +got):\n%s", diff)
		}
	})
}

// forEachPlan calls visit for every legal plan, counting through the sizes like an
// odometer.
func forEachPlan(p *problem.Problem, visit func(problem.Plan)) {
	digits := make([]int, len(p.Jobs)*p.Steps)
	for {
		plan := problem.NewPlan(len(p.Jobs), p.Steps)
		for n, digit := range digits {
			i := n / p.Steps
			plan[i][n%p.Steps] = p.Jobs[i].Options[digit]
		}
		if p.Check(plan) == nil {
			visit(plan)
		}
		n := 0
		for n < len(digits) && digits[n] == len(p.Jobs[n/p.Steps].Options)-1 {
			digits[n] = 0
			n++
		}
		if n == len(digits) {
			return
		}
		digits[n]++
	}
}

// TestByWork compares two oracles.
func TestByWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := GridProblems().Filter(func(p *problem.Problem) bool {
			plans := 1.0
			for i := range p.Jobs {
				plans *= math.Pow(float64(len(p.Jobs[i].Options)), float64(p.Steps))
			}
			return plans < 1e4
		}).Draw(t, "problem")
		got, plan := SolveGrid(p)
		want, ok := Exhaustive(p)
		if !ok || math.Abs(got-want.Objective) > 1e-12*math.Abs(want.Objective) {
			t.Fatalf("optimum %.17g by work, %.17g by exhaustive search", got, want.Objective)
		}
		if err := p.Check(plan); err != nil {
			t.Fatal(err)
		}
		if objective := p.Objective(plan); math.Abs(got-objective) > 1e-12*math.Abs(got) {
			t.Fatalf("optimum %.17g, of a plan of %.17g", got, objective)
		}
	})
}
