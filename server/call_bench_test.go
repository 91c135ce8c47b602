package server

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// BenchmarkCall measures the CPU time of a decision with OBJECTIVE_TOTAL_TIME: of a call without network and
// decoding of the response by a client, of the decision alone, and of decoding and encoding in the server.
func BenchmarkCall(b *testing.B) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	client := start(b, func(c *Config) {
		c.Allocator, c.Logger = allocator, slog.New(slog.DiscardHandler)
		c.MaxBudget = time.Minute
	}).conn
	for _, jobs := range []int{40, 1000, 10_000} {
		r := rand.New(rand.NewPCG(1, uint64(jobs)))
		request := &elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{TotalNodes: int32(2 * jobs)},
			Options: &elastallocv1.AllocateOptions{
				Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
				TimeBudget: durationpb.New(time.Minute),
			},
		}
		for i := range jobs {
			eta := time.Duration(3600 * math.Exp(r.NormFloat64()) * float64(time.Second))
			request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
				Id: fmt.Sprint("training-", i), RemainingEta: durationpb.New(eta), CurrentNodes: int32(1<<r.IntN(3)) % 4,
			})
		}
		sent, err := proto.Marshal(request)
		if err != nil {
			b.Fatal(err)
		}
		converted, err := apiconv.FromAllocateRequest(request, jobs)
		if err != nil {
			b.Fatal(err)
		}
		decision, err := allocator.Allocate(b.Context(), converted.Snapshot, converted.Options)
		if err != nil {
			b.Fatal(err)
		}
		for _, part := range []struct {
			name string
			run  func() error
		}{
			{"call", func() error {
				return client.Invoke(b.Context(), elastallocv1.AllocatorService_Allocate_FullMethodName, sent, nil, grpc.ForceCodecV2(rawCodec{}))
			}},
			{"decision", func() error {
				_, err := allocator.Allocate(b.Context(), converted.Snapshot, converted.Options)
				return err
			}},
			{"bytes", func() error {
				request := new(elastallocv1.AllocateRequest)
				if err := proto.Unmarshal(sent, request); err != nil {
					return err
				}
				if _, err := apiconv.FromAllocateRequest(request, jobs); err != nil {
					return err
				}
				_, err := proto.Marshal(apiconv.ToAllocateResponse("", decision, false))
				return err
			}},
		} {
			b.Run(fmt.Sprintf("jobs=%d/%s", jobs, part.name), func(b *testing.B) {
				b.ReportAllocs()
				solvertest.ReportCPU(b)
				for b.Loop() {
					if err := part.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
