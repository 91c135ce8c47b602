package greedy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// TestFillIdleSizeLimits compares FillIdle with a direct implementation of its rules, in which the sum over all
// jobs so far never exceeds the pool, a node type or a size limit.
func TestFillIdleSizeLimits(t *testing.T) {
	shrunk, waiting, exhausted := 0, 0, 0
	for seed := range 1000 {
		s := solvertest.LimitedSnapshots(solvertest.Limits{Jobs: 8, Steps: 1, Sizes: 4, Nodes: 24}).Example(seed)
		given := make([]solver.Option, len(s.Jobs))
		fits := func(given []solver.Option) bool {
			for g := range max(1, len(s.NodeTypes)) {
				capacity, used := s.TotalNodes, 0
				if len(s.NodeTypes) > 0 {
					capacity = s.NodeTypes[g].Nodes
				}
				for _, o := range given {
					if int(o.Type) == g {
						used += int(o.Nodes)
					}
				}
				if used > capacity {
					return false
				}
			}
			for _, limit := range s.SizeLimits {
				used := 0
				for i, o := range given {
					if len(s.NodeTypes) < 2 || s.NodeTypes[o.Type].ID == limit.NodeType {
						used += solvertest.CountedNodes(&s.Jobs[i], int(o.Nodes), limit.Size)
					}
				}
				if used > limit.Nodes {
					return false
				}
			}
			return true
		}
		// with returns the allocations so far with an option of another job.
		with := func(base []solver.Option, i int, o solver.Option) []solver.Option {
			next := slices.Clone(base)
			next[i] = o
			return next
		}
		lost := false
		var order, others []int
		for i := range s.Jobs {
			if s.UsedRestartBudget(i) {
				order = append(order, i)
			} else {
				others = append(others, i)
			}
		}
		if len(order) > 0 {
			exhausted++
		}
		for _, i := range append(order, others...) {
			if next := with(given, i, s.Current(i)); fits(next) {
				given = next
			} else {
				lost = true
			}
		}
		for i := range s.Jobs {
			if lost || !s.Jobs[i].Queued() {
				continue
			}
			best, speed, possible := solver.Option{}, 0.0, false
			for _, l := range s.Places(i, nil) {
				largest := solver.Option{}
				for _, k := range l.AppendSizes(nil) {
					o := solver.NewOption(l.Type, k)
					possible = possible || fits(with(make([]solver.Option, len(s.Jobs)), i, o))
					if fits(with(given, i, o)) {
						largest = o
					}
				}
				if there := s.Speed(i, largest); there > speed {
					best, speed = largest, there
				}
			}
			if possible && best.IsZero() {
				waiting++
				break
			}
			given[i] = best
		}
		if lost {
			shrunk++
		}
		if diff := cmp.Diff(given, greedy.FillIdle(s)); diff != "" {
			t.Fatalf("seed %d: FillIdle() (-want +got):\n%s\n%+v", seed, diff, s)
		}
	}
	t.Logf("%d snapshots with jobs that lose nodes, %d with a queue that waits, %d with a used restart budget", shrunk, waiting, exhausted)
	if min(shrunk, waiting, exhausted) < 20 {
		t.Error("want at least 20 of each")
	}
}
