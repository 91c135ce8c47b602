package solvertest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver/problem"
)

// Solved is a problem with its optimum, which was computed without a backend.
type Solved struct {
	*problem.Problem
	Best Optimum
	// TiesBroken reports that Best.Plan also precedes all other optimal plans in the order of ties.
	TiesBroken bool
}

// SolvedProblems generates 60% Problems, 30% GroupedProblems and 10% GridProblems.
func SolvedProblems() *rapid.Generator[Solved] {
	return rapid.Custom(func(t *rapid.T) Solved {
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind of problem"); {
		case kind == 0:
			p := GridProblems().Draw(t, "problem of many steps")
			objective, plan := SolveGrid(p)
			return Solved{Problem: p, Best: Optimum{Plan: plan, Objective: objective}}
		case kind < 4:
			return Solve(t, GroupedProblems(SmallLimits()).Draw(t, "grouped problem"))
		default:
			return Solve(t, Problems().Draw(t, "problem"))
		}
	})
}

// Solve solves a problem by exhaustive search.
func Solve(t rapid.TB, p *problem.Problem) Solved {
	t.Helper()
	optimum, ok := Exhaustive(p)
	if !ok {
		t.Fatal("the problem has no legal plan")
	}
	return Solved{Problem: p, Best: optimum, TiesBroken: true}
}

// Magnitude returns the sum of the largest absolute values of all jobs. The rounding error of an
// objective is relative to it, however small the objective is.
func Magnitude(p *problem.Problem) float64 {
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
