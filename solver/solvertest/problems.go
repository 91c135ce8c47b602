package solvertest

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// Problems generates the problems of random snapshots under any objective and admission,
// half of them with an objective that no snapshot leads to: gains that differ by step
// and job, values of sizes of any sign, and a capacity that varies.
func Problems() *rapid.Generator[*solver.Problem] { return ProblemsWithin(SmallLimits()) }

// ProblemsWithin is Problems for snapshots within the given limits.
func ProblemsWithin(limits Limits) *rapid.Generator[*solver.Problem] {
	return rapid.Custom(func(t *rapid.T) *solver.Problem {
		s := SnapshotsWithin(limits).Draw(t, "snapshot")
		p := solver.NewProblemFor(s, solver.Options{
			Objective: rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(t, "objective"),
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		})
		if rapid.Bool().Draw(t, "gains") {
			for i := range p.Jobs {
				p.Jobs[i].Gain = drawGain(t, p.Steps)
			}
		}
		if rapid.Bool().Draw(t, "values of sizes") {
			for i := range p.Jobs {
				drawSizeValue(t, &p.Jobs[i])
			}
		}
		if rapid.Bool().Draw(t, "capacity by step") {
			drawCapacity(t, p)
		}
		return p
	})
}

// drawGain draws the gain of having finished per step: in the last one alone, in none,
// or anything.
func drawGain(t *rapid.T, steps int) []float64 {
	gain := make([]float64, steps)
	switch rapid.IntRange(0, 3).Draw(t, "kind of gain") {
	case 0:
	case 1:
		gain[steps-1] = 1
	default:
		for step := range gain {
			gain[step] = rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 5)).Draw(t, "gain")
		}
	}
	return gain
}

// drawSizeValue draws values of the sizes for two jobs of three.
func drawSizeValue(t *rapid.T, job *solver.AdmittedJob) {
	if rapid.IntRange(0, 2).Draw(t, "sizes have no value") == 0 {
		return
	}
	job.SizeValue = make([]float64, len(job.Sizes))
	for n := range job.SizeValue {
		job.SizeValue[n] = rapid.OneOf(
			rapid.SampledFrom([]float64{-1, 0, 1}),
			rapid.Float64Range(-3, 3),
		).Draw(t, "value of a size")
	}
}

// drawCapacity takes nodes away in some steps, but never those of the smallest sizes.
func drawCapacity(t *rapid.T, p *solver.Problem) {
	smallest := 0
	for i := range p.Jobs {
		smallest += p.Jobs[i].Sizes[0]
	}
	p.Capacity = slices.Clone(p.Capacity)
	for step := range p.Capacity {
		p.Capacity[step] = rapid.IntRange(smallest, p.Capacity[step]).Draw(t, "capacity")
	}
}
