package main

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// inProcess has a request decided over and over by callers within this process.
func inProcess(ctx context.Context, request *elastallocv1.AllocateRequest, callers int, duration time.Duration) (figures, error) {
	allocator, err := cli.NewInProcess(request.GetOptions(), nil)
	if err != nil {
		return figures{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start, spent := time.Now(), cpuTime()
	took := make([][]time.Duration, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for ctx.Err() == nil && time.Since(start) < duration {
				asked := time.Now()
				response, err := allocator.Allocate(ctx, request)
				if err == nil {
					err = checkAnswer(response)
				}
				if err != nil {
					cancel(err)
					return
				}
				took[i] = append(took[i], time.Since(asked))
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return figures{}, context.Cause(ctx)
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return figures{
		answered: len(all), elapsed: time.Since(start), cpu: cpuTime() - spent,
		p50: all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}

// cpuTime returns what this process has spent.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
