package recording

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the metrics of a Writer. stats is Writer.Stats.
func Register(registerer prometheus.Registerer, stats func() Stats) error {
	counter := func(name, help string, labels prometheus.Labels, value func(Stats) int64) error {
		return registerer.Register(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value(stats())) }))
	}
	dropped := func(reason string, value func(Stats) int64) error {
		return counter("elastalloc_recording_dropped_total",
			"Calls that are missing in the recording, by reason: too many waited to be written (overflow), or the disk failed (disk).",
			prometheus.Labels{"reason": reason}, value)
	}
	return errors.Join(
		counter("elastalloc_recording_written_total", "Calls written to the recording.", nil,
			func(s Stats) int64 { return s.Written }),
		dropped("overflow", func(s Stats) int64 { return s.Overflowed }),
		dropped("disk", func(s Stats) int64 { return s.Failed }),
	)
}
