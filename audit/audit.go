// Package audit checks decisions independently of the code that makes them: given a request
// and an answer to it, it says whether the answer is legal, adds up, and is as good as it
// claims to be. It shares no code with the solvers and reads the request itself.
//
// Checked is what a plan and a proof are made of. Not checked are wait reasons, warnings,
// prices of nodes and groups, greedy_objective, times and attempts.
//
// docs/explanation/optimality-proofs.md has the mathematics. In reading order:
//
//	request.go    the request as the API defines it, and whether it is allowed
//	admission.go  which jobs get nodes, and which may do without
//	totaltime.go  what sizes are worth to OBJECTIVE_TOTAL_TIME
//	model.go      the jobs in whole numbers, and what a plan is worth
//	answer.go     what the answer says, held against that
//	search.go     the search for a better plan: prices, and what they leave to decide
//	paths.go      the plans of one job
//	tables.go     jobs that are worth what they are step by step, merged up the tree of groups
//	sweep.go      how steps and jobs share what is known of a plan
//	run.go        the combinations that are left
package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Verdict is what a check came to.
type Verdict string

// The verdicts.
const (
	// Confirmed means that the answer is legal, adds up, and that no legal plan is better
	// than it claims is possible: than its objective where it claims to be optimal, than its
	// bound otherwise, by more than Tolerance.
	Confirmed Verdict = "CONFIRMED"
	// Refuted means that the answer is wrong, which the reason shows.
	Refuted Verdict = "REFUTED"
	// Open means that nothing wrong was found and something could not be decided.
	Open Verdict = "OPEN"
)

// Tolerance is how much better than claimed a plan has to be, relative to the claim or, where
// that is less, to 1e-12, as in relative_gap.
const Tolerance = 1e-9

// scale returns what the tolerance is relative to.
func scale(numbers ...float64) float64 {
	largest := 1e-12
	for _, x := range numbers {
		largest = max(largest, math.Abs(x))
	}
	return largest
}

// DefaultWork is the count of work of a check that sets none.
const DefaultWork = 2_000_000_000

// DefaultNumbers is the count of numbers kept of a check that sets none.
const DefaultNumbers = 1 << 25

// Options limit a check.
type Options struct {
	// Work is the count of elementary steps after which the check ends OPEN, some
	// nanoseconds each; 0 means DefaultWork. It is the same on every machine.
	Work int
	// Numbers is how many numbers of 8 bytes the check may keep before it ends OPEN; 0 means
	// DefaultNumbers.
	Numbers int
}

// Report is the result of a check.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Reason says in a sentence what is wrong or what was not decided; of a confirmed answer,
	// what confirmed it.
	Reason string `json:"reason"`
}

// ending is an error that ends a check with a verdict.
type ending struct {
	verdict Verdict
	error
}

func refute(format string, args ...any) error    { return ending{Refuted, fmt.Errorf(format, args...)} }
func leaveOpen(format string, args ...any) error { return ending{Open, fmt.Errorf(format, args...)} }

// Check checks an answer to a request. It is deterministic but for ctx: when that ends, so
// does the check, OPEN. It is safe for concurrent use and changes neither message.
func Check(ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options) Report {
	reason, err := check(ctx, request, response, o)
	if end := (ending{}); errors.As(err, &end) {
		return Report{end.verdict, end.Error()}
	}
	return Report{Confirmed, reason}
}
