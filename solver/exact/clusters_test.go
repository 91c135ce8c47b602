package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// cluster describes a cluster with 1 to 3 node types whose machines have 8 GPUs, and with teams. A node is a GPU, and
// there are two per job. With more than 8 teams, every five of them form a department. All teams have quotas, and half of
// the teams and departments have limits. Jobs have 1 to 8 GPUs, a quarter of them up to 32 in pieces of 8.
type cluster struct {
	jobs, types, teams int
	// damaged is the share of the machines that lack 1 to 7 GPUs. They lead to size limits.
	damaged float64
	// typeLimits is the share of the teams with a limit on the first type.
	typeLimits float64
	seed       uint64
}

func (d cluster) String() string {
	limited := ""
	if d.typeLimits > 0 {
		limited = fmt.Sprintf("/type-limits=%g", d.typeLimits)
	}
	return fmt.Sprintf("jobs=%d/types=%d/teams=%d%s", d.jobs, d.types, d.teams, limited)
}

// clusterTypes are the ids and speeds of the node types.
func clusterTypes() ([]string, []float64) {
	return []string{"a100", "h100", "l40s"}, []float64{1, 2.2, 0.6}
}

// snapshot returns the snapshot. All jobs are new.
func (d cluster) snapshot() *solver.Snapshot {
	r := rand.New(rand.NewPCG(d.seed, uint64(d.jobs*1000+d.types*100+d.teams)))
	s := new(solver.Snapshot)
	ids, speeds := clusterTypes()
	shares := [][]float64{{1}, {0.6, 0.4}, {0.5, 0.3, 0.2}}[d.types-1]
	for g := range d.types {
		free := make([]int, max(2, int(math.Round(shares[g]*float64(2*d.jobs)/8))))
		total := 0
		for n := range free {
			if free[n] = 8; r.Float64() < d.damaged {
				free[n] -= 1 + r.IntN(7)
			}
			total += free[n]
		}
		id := ""
		if d.types > 1 {
			id = ids[g]
			s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: id, Nodes: total, Speed: speeds[g]})
		}
		s.TotalNodes += total
		least := total
		for size := 2; size <= 8; size *= 2 {
			nodes := 0
			for _, units := range free {
				nodes += units / size * size
			}
			if nodes < least {
				s.SizeLimits, least = append(s.SizeLimits, solver.SizeLimit{Size: size, Nodes: nodes, NodeType: id}), nodes
			}
		}
	}
	d.addGroups(r, s)
	for i := range d.jobs {
		s.Jobs = append(s.Jobs, d.job(r, i))
	}
	return s
}

// addGroups adds the teams and departments.
func (d cluster) addGroups(r *rand.Rand, s *solver.Snapshot) {
	departments := 0
	if d.teams > 8 {
		departments = d.teams / 5
	}
	share, sum := make([]float64, d.teams), 0.0
	for q := range share {
		share[q] = math.Exp(0.5 * r.NormFloat64())
		sum += share[q]
	}
	quotas := make([]int, departments)
	for q := range d.teams {
		g := solver.Group{ID: fmt.Sprintf("team%d", q), Quota: int(share[q] / sum * float64(s.TotalNodes))}
		if departments > 0 {
			g.ParentID = fmt.Sprintf("department%d", q%departments)
			quotas[q%departments] += g.Quota
		}
		if q%2 == 0 {
			g.Limit = new(int(1.3 * float64(g.Quota)))
		}
		if len(s.NodeTypes) > 0 && float64(q) < d.typeLimits*float64(d.teams) {
			g.TypeLimits = []solver.GroupTypeLimit{{NodeType: s.NodeTypes[0].ID, Limit: g.Quota / 2}}
		}
		s.Groups = append(s.Groups, g)
	}
	for q := range departments {
		g := solver.Group{ID: fmt.Sprintf("department%d", q)}
		if q%2 == 0 {
			g.Limit = new(int(1.15 * float64(quotas[q])))
		}
		s.Groups = append(s.Groups, g)
	}
}

func (d cluster) job(r *rand.Rand, i int) solver.Job {
	job := solver.NewJob(fmt.Sprint(i), time.Duration(math.Exp(9+1.5*r.NormFloat64())*float64(time.Second)))
	job.MinNodes, job.MaxNodes = 1<<r.IntN(2), 8
	if r.IntN(4) == 0 {
		job.MaxNodes, job.PieceNodes = 32, 8
	}
	job.RestartTime = time.Duration(25+225*r.Float64()) * time.Second
	job.Scaling.DoublingEfficiency = 0.7 + 0.25*r.Float64()
	job.GroupID = fmt.Sprintf("team%d", r.IntN(d.teams))
	if d.types == 1 {
		return job
	}
	skip := -1
	if r.IntN(5) == 0 {
		skip = r.IntN(d.types)
	}
	ids, speeds := clusterTypes()
	for g := range d.types {
		if g != skip {
			job.Speeds = append(job.Speeds, solver.TypeSpeed{NodeType: ids[g], Factor: speeds[g] * math.Exp(0.25*r.NormFloat64())})
		}
	}
	return job
}

// warm returns the snapshot at the next decision, in which 7% of the jobs are new.
func (d cluster) warm(tb testing.TB, s *solver.Snapshot) *solver.Snapshot {
	tb.Helper()
	p := problem.NewProblemFor(s, typedOptions())
	result, err := exact.New().Solve(tb.Context(), p, problem.SolveOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	r := rand.New(rand.NewPCG(d.seed, 1))
	for n := range p.Jobs {
		job, option := &s.Jobs[p.Jobs[n].Index], result.Plan[n][0]
		job.CurrentNodes, job.TrainingTime, job.CurrentNodeType = int(option.Nodes), time.Hour, s.TypeOf(option)
		if r.Float64() < 0.07 {
			*job = d.job(r, p.Jobs[n].Index)
		}
	}
	return s
}

// TestClustersAgreeWithHiGHS compares decisions with teams, node types and size limits that exhaustive search cannot
// reach, with limits per type in a third of the teams.
func TestClustersAgreeWithHiGHS(t *testing.T) {
	t.Parallel()
	oracle := external.HiGHS(solvertest.Program(t, solver.BackendHiGHS))
	for _, d := range []cluster{
		{jobs: 60, types: 2, teams: 8}, {jobs: 60, types: 1, teams: 8}, {jobs: 100, types: 3, teams: 10}, {jobs: 300, types: 3, teams: 16},
	}[:testtier.Conformance.Examples(2, 4)] {
		for seed := range uint64(testtier.Conformance.Examples(2, 8)) {
			for _, state := range []string{"cold", "warm"} {
				d.seed, d.damaged, d.typeLimits = 40+seed, 0.3, 0.3
				s := d.snapshot()
				if state == "warm" {
					s = d.warm(t, s)
				}
				p := problem.NewProblemFor(s, typedOptions())
				result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
				if err != nil || result.Limit != solver.LimitNone {
					t.Fatalf("%v, %s, seed %d: limit %s, error %v", d, state, d.seed, result.Limit, err)
				}
				theirs, err := oracle.Solve(t.Context(), p, problem.SolveOptions{Formulation: solver.FormulationOneHot})
				if err != nil {
					t.Fatal(err)
				}
				ours, other := p.Objective(result.Plan), p.Objective(theirs.Plan)
				if math.Abs(ours-other) > 1e-6*math.Abs(ours) || other > result.Bound*(1+1e-9) {
					t.Errorf("%v, %s, seed %d: objective %.12g, bound %.12g; HiGHS has %.12g", d, state, d.seed, ours, result.Bound, other)
				}
			}
		}
	}
}

// TestManyTeams decides clusters with more teams than windows have prices.
func TestManyTeams(t *testing.T) {
	t.Parallel()
	d := cluster{jobs: 900, types: 2, teams: 600, damaged: 0.2, seed: 3}
	p := problem.NewProblemFor(d.snapshot(), typedOptions())
	result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if gap := solver.RelativeGap(checked(t, p, result), result.Bound); gap > 0.5 {
		t.Errorf("gap %v", gap)
	}
}

// BenchmarkClusters proves random clusters with teams, node types and size limits: with all jobs new, with 93% of the
// jobs running, and both with two kinds of jobs per team. See benchmarkProofs.
func BenchmarkClusters(b *testing.B) {
	for _, d := range []struct {
		cluster
		count, highs int
	}{
		{cluster{jobs: 100, types: 2, teams: 8}, 20, 3},
		{cluster{jobs: 100, types: 3, teams: 8}, 20, 3},
		{cluster{jobs: 300, types: 2, teams: 16}, 20, 3},
		{cluster{jobs: 300, types: 3, teams: 16}, 20, 3},
		{cluster{jobs: 1000, types: 2, teams: 40}, 6, 1},
		{cluster{jobs: 1000, types: 3, teams: 40}, 6, 1},
		{cluster{jobs: 1000, types: 3, teams: 40, typeLimits: 0.3}, 6, 0},
	} {
		for _, state := range []string{"cold", "warm", "sweep", "warm sweep"} {
			b.Run(fmt.Sprintf("%v/%s", d.cluster, state), func(b *testing.B) {
				benchmarkProofs(b, d.count, d.highs, func(n int) *solver.Snapshot {
					d.seed, d.damaged = uint64(n), 0.2
					s := d.snapshot()
					if strings.Contains(state, "sweep") {
						s = sweepOf(s, 2)
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

// benchmarkProofs proves snapshots 0 to count-1 and reports the CPU time, the share proven, and the largest gap. HiGHS
// proves the first snapshots: same-ms is the CPU time of the exact backend on these.
func benchmarkProofs(b *testing.B, count, highs int, snapshot func(n int) *solver.Snapshot) {
	b.Helper()
	oracle := external.HiGHS(solvertest.Program(b, solver.BackendHiGHS))
	var ours, first, theirs []time.Duration
	proven, finished, gap := 0, 0, 0.0
	for b.Loop() {
		for n := range count {
			p := problem.NewProblemFor(snapshot(n), typedOptions())
			took, open := prove(cpuLimit{b.Context(), b, cpuTime(b) + 10*time.Second}, b, syscall.RUSAGE_SELF, exact.New(), p)
			if ours, gap = append(ours, took), max(gap, open); open <= solver.OptimalGap {
				proven++
			}
			if n >= highs {
				continue
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			theirTime, open := prove(ctx, b, syscall.RUSAGE_CHILDREN, oracle, p)
			cancel()
			if first, theirs = append(first, took), append(theirs, theirTime); open == 0 {
				finished++
			}
		}
	}
	b.ReportMetric(float64(proven)/float64(len(ours)), "proven")
	b.ReportMetric(gap, "gap-max")
	b.ReportMetric(middle(ours), "ms-median")
	b.ReportMetric(slices.Max(ours).Seconds()*1e3, "ms-max")
	if len(theirs) > 0 {
		b.ReportMetric(middle(first), "same-ms")
		b.ReportMetric(middle(theirs), "highs-ms")
		b.ReportMetric(float64(finished)/float64(len(theirs)), "highs-proven")
	}
}
