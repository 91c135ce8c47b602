// Package parallel makes calls in parallel, in workers that can be withdrawn at any time.
package parallel

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
)

// Do calls work with each of 0 to n-1, in this goroutine and in workers, up to one per processor in total.
// A nil acquire always returns a worker. If the context of a worker is done before its call returns, the
// call is made again. The first error stops all calls.
func Do(ctx context.Context, acquire solver.AcquireWorker, n int, work func(context.Context, int) error) error {
	if acquire == nil {
		acquire = func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, true }
	}
	pending := make(chan int, n)
	for i := range n {
		pending <- i
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	// next makes a pending call, and reports whether to go on.
	next := func(worker context.Context) bool {
		select {
		case i := <-pending:
			err := work(worker, i)
			if worker.Err() != nil && ctx.Err() == nil { // The worker was withdrawn.
				pending <- i
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
	running := make(chan struct{}, runtime.GOMAXPROCS(0)-1)
	start := func() {
		for len(pending) > 1 {
			select {
			case running <- struct{}{}:
			default:
				return
			}
			worker, release, ok := acquire(ctx)
			if !ok {
				<-running
				return
			}
			workers.Go(func() {
				defer func() {
					if cause := recover(); cause != nil { // The caller cannot recover from a panic in another goroutine.
						stop(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
					}
					release()
					<-running
				}()
				for next(worker) {
				}
			})
		}
	}
	for len(pending) > 0 && ctx.Err() == nil {
		for start(); next(ctx); {
			start()
		}
		workers.Wait() // Workers that are withdrawn return their calls.
	}
	return context.Cause(ctx)
}
