package server

import (
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// keeper is a recorder that keeps calls in memory.
type keeper struct {
	mutex   sync.Mutex
	entries []recording.Entry
}

func (k *keeper) Record(e recording.Entry, bytes int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	// TestRecordedBytes checks how many they are.
	if least := proto.Size(e.Request) + proto.Size(e.Response); bytes < least {
		e.Method = "wrong size"
	}
	k.entries = append(k.entries, e)
}

func (k *keeper) Stats() recording.Stats {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return recording.Stats{Written: int64(len(k.entries)), Overflowed: 2, Failed: 3}
}

func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	recorder := new(keeper)
	h := start(t, func(c *Config) { c.Recorder = recorder })
	request := smallRequest()
	answer, err := h.client.Allocate(t.Context(), request)
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
	recorder.mutex.Lock()
	entries := slices.Clone(recorder.entries)
	recorder.mutex.Unlock()
	want := []struct {
		method            string
		request, response proto.Message
		code              codes.Code
	}{
		{"Allocate", request, answer, codes.OK},
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
	h.await(t, "elastalloc_recording_written_total", "3")
	h.await(t, `elastalloc_recording_dropped_total{reason="overflow"}`, "2")
	h.await(t, `elastalloc_recording_dropped_total{reason="disk"}`, "3")
}
