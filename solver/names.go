package solver

import (
	"errors"
	"fmt"
	"math"
)

// Admission is the policy that selects which jobs take part in a decision if the smallest sizes of
// all jobs do not fit into the pool together.
type Admission string

// The admissions. AdmissionFIFO makes the model of the paper feasible. The others extend that
// model. Under each of them, a job whose smallest legal size exceeds the pool blocks no other job.
const (
	// AdmissionFIFO admits the running jobs and then the queued jobs in order. It stops at the
	// first queued job whose smallest legal size does not fit.
	AdmissionFIFO Admission = "fifo"
	// AdmissionOptimized admits the running jobs as AdmissionFIFO does, and every queued job.
	// The optimizer may leave queued jobs waiting: size 0 is legal for them.
	AdmissionOptimized Admission = "optimized"
	// AdmissionPreemptive admits every job. Size 0 is legal for every job, so the optimizer may
	// also preempt running jobs, except those that have used their restart budget.
	AdmissionPreemptive Admission = "preemptive"
	// AdmissionStartFirst admits every job. Running jobs that have used their restart budget, and then
	// those that have not trained yet, keep at least their smallest legal size if it fits. Then the jobs that never started get at least their
	// smallest legal size, in order, up to the first that does not fit. A new job is skipped if it
	// would displace a running job with at most the same remaining work. Size 0 is legal for all
	// other jobs.
	AdmissionStartFirst Admission = "start-first"
)

// Admissions returns all admissions.
func Admissions() []Admission {
	return []Admission{AdmissionFIFO, AdmissionOptimized, AdmissionPreemptive, AdmissionStartFirst}
}

// BackendName names a backend in options, reports, flags and metrics.
type BackendName string

// The backends.
const (
	BackendExact  BackendName = "exact"  // embedded, the default
	BackendCBC    BackendName = "cbc"    // the MILP on CBC
	BackendHiGHS  BackendName = "highs"  // the MILP on HiGHS
	BackendGreedy BackendName = "greedy" // the four rules of the paper
)

// buildsMILP reports whether the backend passes a MILP to an external solver.
func (b BackendName) buildsMILP() bool { return b == BackendCBC || b == BackendHiGHS }

// Formulation is the mixed-integer linear program (MILP) that is passed to an external solver.
type Formulation string

// The formulations. They have the same optimum.
const (
	FormulationOneHot Formulation = "one-hot" // one binary per job, step and size
	FormulationPaper  Formulation = "paper"   // the paper's final formulation, verbatim
)

// Limit is the reason why a search stopped.
type Limit string

// The limits.
const (
	LimitNone Limit = "none" // the search is complete
	LimitGap  Limit = "gap"  // the requested gap was reached
	LimitTime Limit = "time" // the time budget expired
	LimitWork Limit = "work" // the search used up its work limit, which is deterministic
)

// OptimalGap is the largest relative gap at which a plan counts as proven optimal.
const OptimalGap = 1e-9

// tiny keeps the relative gap of an objective of 0 defined.
const tiny = 1e-12

// RelativeGap returns the gap between an objective and an upper bound,
// (bound - objective) / max(|bound|, |objective|, tiny). It is never negative, and +Inf if the
// bound is +Inf.
func RelativeGap(objective, bound float64) float64 {
	if math.IsInf(bound, 1) {
		return bound
	}
	return max(0, bound-objective) / max(math.Abs(bound), math.Abs(objective), tiny)
}

// Errors of backends.
var (
	// ErrUnavailable means that the backend cannot be called at present.
	ErrUnavailable = errors.New("backend is unavailable")
	// ErrUnsuited means that the backend does not support the problem, for example because the
	// problem is too large. It wraps ErrUnavailable.
	ErrUnsuited = fmt.Errorf("%w for this problem", ErrUnavailable)
	// ErrTimedOut means that the backend had no plan when its time budget expired.
	ErrTimedOut = errors.New("backend has no plan in time")
	// ErrInvalidPlan means that the backend returned no legal plan: fractional values, an illegal
	// size, or a claim that the problem is infeasible.
	ErrInvalidPlan = errors.New("backend has no valid plan")
)
