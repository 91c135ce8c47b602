package server

import (
	"context"

	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// Recorder keeps calls, as *recording.Writer does.
type Recorder interface {
	// Record takes a call without waiting for anything. The messages of the entry do not
	// change any more.
	Record(e recording.Entry, requestBytes int)
	// Stats says what became of the calls so far.
	Stats() recording.Stats
}

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
	o.recorder.Record(entry, e.RequestBytes)
}
