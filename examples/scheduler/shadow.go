package main

import (
	"context"
	"time"

	"github.com/elastalloc/elastalloc/client"
)

const (
	shadowSpeed = 150 // seconds of the cluster in a real one
	shadowTick  = 200 * time.Millisecond
)

// shadow runs the cluster for a while of real time under the scheduler that there was before:
// first come, first served. At every moment it tells the server what the cluster is like,
// and acts on no answer. A server with --record keeps that, and elastalloc-lab replay sets it
// beside what other policies would have made of the same jobs. See docs/schedulers/record-and-replay.md.
func (s *scheduler) shadow(ctx context.Context, span time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	ticker := time.NewTicker(shadowTick)
	defer ticker.Stop()
	s.speed = shadowSpeed
	for ctx.Err() == nil {
		for range int(shadowSpeed * shadowTick.Seconds()) {
			s.cluster.tick()
			s.measure()
		}
		s.turn(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// show logs what a decision would have done.
func (s *scheduler) show(decision client.Decision) {
	for _, step := range client.Steps(decision) {
		s.logger.Info("would have", "job", step.JobID, "nodes", step.Nodes, "change", step.Change)
	}
}
