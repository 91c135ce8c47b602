package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
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
		Time: e.Began, Method: e.Method, Caller: e.Caller, Request: e.Request, Response: e.Response,
	}
	if e.Err != nil {
		entry.Status = status.Convert(e.Err).Proto()
	}
	o.recorder.Record(entry, e.RequestBytes)
}

// registerRecorder registers the metrics of a recorder.
func registerRecorder(registerer prometheus.Registerer, r Recorder) error {
	counter := func(options prometheus.CounterOpts, value func(recording.Stats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(options, func() float64 { return float64(value(r.Stats())) })
	}
	dropped := func(reason string) prometheus.CounterOpts {
		return prometheus.CounterOpts{
			Name:        "elastalloc_recording_dropped_total",
			Help:        "Calls that are missing in the recording, by reason: too many waited to be written (overflow), or the disk failed (disk).",
			ConstLabels: prometheus.Labels{"reason": reason},
		}
	}
	return register(registerer,
		counter(prometheus.CounterOpts{
			Name: "elastalloc_recording_written_total", Help: "Calls written to the recording.",
		}, func(s recording.Stats) int64 { return s.Written }),
		counter(dropped("overflow"), func(s recording.Stats) int64 { return s.Overflowed }),
		counter(dropped("disk"), func(s recording.Stats) int64 { return s.Failed }),
	)
}
