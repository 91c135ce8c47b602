package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// draw returns a snapshot of a busy pool, always the same for its size: remaining
// ETAs are log-normal around an hour, most jobs train, on powers of two while the
// pool lasts, and the rest are queued.
func draw(jobs, nodes int) *elastallocv1.AllocateRequest {
	random := rand.New(rand.NewPCG(uint64(jobs), uint64(nodes)))
	snapshot := &elastallocv1.Snapshot{Id: fmt.Sprintf("load-%d-%d", jobs, nodes), TotalNodes: int32(nodes)}
	free := int32(nodes)
	for i := range jobs {
		eta := time.Duration(math.Exp(random.NormFloat64()*1.5) * float64(time.Hour))
		job := &elastallocv1.Job{
			Id:           fmt.Sprintf("training-%04d", i),
			RemainingEta: durationpb.New(eta.Round(time.Second) + time.Second),
		}
		if held := int32(1) << random.IntN(4); random.IntN(10) < 7 && held <= free {
			job.CurrentNodes = held
			job.TrainingTime = durationpb.New(time.Duration(random.Float64() * float64(5*time.Hour)))
			free -= held
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return &elastallocv1.AllocateRequest{Snapshot: snapshot}
}
