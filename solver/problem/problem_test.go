package problem_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// approx compares floating-point numbers up to their noise.
func approx() cmp.Option { return cmpopts.EquateApprox(1e-12, 1e-12) }

func TestNewProblem(t *testing.T) {
	s := solvertest.NewJobs(2)
	s.TotalNodes = 9
	s.Horizon = solver.Horizon{Step: 100 * time.Second, Steps: 3}
	s.Jobs[0].MinNodes, s.Jobs[0].MaxNodes = 2, 4
	s.Jobs[0].RemainingETA = 1500 * time.Millisecond
	s.Jobs[0].Weight = new(3.0)
	s.Jobs[1].CurrentNodes = 7
	s.Jobs[1].TrainingTime = time.Minute
	s.Jobs[1].AllowedNodes = []int{1, 3, 20}
	s.Jobs[1].Scaling.Speeds = []float64{1, 2.5}
	want := &problem.Problem{
		Capacity: []int{9, 9, 9},
		Steps:    3,
		Demands:  []float64{1.5, 3600},
		Jobs: []problem.AdmittedJob{
			{
				Index: 0, Member: problem.Member{Group: -1}, Demand: 1.5, Gain: []float64{3, 3, 3}, Options: solver.Nodes(0, 2, 4),
				FirstStepWork: []float64{0, 160, 256}, StepWork: []float64{0, 160, 256},
			},
			{
				Index: 1, Member: problem.Member{Group: -1}, Demand: 3600, Gain: []float64{1, 1, 1},
				Current: solver.Option{Nodes: 7}, TrainingTime: time.Minute, Options: solver.Nodes(1, 3),
				FirstStepWork: []float64{100, 250}, StepWork: []float64{100, 250},
			},
		},
	}
	if diff := cmp.Diff(want, problem.NewProblem(s, solver.AdmissionOptimized), approx()); diff != "" {
		t.Errorf("NewProblem() (-want +got):\n%s", diff)
	}
}

// TestResizeDelay has steps of 100 s and the sizes 1, 2 and 4 at speeds 1, 1.6
// and 2.56, so that without delay they serve 100, 160 and 256.
func TestResizeDelay(t *testing.T) {
	tests := []struct {
		name    string
		current int
		delay   time.Duration
		want    []float64 // of the first step
	}{
		{name: "no delay", current: 1, want: []float64{100, 160, 256}},
		{name: "a queued job trains only after it", current: 0, delay: 15 * time.Second, want: []float64{85, 136, 217.6}},
		{
			name: "a growing job trains on its current nodes meanwhile", current: 2, delay: 15 * time.Second,
			want: []float64{100, 160, 15*1.6 + 85*2.56},
		},
		{name: "scaling down is free", current: 4, delay: 15 * time.Second, want: []float64{100, 160, 256}},
		{
			name: "current nodes of an illegal size", current: 3, delay: 50 * time.Second,
			want: []float64{100, 160, 50*math.Pow(3, 1+math.Log2(0.8)) + 50*2.56},
		},
		{name: "as long as the step", current: 1, delay: 100 * time.Second, want: []float64{100, 100, 100}},
		{name: "longer than the step", current: 1, delay: time.Hour, want: []float64{100, 100, 100}},
		{name: "a queued job that only starts after the step", current: 0, delay: time.Hour, want: []float64{0, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := solvertest.NewJobs(1)
			s.Horizon.Step = 100 * time.Second
			s.Jobs[0].MaxNodes = 4
			s.Jobs[0].CurrentNodes = test.current
			s.Jobs[0].ResizeDelay = test.delay
			job := problem.NewProblem(s, solver.AdmissionFIFO).Jobs[0]
			if diff := cmp.Diff(test.want, job.Work(0), approx()); diff != "" {
				t.Errorf("work in the first step (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]float64{100, 160, 256}, job.Work(1), approx()); diff != "" {
				t.Errorf("work in a later step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestResizeDelayBelowTheTable has a job with fewer current nodes than the smallest size of its speed table, so
// that it does not train.
func TestResizeDelayBelowTheTable(t *testing.T) {
	s := solvertest.NewJobs(1)
	s.Horizon.Step = 100 * time.Second
	job := &s.Jobs[0]
	job.CurrentNodes, job.ResizeDelay = 1, 20*time.Second
	job.MinNodes, job.MaxNodes, job.Scaling.Speeds = 2, 4, []float64{2, 3}
	got := problem.NewProblem(s, solver.AdmissionFIFO).Jobs[0]
	if diff := cmp.Diff([]float64{160, 240}, got.FirstStepWork, approx()); diff != "" {
		t.Errorf("work in the first step (-want +got):\n%s", diff)
	}
}

func TestSmallestTrainingSize(t *testing.T) {
	for _, sizes := range [][]solver.Option{solver.Nodes(0, 2, 4), solver.Nodes(2, 4)} {
		if got := (&problem.AdmittedJob{Options: sizes}).SmallestSize(); got != 2 {
			t.Errorf("SmallestSize() = %d of %v; want 2", got, sizes)
		}
	}
}

func TestWithWaiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		p := problem.NewProblem(s, solver.AdmissionFIFO)
		before := problem.NewProblem(s, solver.AdmissionFIFO)
		relaxed := p.WithWaiting()
		if diff := cmp.Diff(before, p); diff != "" {
			t.Fatalf("the problem changed (-before +after):\n%s", diff)
		}
		if len(relaxed.Jobs) != len(p.Jobs) || !slices.Equal(relaxed.Capacity, p.Capacity) || relaxed.Steps != p.Steps {
			t.Fatalf("WithWaiting() = %+v of %+v", relaxed, p)
		}
		optimized := problem.NewProblem(s, solver.AdmissionOptimized).Jobs
		for n, want := range p.Jobs {
			if want.Queued() { // Exactly what optimized admission makes of the job.
				want = optimized[slices.IndexFunc(optimized, func(job problem.AdmittedJob) bool { return job.Index == want.Index })]
			}
			if diff := cmp.Diff(want, relaxed.Jobs[n]); diff != "" {
				t.Fatalf("job %d (-want +got):\n%s", n, diff)
			}
		}
		if diff := cmp.Diff(relaxed, relaxed.WithWaiting()); diff != "" {
			t.Fatalf("relaxing twice (-once +twice):\n%s", diff)
		}
		plan := problem.NewPlan(len(p.Jobs), p.Steps)
		for n := range plan {
			for step := range plan[n] {
				plan[n][step] = rapid.SampledFrom(append(solver.Nodes(0, 0, 0), p.Jobs[n].Options...)).Draw(t, "nodes")
			}
		}
		if diff := cmp.Diff(fmt.Sprint(relaxed.Check(plan)), fmt.Sprint(p.CheckWaiting(plan))); diff != "" {
			t.Fatalf("CheckWaiting of %v (-want +got):\n%s", plan, diff)
		}
		optimum, ok := solvertest.Exhaustive(p)
		more, okMore := solvertest.Exhaustive(relaxed)
		if !ok || !okMore || more.Objective < optimum.Objective*(1-1e-12) {
			t.Fatalf("the relaxed optimum %v is below %v", more.Objective, optimum.Objective)
		}
	})
}

func TestWithWaitingAddsNothing(t *testing.T) {
	p := &problem.Problem{Capacity: []int{2}, Steps: 1, Jobs: []problem.AdmittedJob{{
		Demand: 1, Gain: []float64{0}, Options: solver.Nodes(1, 2), OptionValue: []float64{-3, -2},
		FirstStepWork: []float64{1, 2}, StepWork: []float64{1, 2},
	}}}
	got := p.WithWaiting().Jobs[0].OptionValue
	if diff := cmp.Diff([]float64{0, -3, -2}, got); diff != "" {
		t.Errorf("values of the sizes (-want +got):\n%s", diff)
	}
}

// TestDemandIsTheObjectives checks that a problem has the demands that its objective counts, of
// jobs that are not admitted, too.
func TestDemandIsTheObjectives(t *testing.T) {
	done := solver.NewJob("done", time.Hour)
	done.WorkDone = 8 * time.Hour
	s := (&solver.Snapshot{TotalNodes: 1, Jobs: []solver.Job{solver.NewJob("new", time.Hour), done}}).WithDefaults()
	for name, test := range map[string]struct {
		options solver.Options
		want    []float64
	}{
		"progress":       {solver.Options{Objective: solver.ObjectiveProgress}, []float64{3600, 7200}},
		"total-time":     {solver.Options{Objective: solver.ObjectiveTotalTime}, []float64{3600, 3600}},
		"all admissions": {solver.Options{Objective: solver.ObjectiveProgress, Admission: solver.AdmissionPreemptive}, []float64{3600, 7200}},
	} {
		p := problem.NewProblemFor(s, test.options.WithDefaults())
		if !slices.Equal(p.Demands, test.want) {
			t.Errorf("%s: demands %v; want %v", name, p.Demands, test.want)
		}
		for _, job := range p.Jobs {
			if job.Demand != test.want[job.Index] {
				t.Errorf("%s: job %d has the demand %v; want %v", name, job.Index, job.Demand, test.want[job.Index])
			}
		}
	}
}
