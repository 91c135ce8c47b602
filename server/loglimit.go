package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

const (
	// callerKey is the key of the caller in log lines.
	callerKey = "caller"

	// maxLineLimits is the maximum number of rate limiters. If there are more, all are deleted.
	maxLineLimits = 1024
)

// limitHandler drops log lines above a rate.
type limitHandler struct {
	slog.Handler
	allow func(key string) bool
}

// limitLines returns a logger that limits the lines of each combination of level, message and caller to
// perSecond and burst, and all lines to ten times as many. So a caller whose calls keep failing neither fills
// the disk nor displaces the lines of other callers. Metrics count all calls.
func limitLines(logger *slog.Logger, perSecond rate.Limit, burst int) *slog.Logger {
	var limits sync.Map // of *rate.Limiter, by key
	var known atomic.Int64
	all := rate.NewLimiter(10*perSecond, 10*burst)
	return slog.New(limitHandler{logger.Handler(), func(key string) bool {
		limit, loaded := limits.LoadOrStore(key, rate.NewLimiter(perSecond, burst))
		if !loaded && known.Add(1) > maxLineLimits {
			limits.Clear()
			known.Store(0)
		}
		return limit.(*rate.Limiter).Allow() && all.Allow()
	}})
}

// Handle logs a line if it is within the limits.
func (h limitHandler) Handle(ctx context.Context, line slog.Record) error {
	key := line.Level.String() + line.Message
	line.Attrs(func(attribute slog.Attr) bool {
		if attribute.Key == callerKey {
			key += attribute.Value.String()
		}
		return true
	})
	if !h.allow(key) {
		return nil
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs returns a handler that adds attributes and shares the limits.
func (h limitHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return limitHandler{h.Handler.WithAttrs(attributes), h.allow}
}

// WithGroup returns a handler with a group that shares the limits.
func (h limitHandler) WithGroup(name string) slog.Handler {
	return limitHandler{h.Handler.WithGroup(name), h.allow}
}
