package server

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// newRecorder returns a recorder, and a function that closes it and returns the recorded calls.
func newRecorder(t *testing.T) (*recording.Writer, func() []recording.Entry) {
	t.Helper()
	dir := t.TempDir()
	writer, err := recording.New(recording.Config{Dir: dir, MaxBytes: recording.MinMaxBytes, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { _ = writer.Close(context.Background()) })
	t.Cleanup(end)
	return writer, func() []recording.Entry {
		end()
		entries, _, err := recording.ReadAll([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
}

func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	recorder, kept := newRecorder(t)
	h := start(t, func(c *Config) { c.Recorder = recorder })
	request := smallRequest()
	response, err := h.client.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	bad := smallRequest()
	bad.Snapshot.Jobs[0].Id = ""
	if _, err := h.client.Allocate(t.Context(), bad); err == nil {
		t.Fatal("a job without an id is accepted")
	}
	fill := &elastallocv1.FillIdleRequest{Snapshot: request.Snapshot}
	filled, err := h.client.FillIdle(t.Context(), fill)
	if err != nil {
		t.Fatal(err)
	}
	h.await(t, "elastalloc_recording_written_total", "3")
	entries := kept()
	want := []struct {
		method            string
		request, response proto.Message
		code              codes.Code
	}{
		{"Allocate", request, response, codes.OK},
		{"Allocate", bad, nil, codes.InvalidArgument},
		{"FillIdle", fill, filled, codes.OK},
	}
	if len(entries) != len(want) {
		t.Fatalf("%d calls are recorded; want %d", len(entries), len(want))
	}
	for i, w := range want {
		e := entries[i]
		if e.Method != w.method || e.Caller == "" || e.RequestID == "" || e.Time.IsZero() || codes.Code(e.Status.GetCode()) != w.code {
			t.Errorf("call %d is recorded as %s by %q at %v with %v; want %s with %v", i, e.Method, e.Caller, e.Time, e.Status, w.method, w.code)
		}
		if !proto.Equal(e.Request, w.request) || w.response == nil != (e.Response == nil) ||
			w.response != nil && !proto.Equal(e.Response, w.response) {
			t.Errorf("call %d has other messages: %v, %v", i, e.Request, e.Response)
		}
	}
}
