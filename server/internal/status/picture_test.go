package status

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

const picturePath = "../../../docs/operators/status.png"

var browser = flag.String("browser", "", "Chromium, with which TestPicture makes the picture of the status page; empty compares it")

// TestPicture checks that the picture of the status page in the documentation shows the page as it is now: the picture
// names the checksum of the page that it was made of. `make pictures` makes it again.
func TestPicture(t *testing.T) {
	html := examplePage(t)
	sum := sha256.Sum256(html)
	mark := []byte("page\x00sha256 " + hex.EncodeToString(sum[:]))
	if *browser != "" {
		picture := takePicture(t, html, mark)
		if err := os.WriteFile(picturePath, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	picture, err := os.ReadFile(picturePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(picture, mark) {
		t.Errorf("%s does not show the status page as it is now; run: make pictures", picturePath)
	}
}

// takePicture returns a picture of a page, with a mark as a comment.
func takePicture(t *testing.T, html, mark []byte) []byte {
	t.Helper()
	page, picture := filepath.Join(t.TempDir(), "page.html"), filepath.Join(t.TempDir(), "page.png")
	if err := os.WriteFile(page, html, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), *browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--window-size=1280,1400", "--screenshot="+picture, "file://"+page)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	taken, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	// A chunk of a PNG is its length, its type, its data and the checksum of the type and the data. IEND is the last.
	text := append([]byte("tEXt"), mark...)
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(mark))), text...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(text))
	end := len(taken) - 12
	return append(taken[:end:end], append(chunk, taken[end:]...)...)
}

// examplePage returns the page of a server after six hours of decisions about a pool of 64 nodes. It is always the same.
func examplePage(t *testing.T) []byte {
	t.Helper()
	const nodes, every = 64, 4 * time.Minute
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 27, 14, 3, 20, 0, time.UTC)
	up := func() chain.BackendState { return chain.BackendState{Up: true} }
	page := newPage(t, Backend{Name: solver.BackendExact, State: up}, Backend{
		Name: solver.BackendHiGHS, State: func() chain.BackendState {
			return chain.BackendState{
				NeverUp: true, Since: now.Add(-7 * time.Hour), OpenUntil: now, Cause: `exec: "highs": executable file not found in $PATH`,
			}
		},
	}, Backend{Name: solver.BackendGreedy, State: up})
	page.config.Version, page.host, page.started = "v0.1.0", "scheduler-1", now.Add(-7*time.Hour)
	page.config.Load = func() ingress.Load { return ingress.Load{MaxInflight: 2, MaxQueue: 256, MaxMemory: 256 << 20} }

	random := rand.New(rand.NewPCG(1, 2))
	var jobs []solver.Job
	var last apiconv.Request
	for step := range 91 {
		for range random.IntN(3) {
			jobs = append(jobs, solver.Job{
				ID:           fmt.Sprintf("%s-%03d", []string{"resnet", "bert", "whisper", "llama"}[random.IntN(4)], len(jobs)+step*7),
				RemainingETA: time.Duration(1+random.ExpFloat64()*600) * time.Minute, RestartTime: 90 * time.Second,
			})
		}
		last = apiconv.Request{
			Snapshot: &solver.Snapshot{ID: fmt.Sprintf("training-%04d", step), TotalNodes: nodes, Jobs: append([]solver.Job(nil), jobs...)},
		}
		decision, err := allocator.Allocate(t.Context(), last.Snapshot, last.Options)
		if err != nil {
			t.Fatal(err)
		}
		request := apiconv.ToAllocateRequest(last)
		total := time.Duration(300+random.IntN(900)) * time.Microsecond
		event := ingress.Event{
			Method: "Allocate", Caller: "scheduler.example", Began: now.Add(time.Duration(step-90) * every).Add(-10 * time.Second), Total: total,
			HasSnapshot: true, SnapshotID: last.Snapshot.ID, Jobs: len(jobs), Nodes: nodes, Request: request,
			Outcome: ingress.Outcome{Decision: &decision, Objective: solver.ObjectiveTotalTime, Report: &decision.Report},
		}
		page.Observe(t.Context(), &event)
		if step == 40 {
			event.Err, event.Outcome = grpcstatus.Error(codes.Canceled, "the request did not arrive in time"), ingress.Outcome{}
			page.Observe(t.Context(), &event)
		}
		var left []solver.Job
		for i, a := range decision.Allocations {
			job := jobs[i]
			job.CurrentNodes = a.Nodes
			if a.Nodes > 0 {
				job.TrainingTime += every
				job.RemainingETA -= time.Duration(float64(every) * float64(a.Nodes) * 0.8)
			} else {
				job.WaitingTime += every
			}
			if job.RemainingETA > 0 {
				left = append(left, job)
			}
		}
		jobs = left
	}
	page.explain(func(_ Decided, ids []string) (Insight, bool) {
		return exampleInsight(t.Context(), t, allocator, last, ids), true
	})
	view := page.view(now)
	view.Paused, view.GoVersion = true, "go1.26"
	var html bytes.Buffer
	if err := page.page.Execute(&html, view); err != nil {
		t.Fatal(err)
	}
	return html.Bytes()
}

// exampleInsight explains the last decision as a server does.
func exampleInsight(ctx context.Context, t *testing.T, allocator *elastalloc.Allocator, r apiconv.Request, ids []string) Insight {
	t.Helper()
	r.Options.TimeBudget, r.Options.NoRemedies = time.Minute, true
	explanation, err := allocator.Explain(ctx, r.Snapshot, r.Options, ids)
	if err != nil {
		t.Fatal(err)
	}
	forecast, err := allocator.Forecast(ctx, r.Snapshot, r.Options, solver.ForecastOptions{})
	if err != nil {
		t.Fatal(err)
	}
	insight := Insight{Reasons: make(map[string]Reason), Forecast: forecast.Jobs}
	for i := range explanation.Jobs {
		job := &explanation.Jobs[i]
		insight.Reasons[job.JobID] = Reason{Nodes: job.Nodes, Why: job.Why, Text: job.Text}
	}
	return insight
}
