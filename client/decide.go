package client

import (
	"context"

	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Decide returns a function for Plan.Reconcile that requests decisions with options. Options that are
// unset, or all of them if options is nil, have the recommended values instead of the defaults of the
// API: OBJECTIVE_TOTAL_TIME, with ADMISSION_START_FIRST for this objective, and BAD_JOBS_HOLD.
func (c *Client) Decide(ctx context.Context, options *elastallocv1.AllocateOptions) func(*elastallocv1.Snapshot) (Decision, error) {
	options = recommended(options)
	return func(s *elastallocv1.Snapshot) (Decision, error) {
		return c.Allocate(ctx, &elastallocv1.AllocateRequest{Snapshot: s, Options: options})
	}
}

// recommended returns a copy of options in which unset ones have the recommended values.
func recommended(options *elastallocv1.AllocateOptions) *elastallocv1.AllocateOptions {
	set := &elastallocv1.AllocateOptions{}
	proto.Merge(set, options)
	if set.Objective == elastallocv1.Objective_OBJECTIVE_UNSPECIFIED {
		set.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	}
	if set.Admission == elastallocv1.Admission_ADMISSION_UNSPECIFIED && set.Objective == elastallocv1.Objective_OBJECTIVE_TOTAL_TIME {
		set.Admission = elastallocv1.Admission_ADMISSION_START_FIRST
	}
	if set.BadJobs == elastallocv1.BadJobs_BAD_JOBS_UNSPECIFIED {
		set.BadJobs = elastallocv1.BadJobs_BAD_JOBS_HOLD
	}
	return set
}
