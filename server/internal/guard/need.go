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

// What calls hold beside their decoded requests, in bytes: BenchmarkNeed of package server
// measures it.
const (
	workPerJob    = 1150 // of a search: the core's job, the model, plans
	workPerNumber = 96   // of each legal size and speed
	workPerStep   = 100  // of each step of a horizon longer than usual
	usualSizes    = 5    // within workPerJob

	answerPerJob     = 300 // of a decision, in the core, as messages and encoded
	answerPerStep    = 24  // of the plan of a job
	answerPerWarning = 650
	answerPerGroup   = 300
	answerPerSize    = 400 // that is explained
	answerPerReason  = 1500
	answerPerSample  = 40 // of a job in a forecast

	// quotedCopies of an id are in a warning: its message quotes it in up to four bytes for
	// each, in the core and encoded.
	quotedCopies = 10
)

// What is counted by name in requests.
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

// Need is what the calls of a method need. It is safe for concurrent use.
type Need struct {
	counter *protosize.Counter
	maxJobs int
	// searches is how often the work space of a search is held, explains says that jobs are
	// explained, and forecasts that samples are.
	searches            int
	explains, forecasts bool
}

// NewNeed returns the need of calls whose requests are like this one, of at most maxJobs
// jobs.
func NewNeed(request proto.Message, maxJobs int) *Need {
	n := &Need{maxJobs: maxJobs, searches: 1, counter: protosize.New(request, map[protoreflect.FullName]int{
		"elastalloc.v1.Job": jobs, "elastalloc.v1.Group": groups, "elastalloc.v1.Scenario": scenarios,
		"elastalloc.v1.Snapshot.total_nodes": poolNodes, "elastalloc.v1.Scenario.total_nodes": poolNodes,
		"elastalloc.v1.Job.max_nodes": jobNodes, "elastalloc.v1.Horizon.steps": steps,
		"elastalloc.v1.ForecastRequest.samples":      samples,
		"elastalloc.v1.AllocateOptions.include_plan": plan, "elastalloc.v1.AllocateOptions.certificate": plan,
	})}
	switch request.(type) {
	case *elastallocv1.WhatIfRequest:
		n.searches = 2
	case *elastallocv1.ExplainRequest:
		n.searches, n.explains = 3, true
	case *elastallocv1.ForecastRequest:
		n.searches, n.forecasts = 3, true
	}
	return n
}

// Size estimates the size of a request from its message as it arrived.
func (n *Need) Size(message []byte) Size { return n.counter.Size(message) }

// Decided returns how many jobs are decided in all for a request of a size, those of scenarios
// included, at most.
func Decided(s Size) int { return s.Counted[jobs] * (1 + s.Counted[scenarios]) }

// part is what a call holds for something.
type part struct {
	of    string
	bytes int
}

// parts returns all that a call with a request of this size holds while its method runs, at
// most.
func (n *Need) parts(size Size) []part {
	all, horizon := size.Counted[jobs], min(solver.MaxSteps, max(solver.DefaultSteps, size.Counted[steps]))
	// Legal sizes are powers of two within the pool where none are named.
	sizes := min(solver.MaxSizes, bits.Len(uint(min(size.Counted[poolNodes], max(solver.DefaultMaxNodes, size.Counted[jobNodes])))))
	work := all*(workPerJob+max(0, sizes-usualSizes)*workPerNumber+(horizon-solver.DefaultSteps)*workPerStep) + size.Numbers*workPerNumber

	// All decisions are held until the last is made; the jobs of all scenarios are limited.
	decisions := 1 + min(solver.MaxScenarios, size.Counted[scenarios])
	decided := min(all*decisions, n.maxJobs*(1+solver.ScenarioJobs))
	perJob := answerPerJob + min(size.Longest, solver.MaxIDBytes)
	if size.Counted[plan] > 0 {
		perJob += horizon * answerPerStep
	}
	// A job with a warning of its own is in no model, and waits behind no other.
	answers := max(decided*perJob+2*decisions*size.Text, decided*answerPerWarning+quotedCopies*decisions*size.Text-all*workPerJob)
	parts := []part{
		{"the request", size.Bytes},
		{"the search", n.searches * work},
		{"the answer", answers + decisions*size.Counted[groups]*(answerPerGroup+min(size.Longest, solver.MaxIDBytes))},
	}
	if decisions > 1 {
		parts[2].of = fmt.Sprintf("the answers to %d scenarios", decisions-1)
	}
	if n.explains {
		parts = append(parts, part{"the explanations", (all*(1+sizes)+size.Numbers)*answerPerSize + all*answerPerReason})
	}
	if n.forecasts {
		drawn := min(solver.MaxSamples, max(solver.DefaultErrorSamples, size.Counted[samples]))
		parts = append(parts, part{fmt.Sprintf("%d samples", drawn), all * drawn * answerPerSample})
	}
	return parts
}

// Bytes returns what a call with a request of this size holds while its method runs, at most.
// More than most is an error: of its jobs where it has too many, else of its largest part.
func (n *Need) Bytes(size Size, most int) (int, error) {
	bytes, parts := 0, n.parts(size)
	for _, p := range parts {
		bytes += p.bytes
	}
	switch {
	case bytes <= most:
		return bytes, nil
	case size.Counted[jobs] > n.maxJobs:
		return 0, &solver.InvalidError{Violations: []solver.Violation{{
			Path: "snapshot.jobs", Description: fmt.Sprintf("has %d jobs; must have at most %d", size.Counted[jobs], n.maxJobs),
		}}}
	default:
		largest := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(a.bytes, b.bytes) })
		return 0, TooLarge(bytes, most, largest.of)
	}
}
