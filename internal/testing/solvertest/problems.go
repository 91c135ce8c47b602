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

// Problems generates the problems of random snapshots with any objective and admission. Many of them
// cannot result from a snapshot: gains differ by step and job, values of sizes have any sign, and the
// capacity varies by step.
func Problems() *rapid.Generator[*problem.Problem] { return ProblemsWithin(SmallLimits()) }

// ProblemsWithin is Problems for snapshots within the given limits.
func ProblemsWithin(limits Limits) *rapid.Generator[*problem.Problem] {
	return rapid.Custom(func(t *rapid.T) *problem.Problem {
		s := SnapshotsWithin(limits).Draw(t, "snapshot")
		drawLargestPool(t, s)
		p := problem.NewProblemFor(s, drawOptions(t, solver.ObjectiveProgress, solver.ObjectiveTotalTime))
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

// drawLargestPool sets the maximum number of nodes in 10% of the snapshots.
func drawLargestPool(t *rapid.T, s *solver.Snapshot) {
	if rapid.IntRange(0, 9).Draw(t, "largest pool") == 0 {
		s.TotalNodes = math.MaxInt32
	}
}

// drawOptions returns a random admission and one of the objectives. Half of the problems of
// ObjectiveTotalTime have parameters from the minimum to the maximum.
func drawOptions(t *rapid.T, objectives ...solver.Objective) solver.Options {
	o := solver.Options{
		Objective: rapid.SampledFrom(objectives).Draw(t, "objective"),
		Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
	}
	if o.Objective != solver.ObjectiveTotalTime || rapid.Bool().Draw(t, "usual parameters") {
		return o
	}
	factor := func(name string) *float64 {
		return new(rapid.OneOf(
			rapid.Just(solver.DefaultQuotaPrice), rapid.SampledFrom([]float64{0, 0.01, 1, 1e3, solver.MaxFactor}), rapid.Float64Range(1e-3, 1),
		).Draw(t, name))
	}
	span := func(name string, minimum time.Duration) *time.Duration {
		return new(max(minimum, rapid.SampledFrom([]time.Duration{
			0, time.Second, solver.DefaultResizePrice, time.Hour, 24 * time.Hour, solver.MaxTotalTimeSpan,
		}).Draw(t, name)))
	}
	o.TotalTime = solver.TotalTimeOptions{
		Fairness: factor("fairness"), PausePriceFactor: factor("pause price factor"), QuotaPrice: factor("quota price"),
		Aging: span("aging", 0), ResizePrice: span("resize_price", 0), StartBonus: span("start bonus", 0),
		Payback: span("payback", solver.MinTotalTimeSpan),
	}
	return o
}

// drawGain returns random gains by step: positive only in the last step, 0, or any.
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

// drawSizeValue sets random values of the sizes for two thirds of the jobs.
func drawSizeValue(t *rapid.T, job *problem.AdmittedJob) {
	if rapid.IntRange(0, 2).Draw(t, "sizes have no value") == 0 {
		return
	}
	job.OptionValue = make([]float64, len(job.Options))
	for n := range job.OptionValue {
		job.OptionValue[n] = rapid.OneOf(
			rapid.SampledFrom([]float64{-1, 0, 1}),
			rapid.Float64Range(-3, 3),
		).Draw(t, "value of a size")
	}
}

// drawCapacity reduces the capacity of some steps, at most to the sum of the smallest sizes.
func drawCapacity(t *rapid.T, p *problem.Problem) {
	smallest := 0
	for i := range p.Jobs {
		smallest += int(p.Jobs[i].Options[0].Nodes)
	}
	p.Capacity = slices.Clone(p.Capacity)
	for step := range p.Capacity {
		p.Capacity[step] = rapid.IntRange(smallest, p.Capacity[step]).Draw(t, "capacity")
	}
}

// GroupedProblems generates problems of ObjectiveTotalTime with groups and any admission, within the
// given limits. A third of them have values of sizes of any sign.
func GroupedProblems(limits Limits) *rapid.Generator[*problem.Problem] {
	return rapid.Custom(func(t *rapid.T) *problem.Problem {
		s := GroupedSnapshots(limits).Draw(t, "snapshot")
		drawLargestPool(t, s)
		p := problem.NewProblemFor(s, drawOptions(t, solver.ObjectiveTotalTime))
		if rapid.IntRange(0, 2).Draw(t, "values of sizes") == 0 {
			for i := range p.Jobs {
				drawSizeValue(t, &p.Jobs[i])
			}
		}
		return p
	})
}

// GroupedSnapshots generates valid snapshots with groups: trees of any shape up to the maximum depth,
// limits and quotas from 0 to more than the pool, groups without jobs, and limits below the nodes of
// running jobs.
func GroupedSnapshots(limits Limits) *rapid.Generator[*solver.Snapshot] {
	return rapid.Custom(func(t *rapid.T) *solver.Snapshot {
		s := SnapshotsWithin(limits).Draw(t, "jobs")
		count := rapid.IntRange(1, 6).Draw(t, "groups")
		depths, inner := make([]int, count), make([]bool, count)
		nodes := rapid.OneOf(rapid.IntRange(0, s.TotalNodes), rapid.IntRange(0, limits.Nodes+4))
		for g := range count {
			group := solver.Group{ID: fmt.Sprintf("group-%d", g+1), Quota: nodes.Draw(t, "quota")}
			if rapid.Bool().Draw(t, "no quota") {
				group.Quota = 0
			}
			if rapid.Bool().Draw(t, "limited") {
				group.Limit = new(nodes.Draw(t, "limit"))
			}
			if parent := rapid.IntRange(-1, g-1).Draw(t, "parent"); parent >= 0 && depths[parent] < solver.MaxGroupDepth-1 {
				group.ParentID, depths[g], inner[parent] = s.Groups[parent].ID, depths[parent]+1, true
			}
			s.Groups = append(s.Groups, group)
		}
		var leaves []string
		for g := range s.Groups {
			if !inner[g] {
				leaves = append(leaves, s.Groups[g].ID)
			}
		}
		for i := range s.Jobs {
			s.Jobs[i].GroupID = rapid.SampledFrom(leaves).Draw(t, "group")
		}
		if rapid.Bool().Draw(t, "children first") {
			slices.Reverse(s.Groups)
		}
		return s
	})
}

// drawTypeLimits limits a third of the groups on some types.
func drawTypeLimits(t *rapid.T, s *solver.Snapshot, group *solver.Group) {
	group.TypeLimits = nil
	if rapid.IntRange(0, 2).Draw(t, "limits of types") > 0 {
		return
	}
	for _, nodeType := range s.NodeTypes {
		if rapid.Bool().Draw(t, "limited type") {
			limit := rapid.OneOf(rapid.IntRange(0, nodeType.Nodes), rapid.IntRange(0, 4)).Draw(t, "limit of the type")
			group.TypeLimits = append(group.TypeLimits, solver.GroupTypeLimit{NodeType: nodeType.ID, Limit: limit})
		}
	}
}

// SharedSnapshots generates valid snapshots with at least two of groups, several node types, and size limits. Defaults are set.
func SharedSnapshots(limits Limits) *rapid.Generator[*solver.Snapshot] {
	return rapid.Custom(func(t *rapid.T) *solver.Snapshot {
		s := GroupedSnapshots(limits).Draw(t, "groups")
		groups, ids := s.Groups, make([]string, len(s.Jobs))
		for i := range s.Jobs {
			ids[i] = s.Jobs[i].GroupID
		}
		pair := rapid.SampledFrom([]string{"all", "all", "groups and types", "groups and limits", "types and limits"}).Draw(t, "pair")
		if pair != "groups and limits" {
			DrawNodeTypes(t, s)
		}
		if pair != "groups and types" {
			DrawSizeLimits(t, s)
		}
		if pair != "types and limits" {
			s.Groups = groups
			for i := range s.Jobs {
				s.Jobs[i].GroupID = ids[i]
			}
			for g := range s.Groups {
				drawTypeLimits(t, s, &s.Groups[g])
			}
		}
		s = s.WithDefaults()
		if bad := s.Validate(limits.Jobs); len(bad) > 0 {
			t.Fatalf("bad fields: %v", bad)
		}
		return s
	})
}

// NewJobs returns a valid snapshot of 8 nodes and the given number of new jobs of an hour.
func NewJobs(jobs int) *solver.Snapshot {
	s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		s.Jobs = append(s.Jobs, solver.NewJob(fmt.Sprintf("job-%d", i), time.Hour))
	}
	return s
}
