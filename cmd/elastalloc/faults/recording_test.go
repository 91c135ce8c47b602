//go:build linux

package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	recordedSeries = "elastalloc_recording_written_total"
	lostSeries     = `elastalloc_recording_dropped_total{reason="disk"}`
)

// TestRecordingSurvivesKill kills a recording server. Every call that was written, which takes up to a second, can be
// read completely with its response.
func TestRecordingSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "recording")
	server := startServer(t, "--record="+dir)
	client := newAllocator(t, server)
	const calls = 40
	var requests []*elastallocv1.AllocateRequest
	var responses []*elastallocv1.AllocateResponse
	start := time.Now()
	for i := range calls {
		request := randomRequest(20, 40, uint64(i))
		response, err := client.Allocate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		requests, responses = append(requests, request), append(responses, response)
	}
	if _, err := client.Allocate(t.Context(), &elastallocv1.AllocateRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Fatalf("the error of a call without a snapshot is %v", err)
	}
	awaitSeries(t, func() (bool, string) {
		value, _ := metric(t, server, recordedSeries)
		return value == calls+1, fmt.Sprint(recordedSeries, " is ", value)
	})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}

	entries, cuts, err := recording.ReadAll([]string{dir})
	if err != nil || len(cuts) != 1 || len(entries) != calls+1 {
		t.Fatalf("%d calls, cuts %v, error %v; want %d calls and the cut of the kill", len(entries), cuts, err, calls+1)
	}
	for i, e := range entries[:calls] {
		if e.Method != "Allocate" || e.Caller != "127.0.0.1" || e.Time.Before(start) || e.Status != nil {
			t.Fatalf("call %d is %s by %s at %v, status %v", i, e.Method, e.Caller, e.Time, e.Status)
		}
		if !proto.Equal(e.Request, requests[i]) || !proto.Equal(e.Response, responses[i]) {
			t.Errorf("the recorded call %d differs from the call", i)
		}
	}
	last := entries[calls]
	if codes.Code(last.Status.GetCode()) != codes.InvalidArgument || !strings.Contains(last.Status.GetMessage(), "snapshot") ||
		last.Response != nil {
		t.Errorf("the rejected call was recorded as %v", last)
	}
}

func awaitSeries(t *testing.T, condition func() (bool, string)) {
	t.Helper()
	wait.For(t, "the metrics", condition)
}

// TestRecordingOnBadDisk makes the disk of a recording server unusable. Calls succeed, lost recordings are counted
// and logged once, and recording resumes when the disk is usable.
func TestRecordingOnBadDisk(t *testing.T) {
	tests := map[string]struct {
		spoil, repair func(t *testing.T, disk string)
	}{
		// If it is read-only at the start, the server does not start.
		"full": {
			spoil:  func(t *testing.T, disk string) { t.Helper(); fill(t, disk, 0) },
			repair: func(t *testing.T, disk string) { t.Helper(); remove(t, filepath.Join(disk, filler)) },
		},
	}
	request := randomRequest(20, 40, 1)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t)
			dir := filepath.Join(disk, "recording")
			server := startServer(t, "--record="+dir)
			test.spoil(t, disk)
			client := newAllocator(t, server)
			// Make calls, which must succeed, until the series has increased.
			callUntil := func(series string) {
				t.Helper()
				before, _ := metric(t, server, series)
				awaitSeries(t, func() (bool, string) {
					if _, err := client.Allocate(t.Context(), request); err != nil {
						t.Fatalf("the call failed: %v", err)
					}
					value, found := metric(t, server, series)
					return found && value > before, fmt.Sprint(series, " is ", value)
				})
			}
			saysOnce := func(message string) {
				t.Helper()
				wait.For(t, "the log", func() (bool, string) { // The line may be written after the metrics are updated.
					times := strings.Count(server.Logs(), `"msg":"`+message+`"`)
					return times == 1, fmt.Sprintf("it has %d times %q; want once:\n%s", times, message, server.Logs())
				})
			}
			callUntil(lostSeries)
			saysOnce("recordings are lost")
			test.repair(t, disk)
			callUntil(recordedSeries)
			saysOnce("recordings are written again")
			fill(t, disk, 0)
			callUntil(lostSeries)
			remove(t, filepath.Join(disk, filler))
			callUntil(recordedSeries)
			if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			entries, _, err := recording.ReadAll([]string{dir})
			if err != nil || len(entries) < 2 {
				t.Fatalf("%d calls, %v; want the calls before and after the failure", len(entries), err)
			}
			for _, e := range entries {
				if !proto.Equal(e.Request, request) {
					t.Error("a recorded call differs from the call")
				}
			}
		})
	}
}
