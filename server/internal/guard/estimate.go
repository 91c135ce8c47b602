package guard

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/elastalloc/elastalloc/internal/protosize"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// The memory of a call in addition to its decoded request, in bytes. BenchmarkEstimator of package server
// measures it.
const (
	workPerJob    = 1120 // of a search: the job, its model and its plans
	workPerNumber = 96   // of each legal size and speed
	workPerStep   = 100  // of each step beyond the default horizon
	defaultSizes  = 5    // number of legal sizes included in workPerJob

	responsePerJob     = 300 // of a decision: decoded, as messages and encoded
	responsePerStep    = 24  // of the plan of a job
	responsePerWarning = 650
	responsePerGroup   = 300
	responsePerSize    = 400 // of each explained size
	responsePerReason  = 1500
	responsePerSample  = 40 // of each job and sample of a forecast

	// quotedCopies is the number of copies of an id in a warning, whose message quotes each byte as up
	// to four bytes, decoded and encoded.
	quotedCopies = 10
)

// The messages and fields that are counted in requests.
const (
	jobs = iota
	groups
	scenarios
	poolNodes
	jobNodes
	steps
	samples
	plan
)

// Size is the estimated size of a request.
type Size = protosize.Size

// Estimator estimates the memory of the calls of a method. It is safe for concurrent use.
type Estimator struct {
	estimator *protosize.Estimator
	maxJobs   int
	// searches is the number of work spaces of searches that are in use at once. explains reports
	// whether the method explains jobs, and forecasts whether it samples forecasts.
	searches            int
	explains, forecasts bool
}

// NewEstimator returns an estimator for calls with requests of the type of request and at most maxJobs
// jobs per snapshot.
func NewEstimator(request proto.Message, maxJobs int) *Estimator {
	e := &Estimator{maxJobs: maxJobs, searches: 1, estimator: protosize.New(request, map[protoreflect.FullName]int{
		"elastalloc.v1.Job": jobs, "elastalloc.v1.Group": groups, "elastalloc.v1.Scenario": scenarios,
		"elastalloc.v1.Snapshot.total_nodes": poolNodes, "elastalloc.v1.Scenario.total_nodes": poolNodes,
		"elastalloc.v1.Job.max_nodes": jobNodes, "elastalloc.v1.Horizon.steps": steps,
		"elastalloc.v1.ForecastRequest.samples":      samples,
		"elastalloc.v1.AllocateOptions.include_plan": plan, "elastalloc.v1.AllocateOptions.certificate": plan,
	})}
	switch request.(type) {
	case *elastallocv1.WhatIfRequest:
		e.searches = 2
	case *elastallocv1.ExplainRequest:
		e.searches, e.explains = 3, true
	case *elastallocv1.ForecastRequest:
		e.searches, e.forecasts = 3, true
	}
	return e
}

// Size estimates the size of the decoded request from the encoded one.
func (e *Estimator) Size(message []byte) Size { return e.estimator.Size(message) }

// DecidedJobs returns the maximum number of allocations in the response to a request of a size, including
// the allocations of scenarios.
func DecidedJobs(s Size) int { return s.Counters[jobs] * (1 + s.Counters[scenarios]) }

// part is a part of the memory of a call.
type part struct {
	name  string
	bytes int
}

// parts returns the maximum memory of a call with a request of a size while its method runs, by purpose.
func (e *Estimator) parts(size Size) []part {
	all, horizon := size.Counters[jobs], min(solver.MaxSteps, max(solver.DefaultSteps, size.Counters[steps]))
	// By default the legal sizes are the powers of two up to the size of the pool.
	sizes := min(solver.MaxSizes, bits.Len(uint(min(size.Counters[poolNodes], max(solver.DefaultMaxNodes, size.Counters[jobNodes])))))
	work := all*(workPerJob+max(0, sizes-defaultSizes)*workPerNumber+(horizon-solver.DefaultSteps)*workPerStep) + size.Numbers*workPerNumber

	// All decisions are in memory until the last one is made. The jobs of all scenarios are limited.
	decisions := 1 + min(solver.MaxScenarios, size.Counters[scenarios])
	decided := min(all*decisions, e.maxJobs*(1+solver.ScenarioJobs))
	perJob := responsePerJob + min(size.LongestString, solver.MaxIDBytes)
	if size.Counters[plan] > 0 {
		perJob += horizon * responsePerStep
	}
	// A job with a warning is in no model and does not wait behind another job.
	responses := max(decided*perJob+2*decisions*size.StringBytes,
		decided*responsePerWarning+quotedCopies*decisions*size.StringBytes-all*workPerJob)
	parts := []part{
		{"the request", size.Bytes},
		{"the search", e.searches * work},
		{"the response", responses + decisions*size.Counters[groups]*(responsePerGroup+min(size.LongestString, solver.MaxIDBytes))},
	}
	if decisions > 1 {
		parts[2].name = fmt.Sprintf("the responses to %d scenarios", decisions-1)
	}
	if e.explains {
		parts = append(parts, part{"the explanations", (all*(1+sizes)+size.Numbers)*responsePerSize + all*responsePerReason})
	}
	if e.forecasts {
		count := min(solver.MaxSamples, max(solver.DefaultErrorSamples, size.Counters[samples]))
		parts = append(parts, part{fmt.Sprintf("%d samples", count), all * count * responsePerSample})
	}
	return parts
}

// Bytes returns the maximum memory of a call with a request of a size while its method runs, in bytes. More
// than limit bytes are an error. The error names the number of jobs if it is too large, and otherwise the
// largest part.
func (e *Estimator) Bytes(size Size, limit int) (int, error) {
	bytes, parts := 0, e.parts(size)
	for _, p := range parts {
		bytes += p.bytes
	}
	switch {
	case bytes <= limit:
		return bytes, nil
	case size.Counters[jobs] > e.maxJobs:
		return 0, &solver.InvalidError{Violations: []solver.Violation{{
			Path: "snapshot.jobs", Description: fmt.Sprintf("has %d jobs; must have at most %d", size.Counters[jobs], e.maxJobs),
		}}}
	default:
		largest := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(a.bytes, b.bytes) })
		return 0, TooLarge(bytes, limit, largest.name)
	}
}
