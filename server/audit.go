package server

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// Audit checks an answer independently of what made it: whether no legal plan is better. It
// returns one of the verdicts, and why. Where ctx ends it is open.
type Audit func(ctx context.Context, request *elastallocv1.AllocateRequest, answer *elastallocv1.AllocateResponse) (verdict, reason string)

// The verdicts of an Audit.
const (
	AuditConfirmed = "confirmed"
	AuditRefuted   = "refuted"
	AuditOpen      = "open"
)

const (
	// auditSkipped counts answers for which there was no idle turn in time, as a verdict.
	auditSkipped = "skipped"

	// maxAudits and maxAuditBytes bound the answers that wait to be audited.
	maxAudits     = 64
	maxAuditBytes = 16 << 20

	// auditPatience is how long an answer waits for an idle turn, auditRetry how often it asks.
	auditPatience = time.Minute
	auditRetry    = 50 * time.Millisecond
)

// auditor audits a share of the answers of Allocate after they have been sent, one at a time,
// in turns that no call wants. It is an observer of calls.
type auditor struct {
	check   Audit
	share   float64
	budget  time.Duration // of one audit
	lend    func(ctx context.Context, worker string, bytes int) (ingress.Turn, func(), bool)
	need    func(guard.Size) (int, error)
	defects *defects
	logger  *slog.Logger
	audits  *prometheus.CounterVec
	waiting chan audited
	bytes   atomic.Int64 // of those that wait
}

// audited is an answer that is to be audited.
type audited struct {
	request      *elastallocv1.AllocateRequest
	decision     *solver.Decision
	size         guard.Size
	requestBytes int
	requestID    string
	since        time.Time
}

// draws reports whether the next answer is to be audited.
func (a *auditor) draws() bool { return a != nil && rand.Float64() < a.share }

// Observe puts an answer that was drawn in the queue.
func (a *auditor) Observe(_ context.Context, e *ingress.Event) {
	request, ok := e.Request.(*elastallocv1.AllocateRequest)
	if !e.Audit || e.Err != nil || !ok {
		return
	}
	bytes := int64(e.Size.Bytes)
	if a.bytes.Add(bytes) <= maxAuditBytes {
		select {
		case a.waiting <- audited{request, e.Decision, e.Size, e.RequestBytes, e.RequestID, time.Now()}:
			return
		default:
		}
	}
	a.bytes.Add(-bytes)
	a.audits.WithLabelValues(auditSkipped).Inc()
}

// run audits answers until ctx ends.
func (a *auditor) run(ctx context.Context) {
	for {
		select {
		case next := <-a.waiting:
			a.audit(ctx, next)
			a.bytes.Add(-int64(next.size.Bytes))
		case <-ctx.Done():
			return
		}
	}
}

// audit audits an answer as soon as there is an idle turn, and again where a call wanted it.
func (a *auditor) audit(ctx context.Context, next audited) {
	bytes, err := a.need(next.size)
	retry := time.NewTicker(auditRetry)
	defer retry.Stop()
	for err == nil && time.Since(next.since) < auditPatience {
		turn, release, ok := a.lend(ctx, "audit", bytes)
		if ok {
			done := a.try(ctx, turn, next)
			release()
			if done {
				return
			}
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
	a.audits.WithLabelValues(auditSkipped).Inc()
}

// try audits an answer, and reports whether it came to an end before its turn was wanted.
func (a *auditor) try(ctx context.Context, turn ingress.Turn, next audited) bool {
	ctx, cancel := context.WithTimeout(ctx, a.budget)
	defer cancel()
	defer context.AfterFunc(turn.Hurry, cancel)()
	answer := apiconv.ToAllocateResponse(next.request.GetSnapshot().GetId(), *next.decision, true)
	verdict, reason := a.ask(ctx, next, answer)
	if verdict == AuditOpen && turn.Hurry.Err() != nil {
		return false
	}
	a.audits.WithLabelValues(verdict).Inc()
	if verdict == AuditRefuted {
		a.logger.Error("an answer is refuted", "request_id", next.requestID, "reason", reason)
		a.defects.keep("refuted", next.requestID, next.requestBytes, next.request, answer)
	}
	return true
}

// ask asks the check. One that panics is a defect of its own, and must not end the server.
func (a *auditor) ask(ctx context.Context, next audited, answer *elastallocv1.AllocateResponse) (verdict, reason string) {
	defer func() {
		if cause := recover(); cause != nil {
			verdict, reason = AuditOpen, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())
			a.logger.Error("an audit failed", "request_id", next.requestID, "reason", reason)
			a.defects.keep("audit", next.requestID, next.requestBytes, next.request, answer)
		}
	}()
	return a.check(ctx, next.request, answer)
}
