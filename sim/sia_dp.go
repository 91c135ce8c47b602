package sim

import (
	"context"
	"math"

	"github.com/elastalloc/elastalloc/solver"
)

func bestOptions(_ context.Context, s *solver.Snapshot, options [][]siaOption) ([]holding, Decision, error) {
	types := s.NodeTypes
	states, stride := 1, make(map[string]int)
	for i := range types {
		stride[types[i].ID] = states
		states *= types[i].Nodes + 1
	}
	free := func(state int, t *solver.NodeType) int { return state / stride[t.ID] % (t.Nodes + 1) }
	const none = math.MinInt64 / 4
	best := make([]int64, states)
	for n := range best {
		best[n] = none
	}
	best[states-1] = 0 // state: the free nodes
	chosen := make([][]int8, len(options))
	for i := range options {
		next := make([]int64, states)
		chosen[i] = make([]int8, states)
		for n := range next {
			next[n] = none
		}
		for k, o := range options[i] {
			worth := int64(math.Round(o.worth*100)) * 1_000_000
			if (o.holding != holding{s.Jobs[i].CurrentNodes, s.Jobs[i].CurrentNodeType}) {
				worth -= 10_000
			}
			worth -= int64(o.nodes)
			shift := o.nodes * stride[o.nodeType]
			var t *solver.NodeType
			for n := range types {
				if types[n].ID == o.nodeType {
					t = &types[n]
				}
			}
			for state := range best {
				if best[state] == none || t != nil && free(state, t) < o.nodes {
					continue
				}
				if v := best[state] + worth; v > next[state-shift] {
					next[state-shift], chosen[i][state-shift] = v, int8(k)
				}
			}
		}
		best = next
	}
	at := 0
	for state := range best {
		if best[state] > best[at] {
			at = state
		}
	}
	holdings := make([]holding, len(options))
	for i := len(options) - 1; i >= 0; i-- {
		o := options[i][chosen[i][at]]
		holdings[i] = o.holding
		at += o.nodes * stride[o.nodeType]
	}
	return holdings, Decision{Reason: solver.ReasonOptimal}, nil
}
