package client

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestHoldBadJobs(t *testing.T) {
	const (
		progress  = elastallocv1.Objective_OBJECTIVE_PROGRESS
		optimized = elastallocv1.Admission_ADMISSION_OPTIMIZED
		hold      = elastallocv1.BadJobs_BAD_JOBS_HOLD
		refuse    = elastallocv1.BadJobs_BAD_JOBS_REFUSE
	)
	budget := durationpb.New(3 * time.Second)
	for _, test := range []struct{ options, want *elastallocv1.AllocateOptions }{
		{nil, &elastallocv1.AllocateOptions{BadJobs: hold}},
		{&elastallocv1.AllocateOptions{}, &elastallocv1.AllocateOptions{BadJobs: hold}},
		{&elastallocv1.AllocateOptions{TimeBudget: budget}, &elastallocv1.AllocateOptions{BadJobs: hold, TimeBudget: budget}},
		{&elastallocv1.AllocateOptions{Objective: progress}, &elastallocv1.AllocateOptions{Objective: progress, BadJobs: hold}},
		{&elastallocv1.AllocateOptions{Admission: optimized, BadJobs: refuse},
			&elastallocv1.AllocateOptions{Admission: optimized, BadJobs: refuse}},
	} {
		before := proto.Clone(test.options)
		if diff := cmp.Diff(test.want, holdBadJobs(test.options), protocmp.Transform()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.options, diff)
		}
		if test.options != nil && !proto.Equal(before, test.options) {
			t.Errorf("%v is changed to %v", before, test.options)
		}
	}
}
