package solver

import "context"

// helpKey is the key of what WithHelp adds to a context.
type helpKey struct{}

// Lend grants one more goroutine to work on a call, if one is free. The work is to end when
// hurried ends, and release gives the goroutine back.
type Lend func() (hurried context.Context, release func(), ok bool)

// WithHelp returns a context whose calls may work in as many goroutines as lend grants
// beside their own.
func WithHelp(ctx context.Context, lend Lend) context.Context {
	return context.WithValue(ctx, helpKey{}, lend)
}

// Help asks for one more goroutine to work on the call of ctx, and returns the context of
// its work, which may end before ctx. Where nothing was said by WithHelp, it is granted.
func Help(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	lend, ok := ctx.Value(helpKey{}).(Lend)
	if !ok {
		return ctx, func() {}, true
	}
	hurried, release, ok := lend()
	if !ok {
		return nil, nil, false
	}
	ctx, stop := Hurried(WithHurry(ctx, hurried))
	return ctx, func() {
		stop()
		release()
	}, true
}
