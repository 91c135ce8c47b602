package elastalloc_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
)

// TestSharedPools makes all calls on random snapshots with groups, node types and size limits, all three or two of them,
// under every admission. No decision may exceed a limit, and the independent check must confirm nearly all.
func TestSharedPools(t *testing.T) {
	t.Parallel()
	allocator := newAllocator(t, elastalloc.Options{})
	snapshots := solvertest.SharedSnapshots(solvertest.Limits{Jobs: 6, Steps: 1, Sizes: 3, Nodes: 16})
	verdicts, changed := make(map[audit.Verdict]int), 0
	for seed := range testtier.Conformance.Examples(15, 500) {
		s := snapshots.Example(seed)
		for _, admission := range solver.Admissions() {
			o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}
			d, err := allocator.Allocator.Allocate(t.Context(), s, o)
			if err != nil {
				t.Fatalf("snapshot %d, %s: %v", seed, admission, err)
			}
			checkShared(t, s, &d)
			request := apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: o, IncludePlan: true})
			response := apiconv.ToAllocateResponse(s.ID, d, true)
			got := audit.Check(t.Context(), request, response, audit.Options{Work: 1e8})
			if verdicts[got.Verdict]++; got.Verdict == audit.Refuted {
				t.Errorf("snapshot %d, %s: %s", seed, admission, got.Reason)
			}
			if len(s.Jobs) > 0 && got.Verdict == audit.Confirmed { // A wrong response must not be confirmed.
				response.Allocations[seed%len(s.Jobs)].Nodes++
				if wrong := audit.Check(t.Context(), request, response, audit.Options{}); wrong.Verdict != audit.Refuted {
					t.Errorf("snapshot %d, %s: a job with one more node is %v", seed, admission, wrong)
				}
				changed++
			}
			if _, err := allocator.Explain(t.Context(), s, o, nil); err != nil {
				t.Errorf("snapshot %d, %s: explain: %v", seed, admission, err)
			}
			if _, err := allocator.WhatIf(t.Context(), s, o, []solver.Scenario{{Name: "less", PutSizeLimits: []solver.SizeLimit{}}}); err != nil {
				t.Errorf("snapshot %d, %s: what if: %v", seed, admission, err)
			}
			if seed%5 == 0 {
				if _, err := allocator.Forecast(t.Context(), s, o, solver.ForecastOptions{Cadence: time.Minute, Until: 10 * time.Minute}); err != nil {
					t.Errorf("snapshot %d, %s: forecast: %v", seed, admission, err)
				}
			}
			greedy := o
			greedy.Backend = solver.BackendGreedy
			d, err = allocator.Allocate(t.Context(), s, greedy)
			if err != nil {
				t.Fatalf("snapshot %d, %s: greedy: %v", seed, admission, err)
			}
			checkShared(t, s, &d)
		}
		filled, err := allocator.FillIdle(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		checkShared(t, s, &filled)
	}
	if t.Logf("verdicts: %v, %d changed", verdicts, changed); 20*verdicts[audit.Open] > verdicts[audit.Confirmed] {
		t.Errorf("%d decisions are open, %d are confirmed", verdicts[audit.Open], verdicts[audit.Confirmed])
	}
}

// checkShared checks the limits of a decision, and the reports of groups.
func checkShared(t *testing.T, s *solver.Snapshot, d *solver.Decision) {
	t.Helper()
	parents := make(map[string]string)
	for _, g := range s.Groups {
		parents[g.ID] = g.ParentID
	}
	byType, inGroup, onType := make(map[string]int), make(map[string]int), make(map[[2]string]int)
	for i, a := range d.Allocations {
		byType[a.NodeType] += a.Nodes
		for id := s.Jobs[i].GroupID; id != ""; id = parents[id] {
			inGroup[id] += a.Nodes
			onType[[2]string{id, a.NodeType}] += a.Nodes
		}
	}
	within := func(what string, nodes, limit int) error {
		if nodes <= limit {
			return nil
		}
		return errors.New(what + " is exceeded")
	}
	var exceeded []error
	for _, nodeType := range s.NodeTypes {
		exceeded = append(exceeded, within("type "+nodeType.ID, byType[nodeType.ID], nodeType.Nodes))
	}
	for _, limit := range s.SizeLimits {
		exceeded = append(exceeded, within("a size limit", usedNodes(s, d, limit), limit.Nodes))
	}
	for g, group := range s.Groups {
		limit := math.MaxInt
		if group.Limit != nil {
			limit = *group.Limit
		}
		exceeded = append(exceeded, within("group "+group.ID, inGroup[group.ID], limit))
		for n, limit := range group.TypeLimits {
			nodes := onType[[2]string{group.ID, limit.NodeType}]
			exceeded = append(exceeded, within("group "+group.ID+" on "+limit.NodeType, nodes, limit.Limit))
			if len(d.Report.Groups) > 0 {
				if r := d.Report.Groups[g].Types[n]; r.Nodes != nodes || r.Limit != limit.Limit || r.NodeType != limit.NodeType || !(r.Price >= 0) {
					t.Errorf("group %q occupies %d nodes of %q: %+v", group.ID, nodes, limit.NodeType, r)
				}
			}
		}
	}
	if err := errors.Join(exceeded...); err != nil {
		t.Errorf("%v: %+v", err, d.Allocations)
	}
}
