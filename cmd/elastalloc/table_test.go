package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

func TestDescribeProgress(t *testing.T) {
	for _, test := range []struct {
		progress []float64
		want     string
	}{
		{nil, ""},
		{[]float64{0, 0}, "··   0.0%"},
		{[]float64{1e-6, 0.2, 0.5, 0.9, 0.9999}, "▁▂▄▇▇  99.9%"},
		{[]float64{math.Nextafter(1, 0), 1}, "▇█ 100.0%"},
	} {
		if got := describeProgress(test.progress, true); got != test.want {
			t.Errorf("describeProgress(%v) = %q; want %q", test.progress, got, test.want)
		}
	}
}

// TestTableOfUnusualIDs checks that control characters of ids are escaped and that wide letters do not shift columns.
func TestTableOfUnusualIDs(t *testing.T) {
	request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Jobs: []*elastallocv1.Job{
		{Id: "évil\x1b[2J", RemainingEta: durationpb.New(time.Second)}, {Id: "zürich", CurrentNodes: 16},
	}}, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}}
	response := &elastallocv1.AllocateResponse{
		Allocations: []*elastallocv1.Allocation{
			{JobId: "évil\x1b[2J", Nodes: 1, Change: elastallocv1.Change_CHANGE_START},
			{JobId: "zürich", Change: elastallocv1.Change_CHANGE_PREEMPT},
		},
		Report: &elastallocv1.SolveReport{Backend: 99},
	}
	d, err := newDecisionView(request, response)
	if err != nil {
		t.Fatal(err)
	}
	text := d.text(cli.Screen{})
	const want = "" +
		"JOB          NODES    CHANGE   ENDS IN  AFTER 25m\n" +
		"évil\\x1b[2J   0 → 1   start    – → 1s\n" +
		"zürich       16 → 0   preempt  –\n"
	if !strings.HasPrefix(text, want) {
		t.Errorf("table is\n%s\nwant it to begin with\n%s", text, want)
	}
	if !strings.Contains(text, "decided by     99 in 0s") {
		t.Errorf("the number of an unknown backend is missing:\n%s", text)
	}

	response.Allocations = response.Allocations[:1]
	if _, err := newDecisionView(request, response); err == nil {
		t.Error("a response without a job is accepted")
	}
}

// TestTablesOfObjective checks that the tables have the unit of the objective, and progress if it covers
// several steps.
func TestTablesOfObjective(t *testing.T) {
	t.Parallel()
	added := solver.ObjectiveSpec{Unit: solver.Unit{Name: "roots of nodes"}}
	oneStep := added
	oneStep.OneStep = true
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 1, Jobs: []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(time.Hour)}}},
	}
	response := &elastallocv1.AllocateResponse{
		Allocations: []*elastallocv1.Allocation{{JobId: "a", Nodes: 1, Change: elastallocv1.Change_CHANGE_START}},
		Report:      &elastallocv1.SolveReport{Objective: 1.5},
	}
	d, err := newDecisionView(request, response)
	if err != nil {
		t.Fatal(err)
	}
	for _, objective := range []solver.ObjectiveSpec{added, oneStep} {
		text := reportTable(request, response, objective, d.outlook, cli.Screen{}).String()
		if !strings.Contains(text, "1.500000 roots of nodes\n") {
			t.Errorf("the unit is missing:\n%s", text)
		}
		text = jobTable(d, objective, cli.Screen{}).String()
		if looksAhead := !objective.OneStep; strings.Contains(text, "AFTER 25m") != looksAhead {
			t.Errorf("looks ahead %t:\n%s", looksAhead, text)
		}
	}
	explained := &elastallocv1.JobExplanation{JobId: "a", Sizes: []*elastallocv1.SizeOption{{Nodes: 1}}}
	if text := explanationText(explained, "", added.Unit.Name, cli.Screen{}); !strings.Contains(text, "COST  roots of nodes") {
		t.Errorf("the unit is missing:\n%s", text)
	}
}
