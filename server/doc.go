// Package server serves the decision core over gRPC: the conversion between the
// API and the core, the one place where errors become status codes, the
// interceptors, health, draining, metrics, the status page and the other admin
// endpoints.
//
// The path of a call is the span, metrics, request id, logging, recovery, draining,
// the reception of the request, the wait for its turn, Allocator, ConvertRequest, the
// chain of backends, ConvertDecision.
package server
