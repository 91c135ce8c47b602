package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"time"

	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
)

// measureMemory loads a server that has the flags of the Helm chart with as many
// requests as it decides and lets wait, all with as many jobs as it takes, and prints
// what its process held at the most.
func measureMemory(ctx context.Context, out io.Writer, binary, ghz string, duration time.Duration) (err error) {
	const jobs, inflight, queue = 10000, 4, 64
	server, err := process.Start(ctx, binary, "--drain-delay=0s", fmt.Sprintf("--max-jobs=%d", jobs),
		fmt.Sprintf("--max-inflight=%d", inflight), fmt.Sprintf("--max-queue=%d", queue))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	idle, err := metric(ctx, server, residentBytes)
	if err != nil {
		return err
	}

	sampling, stop := context.WithCancel(ctx)
	most := make(chan float64)
	go func() { most <- mostOf(sampling, server, residentBytes) }()
	// As many clients again, who are turned away, and come again at once.
	f, err := overRPC(ctx, ghz, server, draw(jobs, jobs), 2*(inflight+queue), duration)
	stop()
	held := <-most
	if err != nil {
		return err
	}
	const mega = 1e6
	limit := "no GOMEMLIMIT"
	if bytes := debug.SetMemoryLimit(-1); bytes != math.MaxInt64 { // The server's variables are ours.
		limit = fmt.Sprintf("GOMEMLIMIT of %.0f MB", float64(bytes)/mega)
	}
	fmt.Fprintf(out, "\n%d clients, %d jobs each, --max-inflight=%d --max-queue=%d, %s: "+
		"%.0f MB idle, %.0f MB at the most, %d answered, %d turned away in %v.\n",
		2*(inflight+queue), jobs, inflight, queue, limit, idle/mega, held/mega, f.answered, f.shed, duration)
	return nil
}

// mostOf returns the largest value that a metric has until ctx ends.
func mostOf(ctx context.Context, server *process.Server, name string) float64 {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	most := 0.0
	for {
		select {
		case <-ticker.C:
			if value, err := metric(ctx, server, name); err == nil {
				most = max(most, value)
			}
		case <-ctx.Done():
			return most
		}
	}
}
