package exact_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// groupedProblem returns a random cluster with running jobs that belong to teams, in departments if there
// are any. Half of the teams are at their limit. The quotas fill the pool.
func groupedProblem(jobs, nodes, teams, departments int, seed uint64) *problem.Problem {
	s := totalTimeSnapshot(jobs, nodes, seed, true)
	r := rand.New(rand.NewPCG(seed, 2))
	share := max(1, nodes/teams)
	for d := range departments {
		s.Groups = append(s.Groups, solver.Group{
			ID: fmt.Sprint("department-", d), Limit: new(nodes * 23 / 20 / departments), Quota: nodes / departments,
		})
	}
	for i := range teams {
		team := solver.Group{ID: fmt.Sprint("team-", i), Quota: share}
		if departments > 0 {
			team.ParentID = s.Groups[i%departments].ID
		}
		if r.IntN(2) == 0 {
			team.Limit = new(share * 13 / 10)
		}
		s.Groups = append(s.Groups, team)
	}
	for i := range s.Jobs {
		s.Jobs[i].GroupID = fmt.Sprint("team-", int(float64(teams)*math.Pow(r.Float64(), 1.5)))
	}
	return problem.NewProblemFor(s, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
	})
}

// TestGroupsOfHostileNumbers solves problems whose values differ by hundreds of orders of
// magnitude. The plan must be legal, and optimal except for the rounding error of the values that
// a legal plan adds up. Sizes that no legal plan contains must not matter, whatever their value.
func TestGroupsOfHostileNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.GroupedProblems(solvertest.Limits{Jobs: 6, Steps: 1, Sizes: 4, Nodes: 30}).Draw(t, "problem")
		for i := range p.Jobs {
			scale := math.Pow10(rapid.SampledFrom([]int{-300, -150, -20, 0, 0, 20, 150, 250}).Draw(t, "decade"))
			for k := range p.Jobs[i].OptionValue {
				p.Jobs[i].OptionValue[k] *= scale
			}
		}
		p.QuotaPrice = rapid.SampledFrom([]float64{0, 1e-300, 0.3, 1e6}).Draw(t, "quota price")
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		result, err := exact.New().Solve(ctx, p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if objective := checked(t, p, result); result.Limit == solver.LimitTime {
			t.Fatalf("objective %v, bound %v, limit %s", objective, result.Bound, result.Limit)
		} else if optimum, ok := solvertest.Exhaustive(p); ok {
			rounding := 1e-10 * legalMagnitude(p)
			if objective < optimum.Objective-rounding || result.Bound < optimum.Objective-rounding {
				t.Fatalf("objective %v, bound %v; the optimum is %v, with rounding of %v", objective, result.Bound, optimum.Objective, rounding)
			}
		}
	})
}

// TestGroupPrices compares prices with the value of one node more and of one node less in a limit or in the pool,
// by exhaustive search. Jobs may have any number of nodes, with decreasing marginal values, so that a price is
// between the two.
func TestGroupPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &problem.Problem{Capacity: []int{rapid.IntRange(3, 8).Draw(t, "nodes")}, Steps: 1, QuotaPrice: 3}
		for g := range 3 {
			limit := problem.NoLimit
			if rapid.Bool().Draw(t, "limited") {
				limit = rapid.IntRange(3, 9).Draw(t, "limit") // Sizes beyond a limit do not affect its price.
			}
			p.Groups = append(p.Groups, problem.AdmittedGroup{Parent: min(g, 1) - 1, Limit: limit, Floor: rapid.IntRange(0, 6).Draw(t, "floor")})
		}
		for i := range 3 {
			job := problem.AdmittedJob{
				Index: i, Member: problem.Member{Group: 1 + i%2}, Demand: 1, Options: solver.Nodes(0, 1, 2, 3), Gain: []float64{0},
				FirstStepWork: make([]float64, 4), StepWork: make([]float64, 4), OptionValue: make([]float64, 4),
			}
			gain := 20.0
			for k := range 3 {
				gain *= rapid.Float64Range(0.3, 0.9).Draw(t, "less")
				job.OptionValue[k+1] = job.OptionValue[k] + gain
			}
			p.Jobs = append(p.Jobs, job)
		}
		result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		optimum := func() float64 {
			best, _ := solvertest.Exhaustive(p)
			return best.Objective
		}
		best := optimum()
		check := func(nodes *int, price float64) {
			was := *nodes
			*nodes = was + 1
			more := optimum() - best
			*nodes = was - 1
			less := best - optimum()
			*nodes = was
			if price < more-1e-9 || price > less+1e-9 {
				t.Fatalf("a price of %v; one node more brings %v, one less costs %v: %+v, capacity %d", price, more, less, p.Groups, p.Capacity)
			}
		}
		check(&p.Capacity[0], result.NodePrices[0])
		for g := range p.Groups {
			if price := result.GroupPrices[g]; p.Groups[g].Limit < problem.NoLimit {
				check(&p.Groups[g].Limit, price)
			} else if price != 0 {
				t.Fatalf("group %d without a limit has a price of %v: %+v, capacity %d", g, price, p.Groups, p.Capacity)
			}
		}
	})
}

// legalMagnitude returns the sum of the largest value of each job in a plan in which the other jobs have
// their smallest sizes, and of the costs of quotas.
func legalMagnitude(p *problem.Problem) float64 {
	plan := problem.Plan{}
	for i := range p.Jobs {
		plan = append(plan, []solver.Option{p.Jobs[i].Options[0]})
	}
	sum := 0.0
	for _, g := range p.Groups {
		sum += p.QuotaPrice * float64(g.Floor)
	}
	for i := range p.Jobs {
		job, most := &p.Jobs[i], 0.0
		for k, size := range job.Options {
			if plan[i][0] = size; p.Check(plan) == nil {
				most = max(most, math.Abs(job.OptionValue[k]))
			}
		}
		plan[i][0] = job.Options[0]
		sum += most + job.Gain[0]
	}
	return sum
}

// TestGroupsAgreesWithHiGHS compares decisions with groups that exhaustive search cannot
// reach.
func TestGroupsAgreesWithHiGHS(t *testing.T) {
	oracle := external.HiGHS(solvertest.Program(t, solver.BackendHiGHS))
	seeds := testtier.Conformance.Examples(2, 40)
	for _, d := range groupSizes()[:testtier.Conformance.Examples(1, 2)] {
		if d.jobs > 100 {
			seeds = max(1, seeds/10)
		}
		for seed := range seeds {
			p := groupedProblem(d.jobs, d.nodes, d.teams, d.departments, uint64(seed))
			result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
			if err != nil || result.Limit != solver.LimitNone {
				t.Fatalf("%v, seed %d: limit %s, error %v", d, seed, result.Limit, err)
			}
			theirs, err := oracle.Solve(t.Context(), p, problem.SolveOptions{Formulation: solver.FormulationOneHot})
			if err != nil {
				t.Fatal(err)
			}
			if ours, other := p.Objective(result.Plan), p.Objective(theirs.Plan); math.Abs(ours-other) > 1e-6*math.Abs(ours) {
				t.Errorf("%v, seed %d: objective %.12g; HiGHS has %.12g", d, seed, ours, other)
			}
		}
	}
}

// groupSize is the size of a problem with groups.
type groupSize struct{ jobs, nodes, teams, departments int }

func groupSizes() []groupSize {
	return []groupSize{{100, 200, 8, 0}, {1000, 4000, 40, 8}, {100_000, 400_000, 1000, 0}, {100_000, 400_000, 1000, 30}}
}

// BenchmarkGroups measures decisions with groups, and HiGHS on decisions with at most 1,000 jobs.
func BenchmarkGroups(b *testing.B) {
	for _, d := range groupSizes() {
		var problems []*problem.Problem
		for seed := range max(1, min(50, 5000/d.jobs)) {
			problems = append(problems, groupedProblem(d.jobs, d.nodes, d.teams, d.departments, uint64(seed)))
		}
		name := fmt.Sprintf("jobs=%d/nodes=%d/teams=%d/departments=%d", d.jobs, d.nodes, d.teams, d.departments)
		run := func(name string, backend problem.Backend, who int) {
			b.Run(name, func(b *testing.B) {
				before, proven := cpuTimeOf(b, who), 0
				for n := 0; b.Loop(); n++ {
					result, err := backend.Solve(context.Background(), problems[n%len(problems)],
						problem.SolveOptions{Formulation: solver.FormulationOneHot})
					if err != nil {
						b.Fatal(err)
					}
					if result.Limit == solver.LimitNone {
						proven++
					}
				}
				b.ReportMetric(float64(cpuTimeOf(b, who)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(proven)/float64(b.N), "proven/op")
			})
		}
		run(name+"/exact", exact.New(), syscall.RUSAGE_SELF)
		if d.jobs <= 1000 {
			run(name+"/highs", external.HiGHS(solvertest.Program(b, solver.BackendHiGHS)), syscall.RUSAGE_CHILDREN)
		}
	}
}
