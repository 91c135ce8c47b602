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

// Recorder keeps calls, as *recording.Writer does.
type Recorder interface {
	// Record takes a call without waiting for anything. The messages of the entry do not
	// change any more, and take that many bytes in memory.
	Record(e recording.Entry, bytes int)
	// Stats says what became of the calls so far.
	Stats() recording.Stats
}

// What an answer takes in memory: each allocation, and what else a decision or a question has by its
// size on the wire. A size that is explained takes 6 bytes there and 96 here.
const (
	allocationBytes  = 200
	decisionsPerByte = 6
	questionsPerByte = 16
)

// recordObserver hands every call to a recorder.
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

// recordedBytes returns what the messages of a call take in memory, at most.
func recordedBytes(e *ingress.Event) int {
	bytes := e.RequestBytes + e.Size.Bytes
	if e.Response != nil {
		perByte := decisionsPerByte
		switch e.Response.(type) {
		case *elastallocv1.ExplainResponse, *elastallocv1.ForecastResponse:
			perByte = questionsPerByte
		}
		bytes += perByte*proto.Size(e.Response) + guard.Decided(e.Size)*allocationBytes
	}
	return bytes
}
