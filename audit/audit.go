// Package audit checks decisions independently of the code that makes them. Given a request and
// its response, Check verifies that the decision is legal, that the reported numbers follow from
// it, and that it is as good as the report claims. The package shares no code with the solvers
// and parses the request itself.
//
// Check does not verify wait reasons, warnings, prices of nodes and groups, greedy_objective,
// times and attempts.
//
// docs/explanation/optimality-proofs.md describes the mathematics. Files in reading order:
//
//	request.go    the request with its defaults, and its validation
//	admission.go  which jobs must get nodes, and which can wait
//	totaltime.go  the value of each size under OBJECTIVE_TOTAL_TIME
//	model.go      the admitted jobs in integers, and the value of a plan
//	decision.go   the response, compared with the request and the model
//	search.go     the search for a better plan: the bound from prices, and what it leaves undecided
//	paths.go      the candidate plans of one job
//	limits.go     size limits: their validation, rows and reports
//	groups.go     the rows of groups, if there are several node types or size limits
//	tables.go     knapsack tables of decided jobs, merged up the tree of groups
//	sweep.go      message passing, which tightens the bound
//	program.go    the dynamic program over the undecided jobs
package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	// Confirmed means that the decision is legal, that its numbers are correct, and that no legal
	// plan exceeds the claim by more than Tolerance. The claim is the objective if the report
	// claims optimality, and the bound otherwise.
	Confirmed Verdict = "CONFIRMED"
	// Refuted means that the response is wrong. The reason states how.
	Refuted Verdict = "REFUTED"
	// Open means that the check found no error but could not decide everything.
	Open Verdict = "OPEN"
)

// Tolerance is by how much a plan must exceed the claim to refute it. It is relative to the
// claim, or to 1e-12 if the claim is smaller, like relative_gap.
const Tolerance = 1e-9

// toleranceScale returns the number to which Tolerance is relative: the largest magnitude, at
// least 1e-12.
func toleranceScale(numbers ...float64) float64 {
	largest := 1e-12
	for _, x := range numbers {
		largest = max(largest, math.Abs(x))
	}
	return largest
}

// DefaultWork is the default of Options.Work.
const DefaultWork = 2_000_000_000

// DefaultNumbers is the default of Options.Numbers.
const DefaultNumbers = 1 << 25

// Options limit a check.
type Options struct {
	// Work is the number of elementary operations, of some nanoseconds each, after which the check
	// returns Open. It does not depend on the machine. 0 means DefaultWork.
	Work int
	// Numbers is how many numbers of 8 bytes the check may store before it returns Open. 0 means
	// DefaultNumbers.
	Numbers int
}

// Report is the result of a check.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Reason states in one sentence what is wrong, what was not decided, or what was confirmed.
	Reason string `json:"reason"`
}

// verdictError is an error that determines the verdict.
type verdictError struct {
	verdict Verdict
	error
}

func refute(format string, args ...any) error {
	return verdictError{Refuted, fmt.Errorf(format, args...)}
}

func leaveOpen(format string, args ...any) error {
	return verdictError{Open, fmt.Errorf(format, args...)}
}

// Check checks the response to a request. It is deterministic unless ctx is canceled, in which
// case it returns Open. It is safe for concurrent use and changes neither message.
func Check(ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options) Report {
	reason, err := check(ctx, request, response, o)
	if failed := (verdictError{}); errors.As(err, &failed) {
		return Report{failed.verdict, failed.Error()}
	}
	return Report{Confirmed, reason}
}
