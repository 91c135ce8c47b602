package exact_test

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// hostile reads numbers off the fuzzer's bytes; zeros follow when they run out.
type hostile struct{ data []byte }

func (h *hostile) next() uint64 {
	var word [8]byte
	h.data = h.data[copy(word[:], h.data):]
	return binary.LittleEndian.Uint64(word[:])
}

func (h *hostile) below(n uint64) int { return int(h.next() % n) }

// snapshot makes a valid snapshot of the extremes: tiny and huge ETAs, many equal
// ones, weights and speeds of every magnitude, one node, one job, sizes without
// end.
func (h *hostile) snapshot() *solver.Snapshot {
	s := &solver.Snapshot{
		TotalNodes: []int{0, 1, 2, 7, 70, 1000, math.MaxInt32}[h.below(7)],
		Horizon: solver.Horizon{
			Step:  []time.Duration{1, time.Millisecond, 300 * time.Second, 1000 * time.Hour, math.MaxInt64}[h.below(5)],
			Steps: 1 + h.below(solver.MaxSteps),
		},
	}
	for range h.below(12) {
		eta := []time.Duration{1, time.Millisecond, s.Horizon.Step, 1000 * time.Second, math.MaxInt64, time.Duration(h.next() >> 1)}[h.below(6)]
		job := solver.NewJob("", max(eta, 1))
		if h.below(3) == 0 {
			size := 0
			for range 1 + h.below(solver.MaxSizes) {
				size += 1 + h.below(9)
				job.AllowedNodes = append(job.AllowedNodes, size)
				job.Scaling.Speeds = append(job.Scaling.Speeds, math.Exp(float64(h.below(60))-40))
			}
			job.MinNodes, job.MaxNodes = job.AllowedNodes[0], size
		} else {
			job.MaxNodes = []int{1, 16, 1 << 30}[h.below(3)]
			job.Scaling.DoublingEfficiency = []float64{1e-30, 0.5, 0.8, 1}[h.below(4)]
		}
		job.Weight = new([]float64{0, 1, 1e-30, 1e-9, 1e9, solver.MaxWeight}[h.below(6)])
		job.CurrentNodes = []int{0, 1, 3, 16, math.MaxInt32}[h.below(5)]
		job.ResizeDelay = []time.Duration{0, 15 * time.Second, math.MaxInt64}[h.below(3)]
		if job.ResizeDelay == 0 {
			job.RestartTime = []time.Duration{0, time.Minute, math.MaxInt64}[h.below(3)]
		}
		job.TrainingTime, job.WaitingTime = time.Duration(h.below(2)), []time.Duration{0, math.MaxInt64}[h.below(2)]
		for range 1 + h.below(3)*h.below(20) {
			job.ID = string(binary.AppendUvarint([]byte{'j'}, uint64(len(s.Jobs))))
			s.Jobs = append(s.Jobs, job)
		}
	}
	return s
}

// options returns an objective, with parameters of every magnitude, and an admission.
func (h *hostile) options() solver.Options {
	factors := []float64{0, 1e-30, 1, solver.MaxFactor}
	spans := []time.Duration{0, solver.MinTotalTimeSpan, time.Hour, solver.MaxTotalTimeSpan}
	return solver.Options{
		Objective: []solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}[h.below(2)],
		TotalTime: solver.TotalTimeOptions{
			Fairness: &factors[h.below(4)], Aging: &spans[h.below(4)], ResizePrice: &spans[h.below(4)],
			Payback: &spans[1+h.below(3)], PausePriceFactor: &factors[h.below(4)], StartBonus: &spans[h.below(4)],
		},
		Admission: solver.Admissions()[h.below(4)],
	}
}

// FuzzHostileNumbers checks that every valid snapshot has a legal plan, and a finite bound
// that is not below its objective.
func FuzzHostileNumbers(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("one node, one job, and few other features, but enough bytes"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &hostile{data: data}
		s := h.snapshot()
		if bad := s.Validate(solver.DefaultMaxJobs); len(bad) > 0 {
			t.Fatalf("not a valid snapshot: %v", bad)
		}
		o := h.options().WithDefaults()
		p := problem.NewProblemFor(s, o)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		objective := checked(t, p, result)
		if bound, _, _ := exact.New().Bound(ctx, p); math.IsNaN(bound) || math.IsInf(bound, 0) || bound < objective-1e-12*math.Abs(objective) {
			t.Fatalf("bound %v, objective %v", bound, objective)
		}
		auditOptimum(t, s, o, p, result)
	})
}
