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

// Audit verifies, independently of the backends, that no legal plan is better than a response. It returns one of
// the verdicts and the reason for it. The verdict is AuditOpen if ctx is done.
type Audit func(ctx context.Context, request *elastallocv1.AllocateRequest,
	response *elastallocv1.AllocateResponse) (verdict, reason string)

// The verdicts of an Audit.
const (
	AuditConfirmed = "confirmed"
	AuditRefuted   = "refuted"
	AuditOpen      = "open"
)

const (
	// auditSkipped is the verdict for responses for which there was no idle slot in time.
	auditSkipped = "skipped"

	// maxAudits and maxAuditBytes limit the responses that wait for an audit.
	maxAudits     = 64
	maxAuditBytes = 16 << 20

	// maxAuditWait is the maximum time that a response waits for an idle slot, and auditRetry the
	// interval between attempts to get one.
	maxAuditWait = time.Minute
	auditRetry   = 50 * time.Millisecond
)

// auditor audits a fraction of the responses of Allocate after they are sent, one at a time, in idle slots.
// It is an observer of calls.
type auditor struct {
	check    Audit
	share    float64
	budget   time.Duration // of one audit
	idleSlot func(ctx context.Context, worker string, bytes int) (ingress.Slot, func(), bool)
	estimate func(guard.Size) (int, error) // the memory of an audit, in bytes
	bugs     *bugReports
	logger   *slog.Logger
	audits   *prometheus.CounterVec
	waiting  chan pendingAudit
	bytes    atomic.Int64 // of the waiting responses
}

// pendingAudit is a response that waits for an audit.
type pendingAudit struct {
	request      *elastallocv1.AllocateRequest
	decision     *solver.Decision
	size         guard.Size
	requestBytes int
	requestID    string
	since        time.Time
}

// sample reports, at random, whether to audit the next response.
func (a *auditor) sample() bool { return a != nil && rand.Float64() < a.share }

// Observe queues a response that was sampled for an audit.
func (a *auditor) Observe(_ context.Context, e *ingress.Event) {
	request, ok := e.Request.(*elastallocv1.AllocateRequest)
	if !e.Audit || e.Err != nil || !ok {
		return
	}
	bytes := int64(e.Size.Bytes)
	if a.bytes.Add(bytes) <= maxAuditBytes {
		select {
		case a.waiting <- pendingAudit{request, e.Decision, e.Size, e.RequestBytes, e.RequestID, time.Now()}:
			return
		default:
		}
	}
	a.bytes.Add(-bytes)
	a.audits.WithLabelValues(auditSkipped).Inc()
}

// run audits responses until ctx is done.
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

// audit audits a response as soon as a slot is idle. If a call interrupts the audit, it starts again later.
func (a *auditor) audit(ctx context.Context, next pendingAudit) {
	bytes, err := a.estimate(next.size)
	retry := time.NewTicker(auditRetry)
	defer retry.Stop()
	for err == nil && time.Since(next.since) < maxAuditWait {
		slot, release, ok := a.idleSlot(ctx, "audit", bytes)
		if ok {
			done := a.try(ctx, slot, next)
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

// try audits a response, and reports whether the audit completed before its slot was interrupted.
func (a *auditor) try(ctx context.Context, slot ingress.Slot, next pendingAudit) bool {
	ctx, cancel := context.WithTimeout(ctx, a.budget)
	defer cancel()
	defer context.AfterFunc(slot.Interrupted, cancel)()
	response := apiconv.ToAllocateResponse(next.request.GetSnapshot().GetId(), *next.decision, true)
	verdict, reason := a.runCheck(ctx, next, response)
	if verdict == AuditOpen && slot.Interrupted.Err() != nil {
		return false
	}
	a.audits.WithLabelValues(verdict).Inc()
	if verdict == AuditRefuted {
		a.logger.Error("response refuted by audit", "request_id", next.requestID, "reason", reason)
		a.bugs.keep("refuted", next.requestID, next.requestBytes, next.request, response)
	}
	return true
}

// runCheck runs the check. It recovers from panics, which are bugs of the check.
func (a *auditor) runCheck(ctx context.Context, next pendingAudit, response *elastallocv1.AllocateResponse) (verdict, reason string) {
	defer func() {
		if cause := recover(); cause != nil {
			verdict, reason = AuditOpen, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())
			a.logger.Error("audit panicked", "request_id", next.requestID, "reason", reason)
			a.bugs.keep("audit", next.requestID, next.requestBytes, next.request, response)
		}
	}()
	return a.check(ctx, next.request, response)
}
