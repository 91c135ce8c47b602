package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

const (
	// callerKey is the attribute of log lines that names the caller.
	callerKey = "caller"

	// maxLineLimits is the number of rate limits after which all are forgotten.
	maxLineLimits = 1024
)

// limitHandler drops log lines that are beyond a rate.
type limitHandler struct {
	slog.Handler
	allow func(key string) bool
}

// limitLines returns a logger that limits the lines per second, and at once, of each level,
// message and caller, and all lines to ten times that: a caller that fails endlessly must
// neither fill the disk nor displace lines about others. Metrics count what is dropped.
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

// Handle handles a line that is within the limits.
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

// WithGroup returns a handler that groups what follows and shares the limits.
func (h limitHandler) WithGroup(name string) slog.Handler {
	return limitHandler{h.Handler.WithGroup(name), h.allow}
}
