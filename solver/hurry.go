package solver

import (
	"context"
	"sync"
)

// hurryKey is the key of what WithHurry adds to a context.
type hurryKey struct{}

// WithHurry returns a context whose decisions end their searches when hurried ends, with
// the best that they have found, as if their time were up.
func WithHurry(ctx, hurried context.Context) context.Context {
	return context.WithValue(ctx, hurryKey{}, hurried)
}

// Hurried returns ctx for a search: it also ends, with context.DeadlineExceeded, when the
// decision is to be hurried. The function releases what that takes.
func Hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	hurried, ok := ctx.Value(hurryKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	h := &hurriedContext{Context: ctx, hurried: hurried, done: make(chan struct{})}
	stops := []func() bool{
		context.AfterFunc(ctx, h.check),
		context.AfterFunc(hurried, h.check),
	}
	return h, func() {
		for _, stop := range stops {
			stop()
		}
		h.end(context.Canceled)
	}
}

// hurriedContext is a context that may end before its parent.
type hurriedContext struct {
	context.Context
	hurried context.Context
	done    chan struct{}

	mutex sync.Mutex
	err   error
}

// Done returns a channel that is closed when the context ends.
func (h *hurriedContext) Done() <-chan struct{} { return h.done }

// Err returns why it has ended.
func (h *hurriedContext) Err() error {
	h.check()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.err
}

// check ends it where there is a reason to.
func (h *hurriedContext) check() {
	if err := h.Context.Err(); err != nil {
		h.end(err)
	} else if h.hurried.Err() != nil {
		h.end(context.DeadlineExceeded)
	}
}

func (h *hurriedContext) end(err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.err == nil {
		h.err = err
		close(h.done)
	}
}
