package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// startWithin starts a server with the real backends, at most maxInflight concurrent searches, and the
// budget maxBudget per search.
func startWithin(t *testing.T, maxInflight int, maxBudget time.Duration, change ...func(*Config)) *harness {
	t.Helper()
	return start(t, func(c *Config) {
		allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
		if err != nil {
			t.Fatal(err)
		}
		c.Allocator, c.MaxInflight, c.MaxBudget = allocator, maxInflight, maxBudget
		for _, change := range change {
			change(c)
		}
	})
}

// endless requests 100 simulations of ten years with a resolution of a second, which take much longer
// than any test.
func endless(snapshot *elastallocv1.Snapshot) *elastallocv1.ForecastRequest {
	for _, job := range snapshot.GetJobs() {
		job.RemainingEta = durationpb.New(10 * 365 * 24 * time.Hour)
	}
	return &elastallocv1.ForecastRequest{
		Snapshot: snapshot, EtaError: 0.5, Samples: 100, Cadence: durationpb.New(time.Second),
		Until:   durationpb.New(3650 * 24 * time.Hour),
		Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(time.Hour)},
	}
}

// TestAnalysisWithinBudget checks that calls with many decisions return at the maximum budget of the
// server, with partial results: estimates, decisions that were cut short, and partial simulations.
func TestAnalysisWithinBudget(t *testing.T) {
	t.Parallel()
	h := startWithin(t, 2, 50*time.Millisecond)
	long := &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(time.Hour)}
	explanation, err := h.client.Explain(t.Context(), &elastallocv1.ExplainRequest{Snapshot: queue(3000, 9000), Options: long})
	if err != nil {
		t.Fatal(err)
	}
	estimated := 0
	for _, job := range explanation.GetJobs() {
		if job.GetText() == "" || job.GetWhy() == 0 {
			t.Fatalf("%v; want a reason without an estimate", job)
		}
		for _, size := range job.GetSizes() {
			if !size.GetProven() {
				estimated++
			}
		}
	}
	if len(explanation.GetJobs()) != 3000 || estimated == 0 {
		t.Errorf("%d jobs are explained with %d estimates; want 3000 and some", len(explanation.GetJobs()), estimated)
	}

	forecast, err := h.client.Forecast(t.Context(), endless(queue(20, 40)))
	if err != nil || forecast.GetComplete() || len(forecast.GetJobs()) != 20 {
		t.Errorf("%d jobs, complete %t, %v; want 20 and an incomplete result", len(forecast.GetJobs()), forecast.GetComplete(), err)
	}

	whatIf := &elastallocv1.WhatIfRequest{Snapshot: queue(10000, 30000), Options: long}
	whatIf.Options.Admission = elastallocv1.Admission_ADMISSION_PREEMPTIVE
	for n := range 3 {
		whatIf.Scenarios = append(whatIf.Scenarios, &elastallocv1.Scenario{TotalNodes: new(int32(30001 + n))})
	}
	response, err := h.client.WhatIf(t.Context(), whatIf)
	if err != nil {
		t.Fatal(err)
	}
	for n, result := range response.GetResults() {
		report := result.GetDecision().GetReport()
		if len(result.GetDecision().GetAllocations()) != 10000 || report.GetBound() < report.GetObjective() ||
			report.GetSolveTime().AsDuration() > time.Minute {
			t.Errorf("scenario %d: %v, %v; want a decision and its bound", n, result.GetError(), report)
		}
	}
}

// TestExplainKeepsSlots checks that a call with many decisions keeps its slot, uses further slots only
// while no call waits for them, and returns a partial result after its fair share of time if another
// such call waits.
func TestExplainKeepsSlots(t *testing.T) {
	t.Parallel()
	for name, maxInflight := range map[string]int{"with decisions": 2, "with analyses": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startWithin(t, maxInflight, time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan *elastallocv1.ForecastResponse, 1)
			go func() {
				forecast, err := h.client.Forecast(ctx, endless(queue(20, 40)))
				if err != nil && maxInflight == 1 {
					t.Error(err)
				}
				result <- forecast
			}()
			h.await(t, "elastalloc_inflight_requests", "1")
			completed := 0
			wait.Until(t, "calls during the forecast", func() bool {
				var err error
				if maxInflight == 1 {
					_, err = h.client.Explain(t.Context(), &elastallocv1.ExplainRequest{
						Snapshot: smallRequest().GetSnapshot(), Options: smallRequest().GetOptions(),
					})
				} else {
					_, err = h.client.Allocate(t.Context(), smallRequest())
				}
				if err == nil {
					completed++
				} else if status.Code(err) != codes.ResourceExhausted {
					t.Fatal(err)
				}
				return completed == 5
			})
			if maxInflight == 1 {
				if forecast := <-result; forecast.GetComplete() || len(forecast.GetJobs()) != 20 || forecast.GetDecisions() == 0 {
					t.Errorf("%d jobs, complete %t; want all 20", len(forecast.GetJobs()), forecast.GetComplete())
				}
				return
			}
			select {
			case <-result:
				t.Error("the forecast has stopped; want that it returns only its extra slots")
			default:
			}
			cancel()
			<-result
		})
	}
}

// TestStatusPageReasons checks that the status page explains the last decision when a slot is idle.
func TestStatusPageReasons(t *testing.T) {
	t.Parallel()
	h := startWithin(t, 1, time.Minute)
	request := &elastallocv1.AllocateRequest{
		Snapshot: queue(5, 10), Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS},
	}
	request.Snapshot.Jobs[0].MinNodes, request.Snapshot.Jobs[0].MaxNodes = new(int32(2)), new(int32(2))
	request.Snapshot.Jobs[1].MaxNodes = new(int32(1))
	request.Snapshot.Jobs[4].MinNodes = new(int32(16))
	h.allocate(t, request)
	release := h.acquireAllSlots(t)
	_, page := h.get(t, "/")
	checkPage(t, page, "Last decision", "no slot was idle", "<bdi>job-4</bdi>", "<td>never fits</td>")
	release()
	// A canceled request does not affect the explanations of later requests.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	canceled := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", http.NoBody)
	h.admin.Handler.ServeHTTP(httptest.NewRecorder(), canceled)
	_, page = h.get(t, "/")
	checkPage(t, page, "Last decision",
		"<bdi>job-0</bdi>", "<td>only size <span", "job-0 has 2 nodes, its only size.",
		"<bdi>job-1</bdi>", "<td>only size <span", "job-1 has 1 node, its only size.",
		"<bdi>job-2</bdi>", "<td>enough <span", "job-2 has ",
		"<bdi>job-3</bdi>", "<td>enough <span", "would bring no benefit",
		"<bdi>job-4</bdi>", "<td>never fits <span", "it needs at least 16 nodes, and the pool has 10.",
	)
	if _, again := h.get(t, "/"); !strings.Contains(again, "its only size") || strings.Contains(again, "estimated") {
		t.Errorf("the page has no reasons, or has estimates:\n%s", again)
	}
	// If the request is too large to keep, the page has only the reasons for waiting.
	request.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), strings.Repeat("x", 1<<20)))
	h.allocate(t, request)
	_, page = h.get(t, "/")
	checkPage(t, page, "Last decision", "too large to keep", "<td>never fits</td>")
}

// acquireAllSlots acquires all free slots and returns a function that releases them.
func (h *harness) acquireAllSlots(t *testing.T) func() {
	t.Helper()
	var releases []func()
	for {
		_, release, ok := h.ingress.IdleSlot(t.Context(), "test", 0)
		if !ok {
			break
		}
		releases = append(releases, release)
	}
	if len(releases) == 0 {
		t.Fatal("no slot is idle")
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}
