// Package server serves the AllocatorService over gRPC, with health and reflection, and
// over HTTP the status page, metrics, liveness and readiness.
//
// A call passes the span, the metrics, internal/ingress (request id, observers, recovery,
// draining, receiving, its turn, decoding), and then the method.
package server
