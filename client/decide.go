package client

import (
	"context"

	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Decide returns a function for Plan.Reconcile that requests decisions with options. Options that are
// unset, or all of them if options is nil, have the defaults of the API, except for the treatment of
// bad jobs: it defaults to BAD_JOBS_HOLD, so that one bad job does not stop all decisions.
func (c *Client) Decide(ctx context.Context, options *elastallocv1.AllocateOptions) func(*elastallocv1.Snapshot) (Decision, error) {
	options = holdBadJobs(options)
	return func(s *elastallocv1.Snapshot) (Decision, error) {
		return c.Allocate(ctx, &elastallocv1.AllocateRequest{Snapshot: s, Options: options})
	}
}

// holdBadJobs returns a copy of options with BAD_JOBS_HOLD if the treatment of bad jobs is unset.
func holdBadJobs(options *elastallocv1.AllocateOptions) *elastallocv1.AllocateOptions {
	set := &elastallocv1.AllocateOptions{}
	proto.Merge(set, options)
	if set.BadJobs == elastallocv1.BadJobs_BAD_JOBS_UNSPECIFIED {
		set.BadJobs = elastallocv1.BadJobs_BAD_JOBS_HOLD
	}
	return set
}
