package external

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// snapshot returns a pool of 8 nodes with a running and a queued job.
func snapshot() *solver.Snapshot {
	return &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{
		{ID: "runs", MinNodes: 1, MaxNodes: 8, CurrentNodes: 4, RemainingETA: time.Hour},
		{ID: "queued", MinNodes: 2, MaxNodes: 4, RemainingETA: time.Hour},
	}}
}

// TestCallerDecides checks the request that a Caller receives, and the decision that follows from its response.
func TestCallerDecides(t *testing.T) {
	t.Parallel()
	ended := false
	policy := Policy("own", "a policy", func() (Caller, func() error, error) {
		return func(_ context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
			want := [][]int32{{1, 2, 4, 8}, {2, 4}}
			for i, job := range request.GetSnapshot().GetJobs() {
				if diff := cmp.Diff(want[i], job.GetAllowedNodes()); diff != "" {
					t.Errorf("legal sizes of %s: %s", job.GetId(), diff)
				}
			}
			if got := request.GetSnapshot().GetTotalNodes(); got != 8 {
				t.Errorf("the pool has %d nodes", got)
			}
			return &elastallocv1.AllocateResponse{Allocations: []*elastallocv1.Allocation{{JobId: "queued", Nodes: 2}}}, nil
		}, func() error { ended = true; return nil }, nil
	})
	if policy.Name != "own" || policy.Description != "a policy" || !policy.EveryEvent || policy.Optimizes() {
		t.Errorf("the policy is %+v", policy)
	}
	allocator, end, err := policy.Open()
	if err != nil {
		t.Fatal(err)
	}
	decision, err := allocator.Allocate(t.Context(), snapshot(), policy.Options)
	if err != nil {
		t.Fatal(err)
	}
	want := []solver.Allocation{{JobID: "runs", Current: 4, Nodes: 0}, {JobID: "queued", Current: 0, Nodes: 2}}
	if diff := cmp.Diff(want, decision.Allocations); diff != "" {
		t.Error(diff)
	}
	if decision.Report.Reason != solver.ReasonHeuristic {
		t.Errorf("the reason is %v", decision.Report.Reason)
	}
	if _, err := allocator.FillIdle(t.Context(), snapshot()); err == nil {
		t.Error("FillIdle succeeds")
	}
	if err := end(); err != nil || !ended {
		t.Errorf("the end of the run: %v, %v", err, ended)
	}
}

// TestBadResponses checks that responses that are no decision on the request are refused, and that errors of a Caller
// are returned.
func TestBadResponses(t *testing.T) {
	t.Parallel()
	failure := errors.New("no decision today")
	for want, call := range map[string]Caller{
		`the response has the job "other", which is not in the request`: responds(&elastallocv1.Allocation{JobId: "other", Nodes: 1}),
		`the response has the job "runs" twice`: responds(&elastallocv1.Allocation{JobId: "runs"},
			&elastallocv1.Allocation{JobId: "runs"}),
		`the response gives job "runs" -3 nodes; must be at least 0`: responds(&elastallocv1.Allocation{JobId: "runs", Nodes: -3}),
		failure.Error(): func(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
			return nil, failure
		},
	} {
		if _, err := allocator(call).Allocate(t.Context(), snapshot(), solver.Options{}); err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// responds returns a Caller with a response.
func responds(allocations ...*elastallocv1.Allocation) Caller {
	return func(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
		return &elastallocv1.AllocateResponse{Allocations: allocations}, nil
	}
}

// TestProgram checks that one process makes all decisions of a run, that it may have a state, and that its failure at the
// end of the run is returned.
func TestProgram(t *testing.T) {
	t.Parallel()
	text, err := protojson.Marshal(&elastallocv1.AllocateResponse{Allocations: []*elastallocv1.Allocation{{JobId: "runs", Nodes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[string]string{"0": "", "7": "the program failed: exit status 7"} {
		file := filepath.Join(t.TempDir(), "policy.sh")
		// The n-th response gives the job n nodes.
		script := "n=0\nwhile read line; do n=$((n + 1)); echo '" + string(text) +
			"' | sed \"s/\\\"nodes\\\": *1/\\\"nodes\\\": $n/\"; done\necho done >&2\nexit " + status + "\n"
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		policy, err := Command("sh "+file, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		allocator, end, err := policy.Open()
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 3; n++ {
			decision, err := allocator.Allocate(t.Context(), snapshot(), policy.Options)
			if err != nil || decision.Allocations[0].Nodes != n {
				t.Errorf("decision %d is %v, %v", n, decision.Allocations, err)
			}
		}
		got := ""
		if err := end(); err != nil {
			got = err.Error()
		}
		if got != want || stderr.String() != "done\n" {
			t.Errorf("the end of the run is %q; want %q. Standard error is %q", got, want, stderr.String())
		}
	}
}

// TestCanceledProgram checks that a program that does not respond is stopped with the context.
func TestCanceledProgram(t *testing.T) {
	t.Parallel()
	policy, err := Command("sleep 1000000", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	allocator, end, err := policy.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = allocator.Allocate(ctx, snapshot(), policy.Options)
	if err == nil || !strings.Contains(err.Error(), "the program wrote no response") {
		t.Errorf("got %v", err)
	}
	if err := end(); err != nil {
		t.Errorf("the end of the run: %v", err)
	}
}

// TestCommandErrors checks that a policy without a program is refused before the run.
func TestCommandErrors(t *testing.T) {
	t.Parallel()
	if _, err := Command("  ", os.Stderr); err == nil || err.Error() != "command: has no program; must be command:PROGRAM" {
		t.Errorf("got %v", err)
	}
	if _, err := Command("no-such-program-at-all x", os.Stderr); err == nil {
		t.Error("a missing program is accepted")
	}
}
