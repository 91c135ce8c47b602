package exact_test

import (
	"context"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/instances"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// mostJobs is more than any instance has.
const mostJobs = 1 << 20

// TestInstances proves every random instance and compares it with the optimum that an
// independent solver certified.
func TestInstances(t *testing.T) {
	for _, instance := range instances.Load(t, mostJobs) {
		t.Run(instance.Name, func(t *testing.T) {
			p := problem.NewProblem(instance.Snapshot, solver.AdmissionFIFO)
			result, objective := solve(t, p, problem.SolveOptions{})
			if want := instance.Objective; objective < want-1e-8 || objective > want+1e-8 {
				t.Errorf("objective %.10f, certified %.10f", objective, want)
			}
			if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap || result.Limit != solver.LimitNone {
				t.Errorf("not proven: gap %g, limit %s", gap, result.Limit)
			}
		})
	}
}

// BenchmarkInstances measures the proof of every random instance.
func BenchmarkInstances(b *testing.B) {
	for _, instance := range instances.Load(b, mostJobs) {
		p := problem.NewProblem(instance.Snapshot, solver.AdmissionFIFO)
		b.Run(instance.Name, func(b *testing.B) {
			for b.Loop() {
				if _, err := exact.New().Solve(context.Background(), p, problem.SolveOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
