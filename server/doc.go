// Package server serves the AllocatorService over gRPC, with health and reflection, and
// over HTTP the status page, metrics, liveness and readiness.
//
// A call passes the span, the metrics, then internal/ingress (request id, observers,
// recovery, draining, receiving, its turn, decoding), and then the method: from the API to
// the core, the allocator, and back. Observers are the metrics of decisions, the status
// page, the span and the log.
package server
