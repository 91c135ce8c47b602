package main

import (
	"context"
	"time"

	"github.com/elastalloc/elastalloc/client"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	shadowSpeed = 150 // seconds of the cluster in a real one
	shadowTick  = 200 * time.Millisecond
)

// shadow runs the cluster for a while of real time under the scheduler that there was before:
// first come, first served. At every moment it tells the server what the cluster is like,
// and acts on no answer. A server with --record keeps that, and elastalloc-lab replay sets it
// beside what other policies would have made of the same jobs. See docs/shadow.md.
func (s *scheduler) shadow(ctx context.Context, server string, span time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var err error
	if s.client, err = client.New(server); err != nil {
		return err
	}
	defer s.client.Close()
	ticker := time.NewTicker(shadowTick)
	defer ticker.Stop()
	s.speed = shadowSpeed
	for asked := 0; ; {
		event := false
		for range int(shadowSpeed * shadowTick.Seconds()) {
			event = s.cluster.tick() || event
			s.measure()
		}
		if err := s.firstFit(); err != nil {
			return err
		}
		if event || s.cluster.now-asked >= decideEvery {
			s.ask(ctx)
			asked = s.cluster.now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ask tells the server what the cluster is like. The answer is logged and not acted on, and
// neither an error nor a slow server is any of the scheduler's business.
func (s *scheduler) ask(ctx context.Context) {
	response, err := s.client.Allocate(ctx, s.request())
	if err != nil {
		s.logger.Warn("no advice", "error", err)
		return
	}
	for _, a := range response.GetAllocations() {
		if a.GetChange() != elastallocv1.Change_CHANGE_KEEP && a.GetChange() != elastallocv1.Change_CHANGE_WAIT {
			s.logger.Info("would have", "job", a.GetJobId(), "nodes", a.GetNodes(), "change", a.GetChange())
		}
	}
}
