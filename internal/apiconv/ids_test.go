package apiconv

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestLongIDs checks that no method takes an id or a name beyond 256 bytes, that it is named by
// its path, and that no error repeats it.
func TestLongIDs(t *testing.T) {
	t.Parallel()
	in := inProcess(t)
	long := strings.Repeat("x", 300_000)
	job := func(id string) *elastallocv1.Job {
		return &elastallocv1.Job{Id: id, RemainingEta: durationpb.New(1e12)}
	}
	snapshot := func(jobs ...*elastallocv1.Job) *elastallocv1.Snapshot {
		return &elastallocv1.Snapshot{Id: "s", TotalNodes: 8, Jobs: jobs}
	}
	bad, good := snapshot(job("a"), job(long)), snapshot(job("a"))
	hold := &elastallocv1.AllocateOptions{BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD}
	named := snapshot(job("a"))
	named.Id = long
	for path, ask := range map[string]func() error{
		"snapshot.id": func() error {
			_, err := in.Allocate(t.Context(), &elastallocv1.AllocateRequest{Snapshot: named})
			return err
		},
		"snapshot.jobs[1].id": func() error {
			_, err := in.Allocate(t.Context(), &elastallocv1.AllocateRequest{Snapshot: bad, Options: hold})
			return err
		},
		"jobs[1].id": func() error {
			_, err := in.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: bad})
			return err
		},
		"[1].id": func() error {
			_, err := in.Forecast(t.Context(), &elastallocv1.ForecastRequest{Snapshot: bad})
			return err
		},
		"job_ids[0]": func() error {
			_, err := in.Explain(t.Context(), &elastallocv1.ExplainRequest{Snapshot: good, JobIds: []string{long}})
			return err
		},
		"scenarios[0].name": func() error {
			_, err := in.WhatIf(t.Context(), &elastallocv1.WhatIfRequest{Snapshot: good, Scenarios: []*elastallocv1.Scenario{{Name: long}}})
			return err
		},
		"scenarios[0].put_jobs[0].id": func() error {
			response, err := in.WhatIf(t.Context(), &elastallocv1.WhatIfRequest{
				Snapshot: good, Scenarios: []*elastallocv1.Scenario{{PutJobs: []*elastallocv1.Job{job(long)}}},
			})
			if err != nil {
				return err
			}
			return status.FromProto(response.GetResults()[0].GetError()).Err()
		},
		"scenarios[0].remove_job_ids[0]": func() error {
			response, err := in.WhatIf(t.Context(), &elastallocv1.WhatIfRequest{
				Snapshot: good, Scenarios: []*elastallocv1.Scenario{{RemoveJobIds: []string{long}}},
			})
			if err != nil {
				return err
			}
			return status.FromProto(response.GetResults()[0].GetError()).Err()
		},
	} {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), path) || len(err.Error()) > 2000 {
			t.Errorf("%s: %.300v", path, err)
		}
		if s, ok := status.FromError(err); ok && s.Code() != codes.InvalidArgument {
			t.Errorf("%s: %v", path, s.Code())
		}
	}
}
