package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// BenchmarkSizeLimitsAtClient measures decisions with 7 size limits of a server, for pools of 8-GPU machines in
// blocks of 36, of which 30% lack GPUs: 20 with new jobs only, and the 20 decisions that follow, in which 6%
// of the jobs are new. It reports the time at the client, the CPU time of the server, and how many
// decisions are proven, and in how many a size limit has a price.
func BenchmarkSizeLimitsAtClient(b *testing.B) {
	server := servertest.Start(b, binary, nil, "--max-budget=1m")
	client := elastallocv1.NewAllocatorServiceClient(servertest.Dial(b, server))
	for _, jobs := range []int{300, 1000, 2000, 5000} {
		b.Run(fmt.Sprint("jobs=", jobs), func(b *testing.B) {
			var fresh, next []time.Duration
			counted, before := countingClient{client: client}, servertest.Metrics(b, server)["process_cpu_seconds_total"]
			for b.Loop() {
				for seed := range uint64(20) {
					r := rand.New(rand.NewPCG(seed, uint64(jobs)))
					s := damagedPool(b, r, jobs)
					response, took := counted.decide(b, s)
					fresh = append(fresh, took)
					for i, a := range response.GetAllocations() {
						if s.Jobs[i].CurrentNodes, s.Jobs[i].TrainingTime = a.GetNodes(), durationpb.New(time.Hour); r.IntN(16) == 0 {
							s.Jobs[i] = randomJob(r, i)
						}
					}
					_, took = counted.decide(b, s)
					next = append(next, took)
				}
			}
			decisions := float64(len(fresh) + len(next))
			b.ReportMetric(float64(counted.proven)/decisions, "proven")
			b.ReportMetric(float64(counted.binding)/decisions, "binding")
			b.ReportMetric((servertest.Metrics(b, server)["process_cpu_seconds_total"]-before)/decisions*1e3, "cpu-ms/decision")
			for name, times := range map[string][]time.Duration{"new": fresh, "next": next} {
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Milliseconds()), name+"-ms-median")
				b.ReportMetric(float64(times[len(times)-1].Milliseconds()), name+"-ms-max")
			}
		})
	}
}

// countingClient makes decisions, and counts how many are proven and in how many a size limit has a price.
type countingClient struct {
	client          elastallocv1.AllocatorServiceClient
	proven, binding int
}

// decide returns a decision and the time that it took.
func (c *countingClient) decide(b *testing.B, s *elastallocv1.Snapshot) (*elastallocv1.AllocateResponse, time.Duration) {
	b.Helper()
	start := time.Now()
	response, err := c.client.Allocate(b.Context(), &elastallocv1.AllocateRequest{
		Snapshot: s, Options: &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(time.Minute)},
	})
	if err != nil {
		b.Fatal(err)
	}
	if response.GetReport().GetReason() == elastallocv1.Reason_REASON_OPTIMAL {
		c.proven++
	}
	hasPrice := func(l *elastallocv1.SizeLimitReport) bool { return l.GetPrice() > 0 }
	if slices.ContainsFunc(response.GetReport().GetSizeLimits(), hasPrice) {
		c.binding++
	}
	return response, time.Since(start)
}

// damagedPool returns a pool with 7 size limits and new jobs.
func damagedPool(b *testing.B, r *rand.Rand, jobs int) *elastallocv1.Snapshot {
	b.Helper()
	s := &elastallocv1.Snapshot{}
	var machines []placement.Node
	for n := range jobs * 9 / 10 {
		machine := placement.Node{ID: fmt.Sprint(n), Block: fmt.Sprint(n / 36), Units: 8, Free: 8}
		if r.IntN(10) < 3 {
			machine.Free -= 1 + r.IntN(7)
		}
		machines, s.TotalNodes = append(machines, machine), s.GetTotalNodes()+int32(machine.Free)
	}
	limits, err := placement.Limits(machines, []int{1, 2, 4, 8, 16, 32, 64, 128})
	if err != nil || len(limits) != 7 {
		b.Fatalf("%d limits, error %v", len(limits), err)
	}
	s.SizeLimits = limits
	for i := range jobs {
		s.Jobs = append(s.Jobs, randomJob(r, i))
	}
	return s
}

// randomJob returns a new job with sizes from 1 to 128, in one piece or in pieces of a machine.
func randomJob(r *rand.Rand, i int) *elastallocv1.Job {
	smallest := int32(1) << r.IntN(4)
	job := &elastallocv1.Job{
		Id:           fmt.Sprint(i),
		RemainingEta: durationpb.New(time.Duration(math.Exp(9+1.5*r.NormFloat64()) * float64(time.Second))),
		RestartTime:  durationpb.New(time.Duration(25+225*r.Float64()) * time.Second),
		MinNodes:     &smallest, MaxNodes: new(16 * smallest),
		Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 0.7 + 0.25*r.Float64()}},
	}
	if r.IntN(2) == 0 {
		job.PieceNodes = new(int32(8))
	}
	return job
}
