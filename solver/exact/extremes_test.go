package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestExtremeNumbers solves random valid snapshots with extreme numbers that the API allows, with
// every objective and admission. The search must complete, with a legal plan and finite numbers.
func TestExtremeNumbers(t *testing.T) {
	for seed := range uint64(testtier.Conformance.Examples(1000, 5000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := extremeSnapshot(r)
		o := solver.Options{
			Objective: oneOf(r, solver.ObjectiveProgress, solver.ObjectiveTotalTime),
			Admission: oneOf(r, solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive, solver.AdmissionStartFirst),
		}.WithDefaults()
		if bad := solver.Validate(s, o, len(s.Jobs), []solver.BackendName{o.Backend}); len(bad) > 0 {
			continue
		}
		p := problem.NewProblemFor(s, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
		cancel()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if objective := checked(t, p, result); result.Limit == solver.LimitTime {
			t.Fatalf("seed %d: objective %v, bound %v, limit %s of\n%+v", seed, objective, result.Bound, result.Limit, s)
		}
		auditOptimum(t, s, o, p, result)
	}
}

// extremeSnapshot returns a random snapshot of a few jobs whose numbers are tiny, huge or ordinary.
func extremeSnapshot(r *rand.Rand) *solver.Snapshot {
	s := &solver.Snapshot{TotalNodes: 1 + r.IntN(40)}
	for i := range 1 + r.IntN(6) {
		job := solver.Job{
			ID:           fmt.Sprint(i),
			RemainingETA: oneOf(r, 1, time.Second, time.Hour, math.MaxInt64),
			CurrentNodes: r.IntN(5),
			TrainingTime: time.Duration(r.IntN(3)),
			RestartTime:  oneOf(r, 0, time.Minute, math.MaxInt64),
			WaitingTime:  oneOf(r, 0, time.Minute, math.MaxInt64),
			Weight:       new(oneOf(r, 0, 5e-324, 1e-300, 1, solver.MaxWeight)),
		}
		switch r.IntN(3) {
		case 0:
			job.Scaling.DoublingEfficiency = oneOf(r, 5e-324, 1e-300, 1e-100, 1e-30, 0.8, 1)
			job.MinNodes = r.IntN(3)
		case 1:
			job.AllowedNodes = []int{1, 3}
			job.Scaling.Speeds = []float64{oneOf(r, 1e-320, 1e-300, 1, solver.MaxSpeed), oneOf(r, 1e-320, 1e-300, 1, solver.MaxSpeed)}
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s.WithDefaults()
}

// oneOf returns a random one of the values.
func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }
