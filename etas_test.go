package elastalloc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestETARanOut checks that a remaining ETA of less than a quarter of the work done is replaced by this
// quarter, with a warning: under OBJECTIVE_PROGRESS of every job, under OBJECTIVE_TOTAL_TIME of jobs past
// their end. The warning also names jobs that have done at least twice their estimated work.
func TestETARanOut(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 5, Steps: 2, Sizes: 3, Nodes: 12}).Draw(t, "snapshot")
		o := solver.Options{
			Objective: rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(t, "objective"),
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		}
		adjusted := *s
		adjusted.Jobs = slices.Clone(s.Jobs)
		var ranOut []string
		for i := range s.Jobs {
			job := &s.Jobs[i]
			job.WorkDone = time.Duration(rapid.IntRange(0, 1000).Draw(t, "work done")) * 4 * time.Minute
			job.Overrun = rapid.SampledFrom([]float64{0, 0.999, 1, 1.999, 2, 1e17}).Draw(t, "overrun")
			named := job.Overrun >= 2
			adjusted.Jobs[i].WorkDone, adjusted.Jobs[i].Overrun = 0, 0
			bounded := o.Objective == solver.ObjectiveProgress || job.Overrun >= 1
			if minETA := job.WorkDone / 4; bounded && job.Demand() < minETA.Seconds() {
				adjusted.Jobs[i].RemainingETA, adjusted.Jobs[i].ETANodes = minETA, 0
				named = named || s.TotalNodes >= slices.Min(job.LegalSizes())
			}
			if named {
				ranOut = append(ranOut, job.ID)
			}
		}
		got, err := a.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := a.Allocate(t.Context(), &adjusted, o)
		if err != nil {
			t.Fatal(err)
		}
		var warned []string
		got.Report.Warnings = slices.DeleteFunc(got.Report.Warnings, func(w solver.Warning) bool {
			if w.Code == solver.WarningETARanOut {
				warned = append(warned, w.JobID)
			}
			return w.Code == solver.WarningETARanOut
		})
		if diff := cmp.Diff(ranOut, warned); diff != "" {
			t.Fatalf("warnings (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, got, solvertest.IgnoreDurations(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("decision (-with adjusted ETAs +got):\n%s", diff)
		}
	})
}

// TestUncertainETAs checks that decisions on jobs with ETA errors are optimal by exhaustive search, for the
// exact backend and for HiGHS, and that some of them differ from decisions on exact ETAs.
func TestUncertainETAs(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	others := 0
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 5, Steps: 1, Sizes: 3, Nodes: 12}).Draw(t, "snapshot")
		o := solver.Options{
			Objective: solver.ObjectiveTotalTime,
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
			TotalTime: solver.TotalTimeOptions{ETAError: new(rapid.SampledFrom([]float64{0, 0.7, 5}).Draw(t, "default eta error"))},
		}
		exact := o
		exact.TotalTime.ETAError = nil
		certain := *s
		certain.Jobs = slices.Clone(s.Jobs)
		for i := range s.Jobs {
			s.Jobs[i].ETAError = rapid.SampledFrom([]*float64{nil, nil, new(0.0), new(1.4)}).Draw(t, "eta error")
		}
		problem := problem.NewProblemFor(s, o)
		best, found := solvertest.Exhaustive(problem)
		want, err := a.Allocate(t.Context(), &certain, exact)
		if err != nil {
			t.Fatal(err)
		}
		// The tolerance includes the rounding error of terms that cancel out in the objective.
		noise := 1e-9 * max(1, math.Abs(best.Objective))
		for i := range problem.Jobs {
			noise += 1e-14 * slices.Max(problem.Jobs[i].OptionValue)
		}
		o.Backend = rapid.SampledFrom([]solver.BackendName{solver.BackendExact, solver.BackendHiGHS}).Draw(t, "backend")
		d, err := a.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if !found || math.Abs(d.Report.Objective-best.Objective) > noise || d.Report.Bound-best.Objective > noise {
			t.Fatalf("%s: objective %v, bound %v; want %v", d.Report.Backend, d.Report.Objective, d.Report.Bound, best.Objective)
		}
		if d.Report.Objective != want.Report.Objective {
			others++
		}
	})
	if others == 0 {
		t.Error("no objective differs from the objective with exact ETAs")
	}
}

// TestManyPauses checks the warnings for many pauses and for ETAs that ran out.
func TestManyPauses(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 7}
	for i := range 8 {
		s.Jobs = append(s.Jobs, solver.Job{
			ID: fmt.Sprint(i), RemainingETA: time.Hour, MinNodes: 1, MaxNodes: 1, CurrentNodes: 1, Weight: new(float64(i + 1)),
		})
	}
	s.Jobs[5].Overrun, s.Jobs[6].Overrun, s.Jobs[7].Overrun, s.Jobs[7].WorkDone = 1.99, 2, 2.5, 5*time.Hour
	ranOut := []string{
		`job "6" has done 2 times its estimated work; pause or cap it if it hangs`,
		`job "7" has 1h0m0s left on one node after 5h0m0s of work; counted with a quarter of that, 1h15m0s; ` +
			`has done 2.5 times its estimated work; pause or cap it if it hangs`,
	}
	for nodes, want := range map[int][]string{6: ranOut, 5: append(ranOut, "3 pauses at once among 8 running jobs")} {
		s.TotalNodes = nodes
		d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, solver.Options{Admission: solver.AdmissionPreemptive})
		var got []string
		for _, w := range d.Report.Warnings {
			got = append(got, w.Message)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%d nodes: %v, warnings (-want +got):\n%s", nodes, err, diff)
		}
	}
}

// TestLongWait checks the warning about jobs that have waited for 24 h, which ADMISSION_FIFO does not give.
func TestLongWait(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
		{ID: "runs", RemainingETA: time.Hour, MinNodes: 8, CurrentNodes: 8, TrainingTime: time.Hour, WaitingTime: 48 * time.Hour},
		{ID: "waits", RemainingETA: 10 * time.Hour, MinNodes: 8, WaitingTime: 24 * time.Hour},
		{ID: "is younger", RemainingETA: 10 * time.Hour, MinNodes: 8, WaitingTime: 24*time.Hour - 1},
		{ID: "never fits", RemainingETA: 10 * time.Hour, MinNodes: 16, WaitingTime: 48 * time.Hour},
	}}
	for _, admission := range solver.Admissions() {
		d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, solver.Options{
			Objective: solver.ObjectiveTotalTime, Admission: admission,
		})
		var got []string
		for _, w := range d.Report.Warnings {
			if w.Code == solver.WarningLongWait {
				got = append(got, w.Message)
			}
		}
		want := []string{
			`job "waits" has waited 24h0m0s without nodes; ADMISSION_FIFO starts jobs in order, and a higher weight starts this job earlier`,
		}
		if admission == solver.AdmissionFIFO {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, warnings (-want +got):\n%s", admission, err, diff)
		}
	}
}

// BenchmarkUncertainETAs measures decisions on jobs without ETA errors, with the same error of 0.7, with
// three different errors, and with a different error per job.
func BenchmarkUncertainETAs(b *testing.B) {
	for _, jobs := range []int{40, 1000, 100_000} {
		for _, values := range []int{0, 1, 3, jobs} {
			b.Run(fmt.Sprintf("jobs=%d/errors=%d", jobs, values), func(b *testing.B) {
				a, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
				if err != nil {
					b.Fatal(err)
				}
				s := solvertest.BusySnapshot(jobs, jobs)
				for i := range s.Jobs[:min(values, 1)*jobs] {
					s.Jobs[i].ETAError = new(0.7 * float64(1+i%values) / float64(1+values/2))
				}
				o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
				solvertest.ReportCPU(b)
				for b.Loop() {
					if _, err := a.Allocate(b.Context(), s, o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestUncertainETAsWithoutFairness checks that decisions are optimal without fairness, if only longer
// jobs keep the rank of a job above 0, in snapshots that are too large for exact sums.
func TestUncertainETAsWithoutFairness(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	for seed := range uint64(testtier.Conformance.Examples(10, 40)) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := &solver.Snapshot{TotalNodes: 256}
		for i := range 100 {
			s.Jobs = append(s.Jobs, solver.Job{
				ID: fmt.Sprint(i), RemainingETA: time.Duration(math.Exp(2*random.NormFloat64()) * float64(time.Hour)),
			})
		}
		for _, off := range []float64{1e-4, 0.05, 5} {
			decision, err := a.Allocate(t.Context(), s, solver.Options{
				Objective: solver.ObjectiveTotalTime, TotalTime: solver.TotalTimeOptions{Fairness: new(0.0), ETAError: new(off)},
			})
			if err != nil || decision.Report.Reason != solver.ReasonOptimal {
				t.Fatalf("seed %d, error %v: %s, %v", seed, off, decision.Report.Reason, err)
			}
		}
	}
}
