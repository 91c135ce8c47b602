package exact_test

import (
	"context"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// segment is what a job gains per node by growing from one size of its concave envelope to the
// next.
type segment struct {
	slope float64
	nodes int
}

// bySelection returns the optimum of the linear relaxation of a problem of one step: a
// continuous knapsack over the concave envelopes of the jobs, solved by selecting the slope at
// which the pool is full. It takes time linear in the number of sizes, as Frederickson and
// Johnson (1982) do for concave curves. Nodes are split between sizes, so there is no plan.
func bySelection(p *problem.Problem) float64 {
	free, value := p.Capacity[0], 0.0
	var segments []segment
	for i := range p.Jobs {
		job := &p.Jobs[i]
		free -= int(job.Options[0].Nodes)
		value += job.OptionValue[0]
		first := len(segments)
		for n := 1; n < len(job.Options); n++ {
			s := segment{
				slope: (job.OptionValue[n] - job.OptionValue[n-1]) / float64(job.Options[n].Nodes-job.Options[n-1].Nodes),
				nodes: int(job.Options[n].Nodes - job.Options[n-1].Nodes),
			}
			for len(segments) > first && segments[len(segments)-1].slope <= s.slope {
				last := segments[len(segments)-1]
				s.slope = (s.slope*float64(s.nodes) + last.slope*float64(last.nodes)) / float64(s.nodes+last.nodes)
				s.nodes += last.nodes
				segments = segments[:len(segments)-1]
			}
			segments = append(segments, s)
		}
	}
	for len(segments) > 0 {
		// Steeper segments than the pivot's to the front, flatter ones to the back.
		pivot, steeper, flatter := segments[len(segments)/2].slope, 0, len(segments)
		nodes, gain, equal := 0, 0.0, 0
		for i := 0; i < flatter; {
			switch s := segments[i]; {
			case s.slope > pivot:
				nodes, gain = nodes+s.nodes, gain+s.slope*float64(s.nodes)
				segments[steeper], segments[i] = segments[i], segments[steeper]
				steeper, i = steeper+1, i+1
			case s.slope < pivot:
				flatter--
				segments[flatter], segments[i] = segments[i], segments[flatter]
			default:
				equal, i = equal+s.nodes, i+1
			}
		}
		switch {
		case nodes > free || pivot <= 0:
			segments = segments[:steeper]
		case nodes+equal >= free:
			return value + gain + pivot*float64(free-nodes)
		default:
			free, value = free-nodes-equal, value+gain+pivot*float64(equal)
			segments = segments[flatter:]
		}
	}
	return value
}

// TestBySelection compares the relaxation with the smallest Lagrangian bound, to which it is
// equal by duality, and with the integer optimum, which it bounds.
func TestBySelection(t *testing.T) {
	for seed := range uint64(20) {
		p := totalTimeProblem(60, []int{70, 200, 2000}[seed%3], seed, seed%2 == 0)
		bound := func(price float64) float64 {
			sum := price * float64(p.Capacity[0])
			for i := range p.Jobs {
				best := math.Inf(-1)
				for n, k := range p.Jobs[i].Options {
					best = max(best, p.Jobs[i].OptionValue[n]-price*float64(k.Nodes))
				}
				sum += best
			}
			return sum
		}
		low, high := 0.0, 1e6 // The bound is convex in the price.
		for range 400 {
			third := (high - low) / 3
			if bound(low+third) < bound(high-third) {
				high -= third
			} else {
				low += third
			}
		}
		relaxed, want := bySelection(p), min(bound(0), bound(low))
		if math.Abs(relaxed-want) > 1e-6*math.Abs(want) {
			t.Errorf("seed %d: %v; the smallest Lagrangian bound is %v", seed, relaxed, want)
		}
		if _, objective := solve(t, p, problem.SolveOptions{}); objective > relaxed*(1+1e-12) {
			t.Errorf("seed %d: the integer optimum %v exceeds %v", seed, objective, relaxed)
		}
	}
}

// BenchmarkRelaxation compares what the relaxation costs with what the integer optimum and
// its proof cost, here and in HiGHS. gap is how far the relaxation is above the optimum.
func BenchmarkRelaxation(b *testing.B) {
	for _, d := range []struct{ jobs, nodes int }{{40, 70}, {1000, 4000}, {100_000, 400_000}} {
		for _, mixed := range []bool{false, true} {
			var problems []*problem.Problem
			for seed := range max(1, min(20, 5000/d.jobs)) {
				problems = append(problems, totalTimeProblem(d.jobs, d.nodes, uint64(seed), mixed))
			}
			name := fmt.Sprintf("jobs=%d/nodes=%d/mixed=%t", d.jobs, d.nodes, mixed)
			run := func(name string, who int, do func(p *problem.Problem) (gap float64)) {
				b.Run(name, func(b *testing.B) {
					before, worst := cpuTimeOf(b, who), 0.0
					for n := 0; b.Loop(); n++ {
						worst = max(worst, do(problems[n%len(problems)]))
					}
					b.ReportMetric(float64(cpuTimeOf(b, who)-before)/float64(b.N), "cpu-ns/op")
					b.ReportMetric(worst, "gap")
				})
			}
			optimum := map[*problem.Problem]float64{}
			run(name+"/exact", syscall.RUSAGE_SELF, func(p *problem.Problem) float64 {
				result, err := exact.New().Solve(context.Background(), p, problem.SolveOptions{})
				if err != nil {
					b.Fatal(err)
				}
				optimum[p] = p.Objective(result.Plan)
				return solver.RelativeGap(optimum[p], result.Bound)
			})
			run(name+"/relaxation", syscall.RUSAGE_SELF, func(p *problem.Problem) float64 {
				relaxed := bySelection(p)
				if objective, ok := optimum[p]; ok {
					return solver.RelativeGap(objective, relaxed)
				}
				return 0
			})
			if d.jobs <= 1000 {
				highs := external.HiGHS(solvertest.Program(b, solver.BackendHiGHS))
				run(name+"/highs", syscall.RUSAGE_CHILDREN, func(p *problem.Problem) float64 {
					result, err := highs.Solve(context.Background(), p, problem.SolveOptions{Formulation: solver.FormulationOneHot})
					if err != nil {
						b.Fatal(err)
					}
					return solver.RelativeGap(p.Objective(result.Plan), optimum[p])
				})
			}
		}
	}
}
