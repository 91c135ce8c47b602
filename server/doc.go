// Package server serves the AllocatorService over gRPC, with health and reflection. Over HTTP it serves the
// status page, metrics, liveness and readiness.
//
// A call passes the tracing handler, the metrics interceptor, package internal/ingress (request id,
// observers, recovery, draining, receiving, waiting for a slot, decoding) and then its method.
package server
