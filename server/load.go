package server

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Load is how busy a server is, in Allocate calls.
type Load struct {
	// Inflight are being decided, and MaxInflight the most that may be.
	Inflight, MaxInflight int
	// Queued wait for their turn, and MaxQueued the most that may.
	Queued, MaxQueued int
	// Shed were turned away since the start.
	Shed int64
}

// load returns how busy the server is now.
func (a *admission) load() Load {
	return Load{
		Inflight: len(a.turns), MaxInflight: cap(a.turns),
		Queued: int(min(a.waiting.Load(), a.maxQueue)), MaxQueued: int(a.maxQueue),
		Shed: a.turnedAway.Load(),
	}
}

// registerLoad registers the metrics of a server's load, which ask for it whenever
// they are scraped: so they and the status page cannot differ.
func registerLoad(registerer prometheus.Registerer, load func() Load) error {
	gauge := func(name, help string, value func(Load) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(load())) })
	}
	return errors.Join(
		registerer.Register(gauge("elastalloc_inflight_requests", "Allocate calls being decided now.",
			func(l Load) int { return l.Inflight })),
		registerer.Register(gauge("elastalloc_inflight_limit", "Allocate calls decided at once at most.",
			func(l Load) int { return l.MaxInflight })),
		registerer.Register(gauge("elastalloc_queued_requests", "Allocate calls that wait for their turn.",
			func(l Load) int { return l.Queued })),
		registerer.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "elastalloc_shed_total",
			Help: "Allocate calls turned away because too many were in flight and waiting.",
		}, func() float64 { return float64(load().Shed) })),
	)
}
