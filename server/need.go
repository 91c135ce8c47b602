package server

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/server/internal/wiresize"
	"github.com/elastalloc/elastalloc/solver"
)

// What a decision takes beside its decoded request, in bytes: the core's jobs, the model,
// the search and the answer. BenchmarkNeed measures them.
const (
	workPerJob    = 1280
	workPerNumber = 96 // of each legal size and speed
)

// methods says what the ingress has to know of each method of the AllocatorService: whose
// turn it waits for, and how much memory it needs.
func methods(maxJobs int) map[string]ingress.Method {
	return map[string]ingress.Method{
		"Allocate": {Work: ingress.WorkSearchOrShed, Need: need(&elastallocv1.AllocateRequest{}, maxJobs, 1)},
		"FillIdle": {Work: ingress.WorkShort, Need: need(&elastallocv1.FillIdleRequest{}, maxJobs, 1)},
		// The answers of all scenarios are held until the last is decided.
		"WhatIf":   {Work: ingress.WorkSearch, Need: need(&elastallocv1.WhatIfRequest{}, maxJobs, 3)},
		"Explain":  {Work: ingress.WorkSearch, Need: need(&elastallocv1.ExplainRequest{}, maxJobs, 2)},
		"Forecast": {Work: ingress.WorkSearch, Need: need(&elastallocv1.ForecastRequest{}, maxJobs, 2)},
	}
}

// need returns what estimates the memory for a request: its elements are counted before
// any object is built. times is how often the work space of its jobs is needed.
func need(request proto.Message, maxJobs, times int) func([]byte, int) (int, error) {
	shape := wiresize.Of(request)
	job := (&elastallocv1.Job{}).ProtoReflect().Descriptor().FullName()
	return func(message []byte, most int) (int, error) {
		size := shape.Size(message, job)
		bytes := size.Bytes + times*(size.Messages*workPerJob+size.Numbers*workPerNumber)
		if bytes > most && size.Messages > maxJobs {
			return 0, &solver.InvalidError{Violations: []solver.Violation{{
				Path: "snapshot.jobs", Description: fmt.Sprintf("has %d jobs; want at most %d", size.Messages, maxJobs),
			}}}
		}
		return bytes, nil
	}
}
