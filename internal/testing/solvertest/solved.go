package solvertest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// Solved is a problem with its optimum, which no backend had a part in.
type Solved struct {
	*solver.Problem
	Best Optimum
	// Ties says that Best.Plan is also the best of those of its objective.
	Ties bool
}

// SolvedProblems generates problems of every kind, at the limits of the API too: Problems,
// GroupedProblems, and one of ten of GridProblems.
func SolvedProblems() *rapid.Generator[Solved] {
	return rapid.Custom(func(t *rapid.T) Solved {
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind of problem"); {
		case kind == 0:
			p := GridProblems().Draw(t, "problem of many steps")
			objective, plan := ByWork(p)
			return Solved{Problem: p, Best: Optimum{Plan: plan, Objective: objective}}
		case kind < 4:
			return Solve(t, GroupedProblems(SmallLimits()).Draw(t, "grouped problem"))
		default:
			return Solve(t, Problems().Draw(t, "problem"))
		}
	})
}

// Solve returns an admitted problem with its optimum by exhaustive search.
func Solve(t rapid.TB, p *solver.Problem) Solved {
	t.Helper()
	optimum, ok := Exhaustive(p)
	if !ok {
		t.Fatal("an admitted problem without a plan")
	}
	return Solved{Problem: p, Best: optimum, Ties: true}
}

// Magnitude is what the values of all jobs add up to where none cancel out: sums of them
// are known to rounding of that, however small they are themselves.
func Magnitude(p *solver.Problem) float64 {
	sum := 0.0
	for i := range p.Jobs {
		for _, gain := range p.Jobs[i].Gain {
			sum += gain
		}
		largest := 0.0
		for _, value := range p.Jobs[i].OptionValue {
			largest = max(largest, math.Abs(value))
		}
		sum += largest
	}
	for g := range p.Groups {
		sum += p.QuotaPrice * float64(p.Groups[g].Floor)
	}
	return sum
}
