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
		r := fillIdleRules{solvertest.LimitedSnapshots(solvertest.Limits{Jobs: 8, Steps: 1, Sizes: 4, Nodes: 24}).Example(seed)}
		order, budgets := r.order()
		if budgets > 0 {
			exhausted++
		}
		want, lost := r.keep(order)
		if lost {
			shrunk++
		} else if r.start(want) {
			waiting++
		}
		if diff := cmp.Diff(want, greedy.FillIdle(r.Snapshot)); diff != "" {
			t.Fatalf("seed %d: FillIdle() (-want +got):\n%s\n%+v", seed, diff, r.Snapshot)
		}
	}
	t.Logf("%d snapshots with jobs that lose nodes, %d with a queue that waits, %d with a used restart budget", shrunk, waiting, exhausted)
	if min(shrunk, waiting, exhausted) < 20 {
		t.Error("want at least 20 of each")
	}
}

// fillIdleRules is a direct implementation of FillIdle for a snapshot.
type fillIdleRules struct{ *solver.Snapshot }

// order returns the order in which jobs keep their nodes: first those with a used restart budget, and their number.
func (r fillIdleRules) order() (jobs []int, budgets int) {
	var others []int
	for i := range r.Jobs {
		if r.UsedRestartBudget(i) {
			jobs = append(jobs, i)
		} else {
			others = append(others, i)
		}
	}
	return append(jobs, others...), len(jobs)
}

// keep returns the allocations of the jobs that keep their nodes, and whether a job loses its nodes.
func (r fillIdleRules) keep(order []int) (given []solver.Option, lost bool) {
	given = make([]solver.Option, len(r.Jobs))
	for _, i := range order {
		if next := with(given, i, r.Current(i)); r.fits(next) {
			given = next
		} else {
			lost = true
		}
	}
	return given, lost
}

// start adds the allocations of queued jobs up to the first that waits, and reports whether a job waits. Jobs that do
// not even fit alone are passed over.
func (r fillIdleRules) start(given []solver.Option) (waits bool) {
	for i := range r.Jobs {
		if !r.Jobs[i].Queued() {
			continue
		}
		best, possible := r.fastest(given, i)
		if possible && best.IsZero() {
			return true
		}
		given[i] = best
	}
	return false
}

// fastest returns the fastest of the largest sizes on each place that fit with the others, and whether any size fits
// alone.
func (r fillIdleRules) fastest(given []solver.Option, i int) (best solver.Option, possible bool) {
	speed := 0.0
	for _, place := range r.Places(i, nil) {
		largest := solver.Option{}
		for _, k := range place.AppendSizes(nil) {
			o := solver.NewOption(place.Type, k)
			possible = possible || r.fits(with(make([]solver.Option, len(r.Jobs)), i, o))
			if r.fits(with(given, i, o)) {
				largest = o
			}
		}
		if there := r.Speed(i, largest); there > speed {
			best, speed = largest, there
		}
	}
	return best, possible
}

// with returns the allocations so far with an option of another job.
func with(base []solver.Option, i int, o solver.Option) []solver.Option {
	next := slices.Clone(base)
	next[i] = o
	return next
}

// fits reports whether allocations fit the pool, its node types and its size limits.
func (r fillIdleRules) fits(given []solver.Option) bool {
	for g := range max(1, len(r.NodeTypes)) {
		capacity, used := r.TotalNodes, 0
		if len(r.NodeTypes) > 0 {
			capacity = r.NodeTypes[g].Nodes
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
	return !slices.ContainsFunc(r.SizeLimits, func(limit solver.SizeLimit) bool { return r.counted(given, limit) > limit.Nodes })
}

// counted returns the nodes that count toward a size limit.
func (r fillIdleRules) counted(given []solver.Option, limit solver.SizeLimit) (nodes int) {
	for i, o := range given {
		if len(r.NodeTypes) < 2 || r.NodeTypes[o.Type].ID == limit.NodeType {
			nodes += solvertest.CountedNodes(&r.Jobs[i], int(o.Nodes), limit.Size)
		}
	}
	return nodes
}
