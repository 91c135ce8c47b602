// Package parallel makes calls side by side, in goroutines that may be taken back.
package parallel

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
)

// Do calls work with each of 0 to n-1: in this goroutine and in those that are lent,
// up to one per processor; a nil lend lends them all. The call of one that is taken back is made
// again. The first error ends all work.
func Do(ctx context.Context, lend solver.AcquireWorker, n int, work func(context.Context, int) error) error {
	if lend == nil {
		lend = func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, true }
	}
	todo := make(chan int, n)
	for i := range n {
		todo <- i
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	// next makes one of the calls that are left, and reports whether to go on.
	next := func(own context.Context) bool {
		select {
		case i := <-todo:
			err := work(own, i)
			if own.Err() != nil && ctx.Err() == nil { // A helper that is called off.
				todo <- i
				return false
			}
			if err != nil {
				stop(err)
			}
			return ctx.Err() == nil
		default:
			return false
		}
	}
	places := make(chan struct{}, runtime.GOMAXPROCS(0)-1)
	invite := func() {
		for len(todo) > 1 {
			select {
			case places <- struct{}{}:
			default:
				return
			}
			own, release, ok := lend(ctx)
			if !ok {
				<-places
				return
			}
			helpers.Go(func() {
				defer func() {
					if cause := recover(); cause != nil { // The caller cannot, in another goroutine.
						stop(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
					}
					release()
					<-places
				}()
				for next(own) {
				}
			})
		}
	}
	for len(todo) > 0 && ctx.Err() == nil {
		for invite(); next(ctx); {
			invite()
		}
		helpers.Wait() // They may leave some of their work.
	}
	return context.Cause(ctx)
}
