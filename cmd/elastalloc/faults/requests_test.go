//go:build unix

package faults

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// randomRequest returns a random request with heavy-tailed run times, in which some jobs run and some are queued. The
// size of the paper is 40 jobs on 70 nodes.
func randomRequest(jobs, nodes int, seed uint64) *elastallocv1.AllocateRequest {
	r := rand.New(rand.NewPCG(seed, 70))
	snapshot := &elastallocv1.Snapshot{
		Id:         fmt.Sprintf("%d-jobs-%d-nodes-seed-%d", jobs, nodes, seed),
		TotalNodes: int32(nodes),
	}
	free := nodes
	for i := range jobs {
		eta := 3600 * math.Exp(r.NormFloat64()*1.5+0.5)
		job := &elastallocv1.Job{
			Id:           fmt.Sprintf("job-%d", i+1),
			RemainingEta: durationpb.New(time.Duration(eta*1e3) * time.Millisecond),
			ResizeDelay:  durationpb.New(15 * time.Second),
			TrainingTime: durationpb.New(time.Duration(r.IntN(7200)) * time.Second),
		}
		if current := 1 << r.IntN(3); current <= free && r.IntN(4) > 0 {
			job.CurrentNodes = int32(current)
			free -= current
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	return &elastallocv1.AllocateRequest{
		Snapshot: snapshot, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS},
	}
}
