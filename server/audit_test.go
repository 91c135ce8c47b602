package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestAudits checks that responses are audited with their plans, even if the request does not request plans.
// Each verdict is counted. A response that is refuted, or on which the audit panics, is logged and kept.
func TestAudits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bugs")
	h := start(t, func(c *Config) {
		c.AuditShare, c.DefectDir = 1, dir
		c.Audit = func(_ context.Context, request *elastallocv1.AllocateRequest,
			audited *elastallocv1.AllocateResponse) (verdict, reason string) {
			if len(audited.GetAllocations()[0].GetPlannedNodes()) == 0 {
				t.Error("a response is audited without its plan")
			}
			if request.GetSnapshot().GetId() == "panic" {
				panic("an index is out of range")
			}
			return request.GetSnapshot().GetId(), "a better plan"
		}
	})
	for _, verdict := range []string{AuditConfirmed, AuditOpen, AuditRefuted} {
		request := smallRequest()
		request.Snapshot.Id, request.Options = verdict, nil
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "id-of-"+verdict)
		response, err := h.client.Allocate(ctx, request)
		if err != nil || len(response.GetAllocations()[0].GetPlannedNodes()) > 0 {
			t.Fatalf("%v; want a response without the plan, which was not requested: %v", err, response)
		}
		h.await(t, fmt.Sprintf("elastalloc_audits_total{verdict=%q}", verdict), "1")
	}
	failing := smallRequest()
	failing.Snapshot.Id = "panic"
	if _, err := h.client.Allocate(metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "id-of-panic"), failing); err != nil {
		t.Fatal(err)
	}
	h.await(t, `elastalloc_audits_total{verdict="open"}`, "2")
	wait.Until(t, "the check that failed is logged", func() bool {
		return h.logs.Line(`"level":"ERROR"`, "audit panicked", `"request_id":"id-of-panic"`, "out of range") != ""
	})
	wait.Until(t, "the refuted response is logged and kept", func() bool {
		return h.logs.Line(`"level":"ERROR"`, "refuted", `"request_id":"id-of-refuted"`, "a better plan") != "" &&
			h.logs.Line("shows a bug kept", `"request_id":"id-of-refuted"`) != ""
	})
	files, err := filepath.Glob(filepath.Join(dir, "*-refuted*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %q, %v; want a request and its response", files, err)
	}
	want := smallRequest()
	want.Snapshot.Id, want.Options = AuditRefuted, nil
	for i, m := range []proto.Message{new(elastallocv1.AllocateResponse), new(elastallocv1.AllocateRequest)} {
		text, err := os.ReadFile(files[i])
		if err == nil {
			err = protojson.Unmarshal(text, m)
		}
		if _, isRequest := m.(*elastallocv1.AllocateRequest); err != nil || isRequest && !proto.Equal(m, want) {
			t.Errorf("%s: %v, %v", files[i], err, m)
		}
	}
}

// TestAuditsOfSearch audits results of the embedded search with the check that the serve command uses.
func TestAuditsOfSearch(t *testing.T) {
	t.Parallel()
	h := startWithin(t, 1, time.Minute, func(c *Config) {
		c.AuditShare = 1
		c.Audit = func(ctx context.Context, request *elastallocv1.AllocateRequest,
			audited *elastallocv1.AllocateResponse) (verdict, reason string) {
			report := audit.Check(ctx, request, audited, audit.Options{})
			return strings.ToLower(string(report.Verdict)), report.Reason
		}
	})
	for i, objective := range []elastallocv1.Objective{
		elastallocv1.Objective_OBJECTIVE_PROGRESS, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
	} {
		request := smallRequest()
		request.Options = &elastallocv1.AllocateOptions{Objective: objective}
		response, err := h.client.Allocate(t.Context(), request)
		if err != nil || response.GetReport().GetCertificate() != nil {
			t.Fatalf("%v, certificate %v; want a response without one", err, response.GetReport().GetCertificate())
		}
		h.await(t, `elastalloc_audits_total{verdict="confirmed"}`, fmt.Sprint(i+1))
	}
}

// TestAuditsLeaveSlotsToCalls checks that an audit starts only if a slot is idle, stops as soon as a call
// needs the slot, and is completed later.
func TestAuditsLeaveSlotsToCalls(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}, 100), make(chan struct{})
	h := start(t, func(c *Config) {
		c.MaxInflight, c.AuditShare = 1, 1
		c.Audit = func(ctx context.Context, _ *elastallocv1.AllocateRequest, _ *elastallocv1.AllocateResponse) (verdict, reason string) {
			started <- struct{}{}
			select {
			case <-ctx.Done():
				return AuditOpen, "hurried"
			case <-finish:
				return AuditConfirmed, ""
			}
		}
	})
	for range 3 {
		response, err := h.client.Allocate(t.Context(), smallRequest())
		if err != nil || len(response.GetReport().GetWarnings()) > 0 {
			t.Fatalf("%v, warnings %v; must be a decision with a search", err, response.GetReport().GetWarnings())
		}
		<-started
	}
	close(finish)
	h.await(t, `elastalloc_audits_total{verdict="confirmed"}`, "3")
	if open, _ := h.series(t, `elastalloc_audits_total{verdict="open"}`); open != "0" {
		t.Errorf("%s interrupted audits are counted as open", open)
	}
}

// TestAuditsAreBounded checks that responses without an idle slot are counted, not kept.
func TestAuditsAreBounded(t *testing.T) {
	t.Parallel()
	a := &auditor{audits: counters(prometheus.NewRegistry(), "audits", "", "verdict"), waiting: make(chan pendingAudit, maxAudits)}
	event := &ingress.Event{Outcome: ingress.Outcome{Audit: true}, Request: smallRequest()}
	event.Size.Bytes = maxAuditBytes / 4
	for range 10 {
		a.Observe(t.Context(), event)
	}
	if len(a.waiting) != 4 || a.bytes.Load() != maxAuditBytes {
		t.Errorf("%d responses of %d bytes in total wait; want 4", len(a.waiting), a.bytes.Load())
	}
}

// TestContradictions checks that a call whose proof contradicts itself is counted, logged and kept, and that
// the number of kept files is limited.
func TestContradictions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, func(c *Config) {
		c.DefectDir = dir
		c.Allocator = fakeAllocator(func(ctx context.Context, p *problem.Problem) (problem.Result, error) {
			result, err := smallest(ctx, p)
			if p.Capacity[0] == 8 {
				result.Contradiction = "bound 1 below 2"
			}
			return result, err
		})
	})
	h.bugs.logger = slog.New(slog.NewJSONHandler(h.logs, nil)) // Each call is logged, because the rate is not limited,
	h.bugs.writes = make(chan struct{}, 2*maxReportFiles)      // and each is kept on a slow disk, because the queue is long.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "id-7")
	for range maxReportFiles + 20 {
		if _, err := h.client.Allocate(ctx, smallRequest()); err != nil {
			t.Fatal(err)
		}
	}
	good := smallRequest()
	good.Snapshot.TotalNodes = 9
	for _, ask := range []func() error{
		func() error { _, err := h.client.Allocate(ctx, good); return err },
		func() error {
			_, err := h.client.Explain(ctx, &elastallocv1.ExplainRequest{
				Snapshot: smallRequest().GetSnapshot(), Options: smallRequest().GetOptions(),
			})
			return err
		},
		func() error { _, err := h.client.WhatIf(ctx, searchRequest()); return err },
		func() error {
			_, err := h.client.Forecast(ctx, &elastallocv1.ForecastRequest{
				Snapshot: smallRequest().GetSnapshot(), Options: smallRequest().GetOptions(),
			})
			return err
		},
	} {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	h.await(t, "elastalloc_proof_contradictions_total", fmt.Sprint(maxReportFiles+23))
	h.bugs.writing.Wait()
	if h.logs.Line(`"level":"ERROR"`, "contradicts", `"request_id":"id-7"`, "bound 1 below 2") == "" {
		t.Errorf("the log has no line about it:\n%s", h.logs)
	}
	if h.logs.Line("not kept", fmt.Sprintf("has %d files", maxReportFiles)) == "" {
		t.Errorf("the log has no line about the full folder:\n%s", h.logs)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != maxReportFiles {
		t.Errorf("%d files, %v; want %d", len(entries), err, maxReportFiles)
	}
	text, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
	kept := new(elastallocv1.AllocateRequest)
	if err == nil {
		err = protojson.Unmarshal(text, kept)
	}
	if err != nil || !proto.Equal(kept, smallRequest()) {
		t.Errorf("%v is kept: %v", kept, err)
	}
	again, err := newBugReports(dir, h.bugs.logger, prometheus.NewRegistry())
	if err != nil || again.files != maxReportFiles {
		t.Errorf("after a restart %d files are counted: %v", again.files, err)
	}
}

// TestReportsOnSlowDisk checks that only a limited number of requests wait for a disk that hangs.
func TestReportsOnSlowDisk(t *testing.T) {
	t.Parallel()
	logs, dir := &syncbuffer.Buffer{}, t.TempDir()
	d, err := newBugReports(dir, slog.New(slog.NewJSONHandler(logs, nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d.mutex.Lock() // The disk hangs.
	for range 10 * maxReportWrites {
		d.keep("contradiction", "id-8", 1, smallRequest(), nil)
	}
	if logs.Line("not kept", "wait to be written") == "" {
		t.Errorf("the log has no line about it:\n%s", logs)
	}
	d.mutex.Unlock()
	d.writing.Wait()
	if d.files != maxReportWrites {
		t.Errorf("%d requests are kept; want %d", d.files, maxReportWrites)
	}
}
