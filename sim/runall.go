package sim

import (
	"context"
	"sync"
)

// Task is one simulation to be run.
type Task struct {
	Workload Workload
	Policy   Policy
	Config   Config
}

// RunAll runs simulations, the given number of them at once, and returns their results in the
// order of the tasks. done, which may be nil, is called after each, one call at a time. The
// first error ends all. Decision times mean something only with no more workers than idle
// processors.
func RunAll(ctx context.Context, tasks []Task, allocator Allocator, workers int, done func(*Result)) ([]*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]*Result, len(tasks))
	queue := make(chan int, len(tasks))
	for i := range tasks {
		queue <- i
	}
	close(queue)

	var workersDone sync.WaitGroup
	var doneMutex sync.Mutex
	for range max(1, workers) {
		workersDone.Go(func() {
			for i := range queue {
				task := &tasks[i]
				result, err := Run(ctx, task.Workload, task.Policy, task.Config, allocator)
				if err != nil {
					cancel(err) // The first cause is kept.
					return
				}
				results[i] = result
				if done != nil {
					doneMutex.Lock()
					done(result)
					doneMutex.Unlock()
				}
			}
		})
	}
	workersDone.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}
