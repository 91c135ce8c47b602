package solvertest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TypedSnapshots generates valid snapshots with node types and with defaults set.
func TypedSnapshots(limits Limits) *rapid.Generator[*solver.Snapshot] {
	return validSnapshots(limits, DrawNodeTypes)
}

// TypedProblems generates problems of ObjectiveTotalTime with node types and any admission.
func TypedProblems(limits Limits) *rapid.Generator[*problem.Problem] {
	return totalTimeProblems(TypedSnapshots(limits))
}

// validSnapshots generates snapshots, changes them, sets defaults and checks that they are valid.
func validSnapshots(limits Limits, change func(*rapid.T, *solver.Snapshot)) *rapid.Generator[*solver.Snapshot] {
	return rapid.Custom(func(t *rapid.T) *solver.Snapshot {
		s := SnapshotsWithin(limits).Draw(t, "snapshot")
		change(t, s)
		s = s.WithDefaults()
		if bad := s.Validate(limits.Jobs); len(bad) > 0 {
			t.Fatalf("bad fields: %v", bad)
		}
		return s
	})
}

// totalTimeProblems generates problems of ObjectiveTotalTime with any admission.
func totalTimeProblems(snapshots *rapid.Generator[*solver.Snapshot]) *rapid.Generator[*problem.Problem] {
	return rapid.Custom(func(t *rapid.T) *problem.Problem {
		return problem.NewProblemFor(snapshots.Draw(t, "changed snapshot"), solver.Options{
			Objective: solver.ObjectiveTotalTime,
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		}.WithDefaults())
	})
}

// DrawNodeTypes divides the pool of a random snapshot into 2 to 5 node types and sets random speeds of
// its jobs on them: none, factors, tables or sizes.
func DrawNodeTypes(t *rapid.T, s *solver.Snapshot) {
	remaining := s.TotalNodes
	s.NodeTypes = nil
	for g := range rapid.IntRange(2, 5).Draw(t, "node types") {
		nodes := rapid.IntRange(0, remaining).Draw(t, "nodes of the type")
		remaining -= nodes
		s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: fmt.Sprintf("type-%d", g+1), Nodes: nodes, Speed: drawFactor(t)})
	}
	s.NodeTypes[0].Nodes += remaining
	s.Groups = nil
	for i := range s.Jobs {
		drawSpeeds(t, s, &s.Jobs[i])
		if s.Demand(i) < time.Nanosecond.Seconds() {
			s.Jobs[i].ETANodes = 0 // The demand would be less than a nanosecond.
		}
	}
}

func drawFactor(t *rapid.T) float64 {
	return rapid.OneOf(
		rapid.SampledFrom([]float64{1, 1, 2, 0.5, 4, 1e-6, 1e6}), rapid.Float64Range(0.1, 10),
	).Draw(t, "factor")
}

func drawType(t *rapid.T, s *solver.Snapshot, label string) string {
	return s.NodeTypes[rapid.IntRange(0, len(s.NodeTypes)-1).Draw(t, label)].ID
}

// drawSpeeds sets the fields of a job that depend on node types.
func drawSpeeds(t *rapid.T, s *solver.Snapshot, job *solver.Job) {
	job.Speeds, job.GroupID, job.CurrentNodeType, job.ETANodeType, job.MoveTime = nil, "", "", "", nil
	if job.CurrentNodes > 0 {
		job.CurrentNodeType = drawType(t, s, "current node type")
	}
	if rapid.IntRange(0, 2).Draw(t, "move time") == 0 {
		job.MoveTime = new(rapid.SampledFrom([]time.Duration{0, time.Minute, 10 * time.Minute}).Draw(t, "move time"))
	}
	if job.Scaling.Speeds == nil && job.RemainingETA >= time.Hour && rapid.IntRange(0, 2).Draw(t, "eta on a type") == 0 {
		job.ETANodeType = drawType(t, s, "eta node type")
	}
	if rapid.IntRange(0, 3).Draw(t, "runs everywhere") == 0 {
		return
	}
	for _, g := range rapid.Permutation(s.NodeTypes).Draw(t, "order of speeds") {
		if len(job.Speeds) > 0 && rapid.IntRange(0, 3).Draw(t, "does not run here") == 0 {
			continue
		}
		own := solver.TypeSpeed{NodeType: g.ID}
		if rapid.Bool().Draw(t, "own factor") {
			own.Factor = drawFactor(t)
		}
		if job.ETANodeType == "" && rapid.IntRange(0, 2).Draw(t, "own sizes") == 0 {
			typed := *job
			typed.Scaling = solver.Scaling{}
			typed.AllowedNodes = slices.DeleteFunc([]int{1, 2, 3, 5, 8}, func(k int) bool { return k < job.MinNodes || k > job.MaxNodes })
			if len(typed.AllowedNodes) > 0 {
				drawScaling(t, &typed)
				own.AllowedNodes, own.Scaling = typed.AllowedNodes, typed.Scaling
			}
		}
		job.Speeds = append(job.Speeds, own)
	}
}
