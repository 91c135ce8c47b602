package exact_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// typed describes a snapshot with node types: jobs of log-normal demand and speeds that differ
// by job and type, of powers of two up to 4 to 32 nodes.
type typed struct {
	types, nodes, jobs int
	seed               uint64
}

// snapshot draws it. All jobs are new.
func (d typed) snapshot() *solver.Snapshot {
	r := rand.New(rand.NewPCG(d.seed, uint64(d.types)))
	s := new(solver.Snapshot)
	for g, left := 0, d.nodes; g < d.types; g++ {
		nodes := left / (d.types - g)
		if g < d.types-1 {
			nodes = nodes * (6 + r.IntN(9)) / 10
		}
		s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: fmt.Sprint("type ", g), Nodes: nodes, Speed: math.Exp(0.7 * r.NormFloat64())})
		left, s.TotalNodes = left-nodes, s.TotalNodes+nodes
	}
	for i := range d.jobs {
		s.Jobs = append(s.Jobs, d.job(r, s.NodeTypes, i))
	}
	return s
}

func (d typed) job(r *rand.Rand, types []solver.NodeType, i int) solver.Job {
	job := solver.NewJob(fmt.Sprint(i), time.Duration(math.Exp(9+1.5*r.NormFloat64())*float64(time.Second)))
	job.MaxNodes = 4 << r.IntN(4)
	job.RestartTime = time.Duration(25+225*r.Float64()) * time.Second
	for _, t := range types {
		own := solver.TypeSpeed{NodeType: t.ID, Factor: t.Speed * math.Exp(0.4*r.NormFloat64())}
		own.Scaling.DoublingEfficiency = 0.7 + 0.25*r.Float64()
		job.Speeds = append(job.Speeds, own)
	}
	return job
}

// typedOptions are those of a decision on node types.
func typedOptions() solver.Options {
	return solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
}

// warm returns the snapshot at the decision after, in which 6 % of the jobs are new.
func (d typed) warm(tb testing.TB, s *solver.Snapshot) *solver.Snapshot {
	tb.Helper()
	p := solver.NewProblemFor(s, typedOptions())
	result, err := exact.New().Solve(tb.Context(), p, solver.SolveOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	for n := range p.Jobs {
		job, option := &s.Jobs[p.Jobs[n].Index], result.Plan[n][0]
		job.TrainingTime = time.Hour
		if job.CurrentNodes = solver.OptionNodes(option); option > 0 {
			job.CurrentNodeType = s.NodeTypes[solver.OptionType(option)].ID
		}
	}
	r := rand.New(rand.NewPCG(d.seed, 1))
	for i := range s.Jobs {
		if r.Float64() < 0.06 {
			s.Jobs[i] = d.job(r, s.NodeTypes, i)
		}
	}
	return s
}

// BenchmarkNodeTypes solves drawn snapshots, all jobs new, and where all are held and 6 % new.
// It reports medians and maxima of CPU time, and those of HiGHS, up to a limit of 20 s, on a
// few that are not large.
func BenchmarkNodeTypes(b *testing.B) {
	const limit = 20 * time.Second
	for _, d := range []typed{
		{types: 3, nodes: 64, jobs: 40}, {types: 3, nodes: 64, jobs: 160}, {types: 3, nodes: 512, jobs: 1000}, {types: 3, nodes: 2048, jobs: 1000},
		{types: 5, nodes: 384, jobs: 160}, {types: 5, nodes: 2048, jobs: 1000}, {types: 8, nodes: 200, jobs: 100}, {types: 4, nodes: 400_000, jobs: 100_000},
	} {
		count := 12
		if d.jobs > 10_000 {
			count = 2
		}
		for _, state := range []string{"cold", "warm"} {
			b.Run(fmt.Sprintf("types=%d/nodes=%d/jobs=%d/%s", d.types, d.nodes, d.jobs, state), func(b *testing.B) {
				var ours, theirs []time.Duration
				proven, gap := 0, 0.0
				for b.Loop() {
					ours, theirs, proven = nil, nil, 0
					for seed := range count {
						d.seed = uint64(seed)
						s := d.snapshot()
						if state == "warm" {
							s = d.warm(b, s)
						}
						p := solver.NewProblemFor(s, typedOptions())
						start := cpuTime(b)
						result, err := exact.New().Solve(b.Context(), p, solver.SolveOptions{})
						if err != nil {
							b.Fatal(err)
						}
						ours = append(ours, cpuTime(b)-start)
						objective := p.Objective(result.Plan)
						if open := solver.RelativeGap(objective, result.Bound); open <= solver.OptimalGap {
							proven++
						} else {
							gap = max(gap, open)
						}
						if seed >= 2 || d.jobs > 200 {
							continue
						}
						ctx, cancel := context.WithTimeout(b.Context(), limit)
						began := time.Now()
						other, err := external.HiGHS(solvertest.Program(b, solver.BackendHiGHS)).Solve(ctx, p, solver.SolveOptions{Formulation: solver.FormulationOneHot})
						cancel()
						if err != nil {
							b.Logf("seed %d: HiGHS: %v", seed, err)
							continue
						}
						theirs = append(theirs, time.Since(began))
						if off := p.Objective(other.Plan) - result.Bound; off > 1e-9*math.Abs(objective) {
							b.Errorf("seed %d: HiGHS has a plan of %g above the bound %g", seed, p.Objective(other.Plan), result.Bound)
						}
						b.Logf("seed %d: ours %.12g of HiGHS's %.12g", seed, objective, p.Objective(other.Plan))
					}
				}
				b.ReportMetric(float64(proven)/float64(count), "proven")
				b.ReportMetric(gap, "gap-max")
				b.ReportMetric(middle(ours), "ms-median")
				b.ReportMetric(slices.Max(ours).Seconds()*1e3, "ms-max")
				if len(theirs) > 0 {
					b.ReportMetric(middle(theirs), "highs-ms")
				}
			})
		}
	}
}

// middle returns the median of times in milliseconds.
func middle(times []time.Duration) float64 {
	slices.SortFunc(times, cmp.Compare)
	return times[len(times)/2].Seconds() * 1e3
}
