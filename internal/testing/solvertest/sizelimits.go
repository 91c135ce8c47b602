package solvertest

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// LimitedSnapshots generates valid snapshots with size limits, with and without node types, and with
// defaults set.
func LimitedSnapshots(limits Limits) *rapid.Generator[*solver.Snapshot] {
	return validSnapshots(limits, func(t *rapid.T, s *solver.Snapshot) {
		if rapid.Bool().Draw(t, "typed") {
			DrawNodeTypes(t, s)
		}
		DrawSizeLimits(t, s)
	})
}

// LimitedProblems generates problems of ObjectiveTotalTime with size limits and any admission.
func LimitedProblems(limits Limits) *rapid.Generator[*problem.Problem] {
	return totalTimeProblems(LimitedSnapshots(limits))
}

// DrawSizeLimits adds random size limits to a snapshot, from limits that exclude all jobs to limits
// that never bind, and random pieces to half of its jobs.
func DrawSizeLimits(t *rapid.T, s *solver.Snapshot) {
	s.Groups, s.SizeLimits = nil, nil
	types := s.NodeTypes
	if len(types) == 0 {
		types = []solver.NodeType{{Nodes: s.TotalNodes}}
	}
	for _, nodeType := range types {
		for _, size := range rapid.SliceOfNDistinct(rapid.IntRange(2, 9), 0, 3, rapid.ID[int]).Draw(t, "sizes of limits") {
			nodes := rapid.OneOf(rapid.IntRange(nodeType.Nodes/2, nodeType.Nodes), rapid.IntRange(0, nodeType.Nodes+2)).Draw(t, "nodes of the limit")
			s.SizeLimits = append(s.SizeLimits, solver.SizeLimit{Size: size, Nodes: nodes, NodeType: nodeType.ID})
		}
	}
	if len(s.SizeLimits) == 0 {
		s.SizeLimits = []solver.SizeLimit{{Size: 2, Nodes: types[0].Nodes / 2, NodeType: types[0].ID}}
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		if job.GroupID = ""; rapid.Bool().Draw(t, "pieces") {
			job.PieceNodes = rapid.IntRange(1, 8).Draw(t, "piece nodes")
		}
	}
	if rapid.Bool().Draw(t, "limits in another order") {
		slices.Reverse(s.SizeLimits)
	}
}
