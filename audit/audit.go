// Package audit checks decisions independently of the code that makes them: given a request
// and an answer to it, it says whether the answer is legal, adds up, and is as good as it
// claims to be. It shares no code with the solvers and reads the request itself.
//
// docs/proofs.md has the mathematics. In short: at any prices of nodes the best plans of the
// jobs, each for itself, bound every plan of all of them (weak duality); what a plan loses
// against that bound is a sum of losses, so that few plans of each job can be part of a
// better solution; those are searched. The search is in 64-bit integers, rounded up where a
// value is taken from the request.
package audit

import (
	"context"
	"errors"
	"fmt"

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

// Tolerance is how much better than claimed a plan has to be, relative to the claim.
const Tolerance = 1e-9

// DefaultWork is the count of work of a check that sets none.
const DefaultWork = 2_000_000_000

// Options limit a check.
type Options struct {
	// Work is the count of elementary steps after which the check ends OPEN, some
	// nanoseconds each; 0 means DefaultWork. It is the same on every machine.
	Work int
}

// Report is the result of a check.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Reason says in a sentence what is wrong or what was not decided; of a confirmed answer,
	// what confirmed it.
	Reason string `json:"reason"`
}

// refuted and open are errors that end a check with that verdict.
type (
	refuted struct{ error }
	open    struct{ error }
)

func refute(format string, args ...any) error    { return refuted{fmt.Errorf(format, args...)} }
func leaveOpen(format string, args ...any) error { return open{fmt.Errorf(format, args...)} }

// Check checks an answer to a request. It is deterministic but for ctx: when that ends, so
// does the check, OPEN. It is safe for concurrent use and changes neither message.
func Check(ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options) Report {
	reason, err := check(ctx, request, response, o)
	var wrong refuted
	var undecided open
	switch {
	case err == nil:
		return Report{Confirmed, reason}
	case errors.As(err, &wrong):
		return Report{Refuted, wrong.Error()}
	case errors.As(err, &undecided):
		return Report{Open, undecided.Error()}
	default:
		return Report{Open, err.Error()}
	}
}
