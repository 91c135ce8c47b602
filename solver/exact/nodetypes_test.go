package exact_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// typed describes a snapshot with node types: jobs of log-normal demand and speeds that differ
// by job and type, of powers of two up to 4 to 32 nodes.
type typed struct {
	types, nodes, jobs int
	seed               uint64
}

// snapshot returns the snapshot. All jobs are new.
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
	p := problem.NewProblemFor(s, typedOptions())
	result, err := exact.New().Solve(tb.Context(), p, problem.SolveOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	for n := range p.Jobs {
		job, option := &s.Jobs[p.Jobs[n].Index], result.Plan[n][0]
		job.TrainingTime = time.Hour
		job.CurrentNodes, job.CurrentNodeType = int(option.Nodes), s.TypeOf(option)
	}
	r := rand.New(rand.NewPCG(d.seed, 1))
	for i := range s.Jobs {
		if r.Float64() < 0.06 {
			s.Jobs[i] = d.job(r, s.NodeTypes, i)
		}
	}
	return s
}

// sweepOf replaces the jobs of a snapshot by those of a few kinds, in each group if there are groups. Their ETAs may be
// off. The jobs of a kind have the same values.
func sweepOf(s *solver.Snapshot, kinds int) *solver.Snapshot {
	first, count := make(map[string][]solver.Job), make(map[string]int)
	for i := range s.Jobs {
		group := s.Jobs[i].GroupID
		if len(first[group]) < kinds {
			first[group] = append(first[group], s.Jobs[i])
		}
		job := first[group][count[group]%kinds]
		job.ID, job.ETAError = s.Jobs[i].ID, new(0.5)
		s.Jobs[i] = job
		count[group]++
	}
	return s
}

// BenchmarkNodeTypes proves random snapshots: with all jobs new, with 94% of the jobs running, and both with few
// different jobs. See benchmarkProofs.
func BenchmarkNodeTypes(b *testing.B) {
	for _, d := range []struct {
		typed
		count, highs int
	}{
		{typed{types: 3, nodes: 64, jobs: 40}, 12, 3},
		{typed{types: 3, nodes: 64, jobs: 160}, 12, 3},
		{typed{types: 3, nodes: 512, jobs: 1000}, 6, 0},
		{typed{types: 3, nodes: 2048, jobs: 1000}, 12, 1},
		{typed{types: 5, nodes: 384, jobs: 160}, 12, 3},
		{typed{types: 5, nodes: 2048, jobs: 1000}, 12, 1},
		{typed{types: 8, nodes: 200, jobs: 100}, 12, 1},
		{typed{types: 8, nodes: 320, jobs: 160}, 12, 0},
		{typed{types: 4, nodes: 400_000, jobs: 100_000}, 2, 0},
	} {
		for _, state := range []string{"cold", "warm", "sweep", "warm sweep"} {
			if strings.Contains(state, "sweep") && d.jobs > 1000 {
				continue
			}
			b.Run(fmt.Sprintf("types=%d/nodes=%d/jobs=%d/%s", d.types, d.nodes, d.jobs, state), func(b *testing.B) {
				benchmarkProofs(b, d.count, d.highs, func(n int) *solver.Snapshot {
					d.seed = uint64(n)
					s := d.snapshot()
					if strings.Contains(state, "sweep") {
						s = sweepOf(s, 1+n%5)
					}
					if strings.HasPrefix(state, "warm") {
						s = d.warm(b, s)
					}
					return s
				})
			})
		}
	}
}

// middle returns the median of times in milliseconds.
func middle(times []time.Duration) float64 {
	slices.SortFunc(times, cmp.Compare)
	return times[len(times)/2].Seconds() * 1e3
}
