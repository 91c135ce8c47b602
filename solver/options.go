package solver

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Options are the options of a decision. The zero value of a field means its default.
type Options struct {
	// Backend is the backend that is called first. "" means BackendExact.
	Backend BackendName
	// Formulation is the MILP that a backend passes to an external solver, see Options.MILP. Only
	// ObjectiveProgress and the backends cbc and highs use it. "" means FormulationOneHot.
	Formulation Formulation
	// TimeBudget limits the time for the decision. 0 means the default of the allocator and the
	// deadline of the context.
	TimeBudget time.Duration
	// RelativeGap stops the search if the plan is proven within this share of the optimum. It is
	// at least 0 and less than 1. 0 means that the search has to prove optimality.
	RelativeGap float64
	// Objective is the objective of the decision. "" means ObjectiveTotalTime.
	Objective Objective
	// TotalTime are the parameters of ObjectiveTotalTime.
	TotalTime TotalTimeOptions
	// Admission selects the jobs that take part in the decision if not all minimums fit. "" means
	// AdmissionStartFirst with ObjectiveTotalTime and otherwise AdmissionFIFO.
	Admission Admission
	// NoBound omits the bound of a decision by the greedy backend, because the bound takes far
	// longer than the decision. Report.Bound is then +Inf.
	NoBound bool
	// NoRemedies omits the remedies of an explanation, which take most of its time.
	NoRemedies bool
	// Certificate requests Report.Certificate.
	Certificate bool
	// BadJobs selects how jobs with invalid fields are treated. "" means BadJobsRefuse.
	BadJobs BadJobs
	// Interrupt stops the call if it is done. The call then returns the best result found so far,
	// as if its time budget had expired. Nil means that the call is not interrupted.
	Interrupt context.Context
	// AcquireWorker limits the goroutines of calls that make many decisions. Nil means one
	// goroutine per processor.
	AcquireWorker AcquireWorker
}

// BadJobs selects how a request in which jobs have invalid fields is treated.
type BadJobs string

// The ways to treat bad jobs.
const (
	// BadJobsRefuse rejects the request.
	BadJobsRefuse BadJobs = "refuse"
	// BadJobsHold freezes jobs with invalid fields: they keep their current nodes, which are not
	// available to the other jobs. The decision covers all other jobs, and a warning names each
	// frozen job.
	BadJobsHold BadJobs = "hold"
)

// AcquireWorker acquires one more goroutine for a call. ok is false if none is available. The
// goroutine has to use the returned context and call release when it is done.
type AcquireWorker func(ctx context.Context) (workerCtx context.Context, release func(), ok bool)

// DefaultOptions returns the options of an empty request.
func DefaultOptions() Options { return Options{}.WithDefaults() }

// WithDefaults returns the options with the default of every field that is not set, except for
// TimeBudget, which the allocator sets, and Formulation, because a warning names one that is set.
func (o Options) WithDefaults() Options {
	o.Backend = cmp.Or(o.Backend, BackendExact)
	o.Objective = cmp.Or(o.Objective, DefaultObjective)
	o.Admission = cmp.Or(o.Admission, o.Spec().Admission)
	o.BadJobs = cmp.Or(o.BadJobs, BadJobsRefuse)
	return o
}

// MILP returns the formulation for external solvers. An objective that decides one step has only
// FormulationOneHot.
func (o *Options) MILP() Formulation {
	if o.Spec().OneStep {
		return FormulationOneHot
	}
	return cmp.Or(o.Formulation, FormulationOneHot)
}

// IgnoresFormulation reports whether Formulation is set and has no effect: the objective has only one
// formulation, and Backend builds no MILP.
func (o *Options) IgnoresFormulation() bool {
	return o.Formulation != "" && o.Spec().OneStep && !o.Backend.buildsMILP()
}

// Horizon returns the look-ahead of the decision on a snapshot, which has its defaults.
func (o *Options) Horizon(s *Snapshot) Horizon {
	if o.Spec().OneStep {
		return Horizon{Step: ValueOr(o.TotalTime.Payback, DefaultPayback), Steps: 1}
	}
	return s.Horizon
}

// Validate returns the invalid fields of options that have their defaults. known are the existing
// backends.
func (o Options) Validate(known []BackendName) []Violation {
	var bad Violations
	validateName(&bad, "backend", o.Backend, known)
	validateName(&bad, "formulation", cmp.Or(o.Formulation, FormulationOneHot), []Formulation{FormulationOneHot, FormulationPaper})
	if o.TimeBudget < 0 {
		bad.Addf("time_budget", "is %v; must be greater than 0", o.TimeBudget)
	}
	if gap := o.RelativeGap; !(gap >= 0 && gap < 1) {
		bad.Addf("relative_gap", "is %v; must be at least 0 and less than 1", gap)
	}
	spec := o.Spec()
	if spec.Name != o.Objective {
		validateName(&bad, "objective", o.Objective, objectiveNames(func(ObjectiveSpec) bool { return true }))
	}
	if spec.OneStep && o.Formulation == FormulationPaper && o.Backend.buildsMILP() {
		bad.Addf("formulation", "is %s, for which options.objective must be %s; it is %s", APIName("FORMULATION", o.Formulation),
			APIName("OBJECTIVE", ObjectiveProgress), APIName("OBJECTIVE", o.Objective))
	}
	o.TotalTime.validate(&bad)
	validateName(&bad, "admission", o.Admission, Admissions())
	validateName(&bad, "bad_jobs", o.BadJobs, []BadJobs{BadJobsRefuse, BadJobsHold})
	return bad
}

// validateName reports a value that is not one of the known values.
func validateName[Name ~string](bad *Violations, path string, value Name, known []Name) {
	if slices.Contains(known, value) {
		return
	}
	names := make([]string, len(known))
	for i, name := range known {
		names[i] = string(name)
	}
	bad.Addf(path, "is %q; must be one of %s", string(value), strings.Join(names, ", "))
}
