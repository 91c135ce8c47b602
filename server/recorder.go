package server

import (
	"context"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// Recorder records calls. *recording.Writer implements it.
type Recorder interface {
	// Record records a call without blocking. The messages of the entry are not modified any more, and
	// use the given number of bytes of memory.
	Record(e recording.Entry, bytes int)
	// Stats returns the numbers of calls so far.
	Stats() recording.Stats
}

// The memory of a response, in bytes: per allocation, and per encoded byte of other parts. For example, an
// explained size has 6 encoded bytes and needs 96 bytes of memory.
const (
	allocationBytes      = 200
	decisionBytesPerByte = 6
	analysisBytesPerByte = 16
)

// recordObserver passes every call to a recorder.
type recordObserver struct{ recorder Recorder }

// Observe records a call.
func (o recordObserver) Observe(_ context.Context, e *ingress.Event) {
	entry := recording.Entry{
		Time: e.Began, Method: e.Method, Caller: e.Caller, RequestID: e.RequestID, Request: e.Request, Response: e.Response,
	}
	if e.Err != nil {
		entry.Status = status.Convert(e.Err).Proto()
	}
	o.recorder.Record(entry, recordedBytes(e))
}

// recordedBytes returns the maximum memory of the messages of a call, in bytes.
func recordedBytes(e *ingress.Event) int {
	bytes := e.RequestBytes + e.Size.Bytes
	if e.Response != nil {
		perByte := decisionBytesPerByte
		switch e.Response.(type) {
		case *elastallocv1.ExplainResponse, *elastallocv1.ForecastResponse:
			perByte = analysisBytesPerByte
		}
		bytes += perByte*proto.Size(e.Response) + guard.DecidedJobs(e.Size)*allocationBytes
	}
	return bytes
}
