//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// checkResponse returns the errors of the response to a valid request. It uses package audit, which shares no code
// with the program.
func checkResponse(request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse) error {
	var wrong []error
	addf := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if checked := audit.Check(context.Background(), request, response, audit.Options{Work: 100_000}); checked.Verdict == audit.Refuted {
		addf("the response is refuted: %s", checked.Reason)
	}
	for _, allocation := range response.GetAllocations() {
		if !request.GetOptions().GetIncludePlan() && len(allocation.GetPlannedNodes())+len(allocation.GetPlannedProgress()) > 0 {
			addf("job %q has a plan that was not requested", allocation.GetJobId())
		}
	}
	r := response.GetReport()
	greedy := r.GetBackend() == elastallocv1.Backend_BACKEND_GREEDY
	if (r.GetReason() == elastallocv1.Reason_REASON_HEURISTIC) != greedy || r.GetLimit() < 1 || r.GetLimit() > 4 ||
		r.GetReason() == elastallocv1.Reason_REASON_FEASIBLE && r.GetLimit() == elastallocv1.Limit_LIMIT_GAP &&
			r.GetRelativeGap() > request.GetOptions().GetRelativeGap() {
		addf("reason %v of %v with gap %v and limit %v", r.GetReason(), r.GetBackend(), r.GetRelativeGap(), r.GetLimit())
	}
	decided := 0
	for _, attempt := range r.GetAttempts() {
		if attempt.GetOutcome() == elastallocv1.Outcome_OUTCOME_ANSWERED && attempt.GetBackend() == r.GetBackend() {
			decided++
		}
	}
	if decided != 1 {
		addf("%v decided and the attempts are %v", r.GetBackend(), r.GetAttempts())
	}
	if request.GetOptions().GetBackend() == elastallocv1.Backend_BACKEND_GREEDY && !greedy {
		addf("%v decided instead of greedy", r.GetBackend())
	}
	return errors.Join(wrong...)
}
