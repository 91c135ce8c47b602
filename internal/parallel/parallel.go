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
	c := calls{acquire: acquire, work: work, pending: make(chan int, n), running: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	for i := range n {
		c.pending <- i
	}
	defer c.workers.Wait()
	c.ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	for len(c.pending) > 0 && c.ctx.Err() == nil {
		for c.startWorkers(); c.next(c.ctx); {
			c.startWorkers()
		}
		c.workers.Wait() // Workers that are withdrawn return their calls.
	}
	return context.Cause(c.ctx)
}

// calls are the calls of one Do.
type calls struct {
	ctx     context.Context // done after the last call and after an error
	stop    context.CancelCauseFunc
	acquire solver.AcquireWorker
	work    func(context.Context, int) error
	pending chan int      // calls that no goroutine makes
	running chan struct{} // one element per worker
	workers sync.WaitGroup
}

// next makes a pending call, and reports whether to go on.
func (c *calls) next(worker context.Context) bool {
	select {
	case i := <-c.pending:
		err := c.work(worker, i)
		if worker.Err() != nil && c.ctx.Err() == nil { // The worker was withdrawn.
			c.pending <- i
			return false
		}
		if err != nil {
			c.stop(err)
		}
		return c.ctx.Err() == nil
	default:
		return false
	}
}

// startWorkers starts as many workers as there are processors and calls for.
func (c *calls) startWorkers() {
	for len(c.pending) > 1 {
		select {
		case c.running <- struct{}{}:
		default:
			return
		}
		worker, release, ok := c.acquire(c.ctx)
		if !ok {
			<-c.running
			return
		}
		c.workers.Go(func() {
			defer func() {
				if cause := recover(); cause != nil { // The caller cannot recover from a panic in another goroutine.
					c.stop(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
				}
				release()
				<-c.running
			}()
			for c.next(worker) {
			}
		})
	}
}
