//go:build unix

package faults

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// BenchmarkDeadlines counts the calls that miss their deadline on a machine with 20 busy loops, if their time budget
// exceeds the deadline.
func BenchmarkDeadlines(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	server, err := servertest.New(ctx, binary, nil)
	if err != nil {
		b.Fatal(err)
	}
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		b.Fatal(err)
	}
	var loops []*exec.Cmd
	for range 20 {
		loop := exec.CommandContext(ctx, "/bin/sh", "-c", "while :; do :; done")
		if err := loop.Start(); err != nil {
			b.Fatal(err)
		}
		loops = append(loops, loop)
	}
	b.Cleanup(func() {
		_ = connection.Close()
		cancel()
		_ = server.Stop()
		for _, loop := range loops {
			_ = loop.Wait()
		}
	})
	allocator := elastallocv1.NewAllocatorServiceClient(connection)
	for _, c := range []struct {
		name               string
		jobs, sizes, steps int
		options            *elastallocv1.AllocateOptions
		deadline           time.Duration
	}{
		{"greedy 1,000 x 32 x 24", 1000, 32, 24,
			&elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY},
			600 * time.Millisecond},
		{"1,000 x 32 x 24", 1000, 32, 24,
			&elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}, 600 * time.Millisecond},
		{"greedy 10,000", 10_000, 0, 5,
			&elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY},
			time.Second},
		{"10,000", 10_000, 0, 5, &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}, time.Second},
		{"JCT 10,000", 10_000, 0, 5, &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}, time.Second},
		{"10,000 x 16 x 24", 10_000, 16, 24,
			&elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}, 2 * time.Second},
		{"200 x 32 x 24", 200, 32, 24,
			&elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}, 300 * time.Millisecond},
		{"40", 40, 0, 5, &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}, 100 * time.Millisecond},
		{"40, at once", 40, 0, 5, &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}, 50 * time.Millisecond},
	} {
		request := randomRequest(c.jobs, c.jobs*3/2, 3)
		request.Snapshot.Horizon = &elastallocv1.Horizon{Steps: new(int32(c.steps))}
		for _, job := range request.GetSnapshot().GetJobs() {
			for size := range int32(c.sizes) {
				job.AllowedNodes, job.MaxNodes = append(job.AllowedNodes, size+1), new(int32(c.sizes))
			}
		}
		request.Options = c.options
		request.Options.TimeBudget = durationpb.New(10 * time.Second)
		b.Run(c.name, func(b *testing.B) {
			missed := 0
			var took []time.Duration
			for b.Loop() {
				limited, cancel := context.WithTimeout(ctx, c.deadline)
				start := time.Now()
				_, err := allocator.Allocate(limited, request)
				cancel()
				took = append(took, time.Since(start))
				if err != nil {
					missed++
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(missed), "missed")
			b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "median-ms")
			b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "slowest-ms")
		})
	}
}
