package catalog

import (
	"context"
	"sync"

	"github.com/elastalloc/elastalloc/sim"
)

// Task is one simulation to be run.
type Task struct {
	Workload sim.Workload
	Policy   Policy
	Config   sim.Config
}

// RunAll runs tasks in the given number of workers and returns their results in the order of the
// tasks. After each task, RunAll calls done if it is not nil, one call at a time. The first error
// cancels all tasks. Solve times are meaningful only if the number of workers does not exceed the
// number of idle processors.
func RunAll(ctx context.Context, tasks []Task, allocator sim.Allocator, workers int, done func(*sim.Result)) ([]*sim.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]*sim.Result, len(tasks))
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
				result, err := task.Policy.Run(ctx, task.Workload, task.Config, allocator)
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
