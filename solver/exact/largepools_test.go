package exact_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// requests are distributions of the number of GPUs that a job requests, as equally likely values.
var requests = []struct {
	name string
	gpus []int
}{
	{"small", []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 16}},
	{"mixed", []int{1, 1, 1, 1, 1, 1, 16}},
	{"wide", []int{1, 2, 4, 8, 16, 32, 64}},
}

// largePool returns a pool that counts GPUs, in which all jobs are new. A job that requests g GPUs
// can have g/4 to 4g. Each doubling multiplies its speed by 1.9 within nodes with 8 GPUs and by 1.7
// across nodes. ETAs are heavy-tailed.
func largePool(jobs, gpus int, requests []int, seed uint64) *solver.Snapshot {
	r := rand.New(rand.NewPCG(seed, uint64(gpus)))
	s := &solver.Snapshot{TotalNodes: gpus, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		job := solver.NewJob(fmt.Sprint(i), time.Duration((1+math.Exp(8+2*r.NormFloat64()))*float64(time.Second)))
		job.ETANodes = requests[r.IntN(len(requests))]
		job.MinNodes, job.MaxNodes = max(1, job.ETANodes/4), 4*job.ETANodes
		for k := job.MinNodes; k <= job.MaxNodes; k *= 2 {
			doublings, across := math.Log2(float64(k)), math.Log2(max(1, float64(k)/8))
			job.AllowedNodes = append(job.AllowedNodes, k)
			job.Scaling.Speeds = append(job.Scaling.Speeds, math.Pow(1.9, doublings-across)*math.Pow(1.7, across))
		}
		job.RestartTime = 2 * time.Minute
		s.Jobs = append(s.Jobs, job)
	}
	return s
}

// poolDecision is a kind of decision of a large pool.
type poolDecision struct {
	name    string
	options solver.Options
	// limits are size limits by size, as fractions of the GPUs of the pool.
	limits map[int]float64
}

// of returns the snapshot with the size limits of the decision.
func (d *poolDecision) of(s *solver.Snapshot) *solver.Snapshot {
	for size, share := range d.limits {
		s.SizeLimits = append(s.SizeLimits, solver.SizeLimit{Size: size, Nodes: int(share * float64(s.TotalNodes))})
	}
	return s
}

// poolDecisions are the decisions of large pools. In two of them, nodes of 8 GPUs lack some, or whole
// nodes and blocks are few.
var poolDecisions = []poolDecision{
	{"progress", solver.Options{Objective: solver.ObjectiveProgress, Admission: solver.AdmissionFIFO}, nil},
	{"total-time", totalTimeOptions(), nil},
	{"damaged-nodes", totalTimeOptions(), map[int]float64{2: 0.99, 4: 0.97, 8: 0.9, 32: 0.8}},
	{"few-blocks", totalTimeOptions(), map[int]float64{8: 0.5, 16: 0.4, 32: 0.25}},
}

// largePools are the sizes of pools that count GPUs.
var largePools = []struct{ gpus, jobs int }{{4000, 340}, {8000, 680}, {12_000, 1000}, {120_000, 10_000}}

// TestLargePools proves decisions of pools that count GPUs, and compares them with the plain dynamic
// program. A repeated search has the same plan. Tables of 100,000 values are too small for the first
// pool of "mixed".
func TestLargePools(t *testing.T) {
	for _, of := range requests {
		for seed := uint64(2); seed < uint64(testtier.Conformance.Examples(3, 22)); seed++ {
			s := largePool(2000, 24_000, of.gpus, seed)
			p := problem.NewProblemFor(s, totalTimeOptions())
			result, objective := solve(t, p, problem.SolveOptions{})
			if result.Limit != solver.LimitNone || solver.RelativeGap(objective, result.Bound) > solver.OptimalGap {
				t.Fatalf("%s, seed %d: %v of %v, limit %s", of.name, seed, objective, result.Bound, result.Limit)
			}
			if want := bySteppingThrough(p); math.Abs(objective-want) > 1e-9*want {
				t.Fatalf("%s, seed %d: %.12g; the dynamic program has %.12g", of.name, seed, objective, want)
			}
			if again, _ := solve(t, p, problem.SolveOptions{}); !reflect.DeepEqual(again.Plan, result.Plan) {
				t.Errorf("%s, seed %d: a repeated search has another plan", of.name, seed)
			}
		}
	}
}

// TestDecisionsOfLargePools proves decisions of pools that count GPUs. The search of the first pool
// ends with LimitWork if capacities are not rounded, of the second one if core searches get half of the
// memory, and of the third one if losses are divided by rows without a price.
func TestDecisionsOfLargePools(t *testing.T) {
	for _, seed := range []uint64{1, 3, 12} {
		for _, decision := range poolDecisions {
			for _, of := range requests {
				p := problem.NewProblemFor(decision.of(largePool(1000, 12_000, of.gpus, seed)), decision.options)
				result, objective := solve(t, p, problem.SolveOptions{})
				if result.Limit != solver.LimitNone || solver.RelativeGap(objective, result.Bound) > solver.OptimalGap {
					t.Errorf("%s, %s, seed %d: %v of %v, limit %s", decision.name, of.name, seed, objective, result.Bound, result.Limit)
				}
			}
		}
	}
}

// BenchmarkLargePools decides 40 pools that count GPUs per size, within 900 ms of CPU time each. It
// reports the share of proofs, the CPU time, the largest gap, and the share of searches that a work
// limit stopped.
func BenchmarkLargePools(b *testing.B) {
	for _, d := range largePools {
		for n := range len(requests) * len(poolDecisions) {
			of, decision := requests[n%len(requests)], poolDecisions[n/len(requests)]
			b.Run(fmt.Sprintf("gpus=%d/jobs=%d/%s/%s", d.gpus, d.jobs, decision.name, of.name), func(b *testing.B) {
				var took []time.Duration
				proven, stopped, gap := 0, 0, 0.0
				for b.Loop() {
					for seed := range uint64(40) {
						p := problem.NewProblemFor(decision.of(largePool(d.jobs, d.gpus, of.gpus, seed)), decision.options)
						runtime.GC()
						before := cpuTime(b)
						result, err := exact.New().Solve(cpuLimit{b.Context(), b, before + 900*time.Millisecond}, p, problem.SolveOptions{})
						if err != nil {
							b.Fatal(err)
						}
						took = append(took, cpuTime(b)-before)
						open := solver.RelativeGap(p.Objective(result.Plan), result.Bound)
						if gap = max(gap, open); open <= solver.OptimalGap {
							proven++
						}
						if result.Limit == solver.LimitWork {
							stopped++
						}
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(proven)/float64(len(took)), "proven")
				b.ReportMetric(float64(stopped)/float64(len(took)), "work-limit")
				b.ReportMetric(gap, "gap-max")
				b.ReportMetric(middle(took), "ms-median")
				b.ReportMetric(slices.Max(took).Seconds()*1e3, "ms-max")
			})
		}
	}
}
