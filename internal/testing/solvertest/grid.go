package solvertest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// GridProblems generates problems that are too large for exhaustive search: up to solver.MaxSteps
// steps, up to solver.MaxSizes sizes above 0, and weights over 18 orders of magnitude. Speeds and
// remaining ETAs are multiples of a step on one node, so that SolveGrid can solve the problems.
func GridProblems() *rapid.Generator[*problem.Problem] {
	return rapid.Custom(func(t *rapid.T) *problem.Problem {
		jobs := rapid.IntRange(1, 3).Draw(t, "jobs")
		sizes := map[int]int{1: solver.MaxSizes, 2: 6, 3: 3}[jobs]
		if rapid.IntRange(0, 3).Draw(t, "fewer sizes") > 0 {
			sizes = rapid.IntRange(1, sizes).Draw(t, "sizes")
		}
		s := &solver.Snapshot{Horizon: solver.Horizon{
			Step:  solver.DefaultStep,
			Steps: rapid.OneOf(rapid.Just(solver.MaxSteps), rapid.IntRange(2, solver.MaxSteps)).Draw(t, "steps"),
		}}
		smallest, largest := 0, 0
		for i := range jobs {
			job := solver.NewJob(fmt.Sprint(i), solver.DefaultStep*time.Duration(rapid.IntRange(1, 120/(jobs*jobs)).Draw(t, "demand")))
			nodes := 0
			for range sizes {
				nodes += rapid.IntRange(1, 3).Draw(t, "more nodes")
				job.AllowedNodes = append(job.AllowedNodes, nodes)
				job.Scaling.Speeds = append(job.Scaling.Speeds, float64(rapid.IntRange(1, 4+nodes/4).Draw(t, "speed")))
			}
			if rapid.Bool().Draw(t, "growing speeds") {
				slices.Sort(job.Scaling.Speeds)
			}
			job.MinNodes, job.MaxNodes = job.AllowedNodes[0], nodes
			smallest, largest = smallest+job.MinNodes, largest+nodes
			job.Weight = new(rapid.SampledFrom([]float64{1, 1, 1, 2, 0, 1e-9, 1e9}).Draw(t, "weight"))
			if rapid.Bool().Draw(t, "running") {
				job.CurrentNodes = rapid.SampledFrom(job.AllowedNodes).Draw(t, "current nodes")
			}
			if rapid.Bool().Draw(t, "loses the first step") {
				job.ResizeDelay = solver.DefaultStep
			}
			s.Jobs = append(s.Jobs, job)
		}
		s.TotalNodes = rapid.OneOf(rapid.Just(largest), rapid.IntRange(smallest, largest)).Draw(t, "nodes")
		return problem.NewProblem(s, rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"))
	})
}

// SolveGrid returns the optimum of a problem of GridProblems by dynamic programming. A state is a step
// and the work of every job, in steps on one node. The time grows with the product of steps, demands
// and sizes, and not with sizes^steps. It uses no prices and no bounds.
func SolveGrid(p *problem.Problem) (float64, problem.Plan) {
	g := grid{p: p, unit: solver.DefaultStep.Seconds(), stride: make([]int, len(p.Jobs)+1)}
	g.stride[0] = 1
	for i := range p.Jobs {
		g.stride[i+1] = g.stride[i] * (g.steps(p.Jobs[i].Demand) + 1)
	}
	g.valueToGo = make([][]float64, p.Steps+1)
	g.valueToGo[p.Steps] = make([]float64, g.stride[len(p.Jobs)])
	done := make([]int, len(p.Jobs))
	for t := p.Steps - 1; t >= 0; t-- {
		g.valueToGo[t] = make([]float64, len(g.valueToGo[p.Steps]))
		for state := range g.valueToGo[t] {
			for i := range done {
				done[i] = state / g.stride[i] % (g.stride[i+1] / g.stride[i])
			}
			g.valueToGo[t][state], _ = g.best(t, 0, p.Capacity[t], done, 0, 0)
		}
	}
	plan, state := problem.NewPlan(len(p.Jobs), p.Steps), 0
	for t := range p.Steps {
		for i := range done {
			done[i] = state / g.stride[i] % (g.stride[i+1] / g.stride[i])
		}
		_, chosen := g.best(t, 0, p.Capacity[t], done, 0, 0)
		state = 0
		for i, k := range chosen {
			plan[i][t] = p.Jobs[i].Options[k]
			state += g.after(i, t, k, done[i]) * g.stride[i]
		}
	}
	return g.valueToGo[0][0], plan
}

// grid is the state of SolveGrid.
type grid struct {
	p         *problem.Problem
	unit      float64
	stride    []int
	valueToGo [][]float64 // by step and state
}

// steps converts work to steps on one node.
func (g *grid) steps(work float64) int {
	whole := math.Round(work / g.unit)
	if math.Abs(work-whole*g.unit) > 1e-9*g.unit {
		panic(fmt.Sprintf("work is %v; must be a multiple of %v", work, g.unit))
	}
	return int(whole)
}

// after returns the work of job i after step t, in steps on one node.
func (g *grid) after(i, t, k, done int) int {
	job := &g.p.Jobs[i]
	return min(g.steps(job.Demand), done+g.steps(job.Work(t)[k]))
}

// best returns the largest value from step t on, and the indices of the options of the jobs from i on
// in step t. state and value are the contributions of the jobs before i.
func (g *grid) best(t, i, free int, done []int, state int, value float64) (float64, []int) {
	if i == len(g.p.Jobs) {
		return value + g.valueToGo[t+1][state], nil
	}
	job := &g.p.Jobs[i]
	largest, chosen := math.Inf(-1), []int(nil)
	for k, size := range job.Options {
		nodes := int(size.Nodes)
		if nodes > free {
			break
		}
		after := g.after(i, t, k, done[i])
		gained := job.Gain[t] * float64(after*int(g.unit)) / job.Demand
		if t == 0 && job.OptionValue != nil {
			gained += job.OptionValue[k]
		}
		if v, rest := g.best(t, i+1, free-nodes, done, state+after*g.stride[i], value+gained); v > largest {
			largest, chosen = v, append([]int{k}, rest...)
		}
	}
	return largest, chosen
}
