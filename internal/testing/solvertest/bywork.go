package solvertest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// GridProblems generates problems at the limits that exhaustive search does not reach: up
// to solver.MaxSteps steps, up to solver.MaxSizes sizes above size 0, weights over 18
// decades. Speeds and remaining ETAs are whole steps of one node, for ByWork.
func GridProblems() *rapid.Generator[*solver.Problem] {
	return rapid.Custom(func(t *rapid.T) *solver.Problem {
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
				job.RescaleDelay = solver.DefaultStep
			}
			s.Jobs = append(s.Jobs, job)
		}
		s.TotalNodes = rapid.OneOf(rapid.Just(largest), rapid.IntRange(smallest, largest)).Draw(t, "nodes")
		return solver.NewProblem(s, rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"))
	})
}

// ByWork returns the optimum of a problem of GridProblems: the best value to go for every
// step and every work that the jobs have left, in whole steps of one node. Its time grows
// with steps * products of demands and sizes, and not with sizes^steps. Nothing is priced,
// bounded or left out.
func ByWork(p *solver.Problem) (float64, solver.Plan) {
	g := grid{p: p, unit: solver.DefaultStep.Seconds(), stride: make([]int, len(p.Jobs)+1)}
	g.stride[0] = 1
	for i := range p.Jobs {
		g.stride[i+1] = g.stride[i] * (g.steps(p.Jobs[i].Demand) + 1)
	}
	g.toGo = make([][]float64, p.Steps+1)
	g.toGo[p.Steps] = make([]float64, g.stride[len(p.Jobs)])
	served := make([]int, len(p.Jobs))
	for t := p.Steps - 1; t >= 0; t-- {
		g.toGo[t] = make([]float64, len(g.toGo[p.Steps]))
		for state := range g.toGo[t] {
			for i := range served {
				served[i] = state / g.stride[i] % (g.stride[i+1] / g.stride[i])
			}
			g.toGo[t][state], _ = g.best(t, 0, p.Capacity[t], served, 0, 0)
		}
	}
	plan, state := solver.NewPlan(len(p.Jobs), p.Steps), 0
	for t := range p.Steps {
		for i := range served {
			served[i] = state / g.stride[i] % (g.stride[i+1] / g.stride[i])
		}
		_, chosen := g.best(t, 0, p.Capacity[t], served, 0, 0)
		state = 0
		for i, k := range chosen {
			plan[i][t] = p.Jobs[i].Options[k]
			state += g.after(i, t, k, served[i]) * g.stride[i]
		}
	}
	return g.toGo[0][0], plan
}

// grid is the state of ByWork.
type grid struct {
	p      *solver.Problem
	unit   float64
	stride []int
	toGo   [][]float64 // by step and by what was served
}

// steps returns work in whole steps of one node.
func (g *grid) steps(work float64) int {
	whole := math.Round(work / g.unit)
	if math.Abs(work-whole*g.unit) > 1e-9*g.unit {
		panic(fmt.Sprintf("a work of %v is no multiple of %v", work, g.unit))
	}
	return int(whole)
}

// after returns what job i has been served after step t.
func (g *grid) after(i, t, k, served int) int {
	job := &g.p.Jobs[i]
	return min(g.steps(job.Demand), served+g.steps(job.Work(t)[k]))
}

// best returns the best value from step t on, and the sizes chosen in it, of the jobs from i
// on, those before having led to state and value.
func (g *grid) best(t, i, free int, served []int, state int, value float64) (float64, []int) {
	if i == len(g.p.Jobs) {
		return value + g.toGo[t+1][state], nil
	}
	job := &g.p.Jobs[i]
	most, chosen := math.Inf(-1), []int(nil)
	for k, size := range job.Options {
		nodes := int(size.Nodes)
		if nodes > free {
			break
		}
		after := g.after(i, t, k, served[i])
		gained := job.Gain[t] * float64(after*int(g.unit)) / job.Demand
		if t == 0 && job.OptionValue != nil {
			gained += job.OptionValue[k]
		}
		if v, rest := g.best(t, i+1, free-nodes, served, state+after*g.stride[i], value+gained); v > most {
			most, chosen = v, append([]int{k}, rest...)
		}
	}
	return most, chosen
}
