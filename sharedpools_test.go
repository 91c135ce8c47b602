package elastalloc_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// sharedCase is a random snapshot with the options of a call.
type sharedCase struct {
	seed     int
	snapshot *solver.Snapshot
	options  solver.Options
}

func (c *sharedCase) String() string {
	return fmt.Sprintf("snapshot %d, %s", c.seed, c.options.Admission)
}

// messages returns the request and the response of a decision.
func (c *sharedCase) messages(d solver.Decision) (*elastallocv1.AllocateRequest, *elastallocv1.AllocateResponse) {
	return apiconv.ToAllocateRequest(apiconv.Request{Snapshot: c.snapshot, Options: c.options, IncludePlan: true}),
		apiconv.ToAllocateResponse(c.snapshot.ID, d, true)
}

// checkVerdict checks that the independent check does not refute a decision, and returns its verdict.
func (c *sharedCase) checkVerdict(t *testing.T, d solver.Decision) audit.Verdict {
	t.Helper()
	request, response := c.messages(d)
	got := audit.Check(t.Context(), request, response, audit.Options{Work: 1e8})
	if got.Verdict == audit.Refuted {
		t.Errorf("%v: %s", c, got.Reason)
	}
	return got.Verdict
}

// checkChanged checks that the independent check refutes a decision with one more node for one of the jobs.
func (c *sharedCase) checkChanged(t *testing.T, d solver.Decision) {
	t.Helper()
	request, response := c.messages(d)
	response.Allocations[c.seed%len(c.snapshot.Jobs)].Nodes++
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Refuted {
		t.Errorf("%v: a job with one more node is %v", c, got)
	}
}

// checkOtherCalls checks that explanations, scenarios and, for every fifth snapshot, a forecast return no error.
func (c *sharedCase) checkOtherCalls(t *testing.T, allocator auditedAllocator) {
	t.Helper()
	if _, err := allocator.Explain(t.Context(), c.snapshot, c.options, nil); err != nil {
		t.Errorf("%v: explain: %v", c, err)
	}
	less := []solver.Scenario{{Name: "less", PutSizeLimits: []solver.SizeLimit{}}}
	if _, err := allocator.WhatIf(t.Context(), c.snapshot, c.options, less); err != nil {
		t.Errorf("%v: what if: %v", c, err)
	}
	if c.seed%5 != 0 {
		return
	}
	next := solver.ForecastOptions{Cadence: time.Minute, Until: 10 * time.Minute}
	if _, err := allocator.Forecast(t.Context(), c.snapshot, c.options, next); err != nil {
		t.Errorf("%v: forecast: %v", c, err)
	}
}

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
			c := sharedCase{seed, s, o}
			verdict := c.checkVerdict(t, d)
			if verdicts[verdict]++; len(s.Jobs) > 0 && verdict == audit.Confirmed {
				c.checkChanged(t, d)
				changed++
			}
			c.checkOtherCalls(t, allocator)
			o.Backend = solver.BackendGreedy
			d, err = allocator.Allocate(t.Context(), s, o)
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
