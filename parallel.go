package elastalloc

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/elastalloc/elastalloc/solver"
)

// inParallel calls work with 0 to n-1: in this goroutine and, as far as there
// are processors and ctx grants help, in others beside it. Work that a helper had to leave is
// begun again. It ends with the first error, and then all other work does, too.
func inParallel(ctx context.Context, n int, work func(context.Context, int) error) error {
	todo := make(chan int, n)
	for i := range n {
		todo <- i
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var helping atomic.Int32
	help := func(own context.Context) {
		defer func() {
			if cause := recover(); cause != nil { // Where the caller could not.
				stop(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			}
		}()
		for ctx.Err() == nil {
			select {
			case i := <-todo:
				err := work(own, i)
				if own.Err() != nil && ctx.Err() == nil {
					todo <- i
					return
				}
				if err != nil {
					stop(err)
				}
			default:
				return
			}
		}
	}
	for {
		for len(todo) > 1 && int(helping.Load()) < runtime.GOMAXPROCS(0)-1 {
			own, release, ok := solver.Help(ctx)
			if !ok {
				break
			}
			helping.Add(1)
			helpers.Go(func() {
				defer helping.Add(-1)
				defer release()
				help(own)
			})
		}
		select {
		case i := <-todo:
			if err := work(ctx, i); err != nil {
				stop(err)
			}
		default:
			helpers.Wait()
			if len(todo) == 0 {
				return context.Cause(ctx)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
