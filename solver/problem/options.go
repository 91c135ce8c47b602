package problem

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Options is what a caller asks of a decision. The zero value asks for the default
// of every field.
type Options struct {
	// Backend is asked first; "" means BackendExact.
	Backend BackendName
	// Formulation is the model for a backend that hands one to an external solver; ""
	// means FormulationOneHot.
	Formulation Formulation
	// TimeBudget caps the decision; 0 leaves that to the allocator's default and to
	// the context.
	TimeBudget time.Duration
	// RelativeGap ends the search once the plan is proven within this share of the
	// optimum. At least 0 and less than 1; 0 means prove optimality.
	RelativeGap float64
	// Objective is what is maximised; "" means ObjectiveProgress.
	Objective Objective
	// CustomObjective is an objective that is not one of Objectives, by its whole row; it goes
	// before Objective. Nil means none.
	CustomObjective *ObjectiveSpec
	// TotalTime are the parameters of ObjectiveTotalTime.
	TotalTime TotalTimeOptions
	// Admission is who gets nodes when the minimums do not all fit; "" means
	// AdmissionFIFO.
	Admission Admission
	// PriceHint is Report.NodePrices of the caller's decision before, each finite and at
	// least 0. It changes no decision, and makes none faster today: a search finds prices as
	// soon as it would improve others.
	PriceHint []float64
	// NoBound leaves the bound of an answer without a search, greedy's, at +Inf: it takes far
	// longer than the rules do.
	NoBound bool
	// NoRemedies leaves out of an explanation the remedies, which take most of its time.
	NoRemedies bool
	// Certificate asks for Report.Certificate.
	Certificate bool
	// BadJobs is what becomes of a snapshot in which a job has bad fields; "" means
	// BadJobsRefuse.
	BadJobs BadJobs
	// Interrupt, when it ends, ends the call with the best that it has found, as if its time
	// budget were up; nil never does.
	Interrupt context.Context
	// AcquireWorker grants goroutines to calls that make many decisions; nil grants one per
	// processor.
	AcquireWorker AcquireWorker
}

// BadJobs is what becomes of a request in which a job has bad fields.
type BadJobs string

// The ways to treat bad jobs.
const (
	// BadJobsRefuse refuses the request.
	BadJobsRefuse BadJobs = "refuse"
	// BadJobsHold lets a job with bad fields keep its current nodes, which leave the
	// pool, and decides on all others; a warning names it.
	BadJobsHold BadJobs = "hold"
)

// AcquireWorker grants a call one more goroutine, if one is free, which works with the context that
// AcquireWorker returns; release gives it back.
type AcquireWorker func(ctx context.Context) (own context.Context, release func(), ok bool)

// DefaultOptions returns the options of an empty request.
func DefaultOptions() Options { return Options{}.WithDefaults() }

// FillIdleOptions returns the options that a snapshot to fill is valid under: with no
// objective, which could limit what it may hold.
func FillIdleOptions() Options {
	return Options{CustomObjective: &ObjectiveSpec{Step: func(*Options) time.Duration { return snapshot.DefaultStep }}}.WithDefaults()
}

// WithDefaults returns the options with the default of every field that is not set,
// but for TimeBudget, whose default is the allocator's.
func (o Options) WithDefaults() Options {
	o.Backend = cmp.Or(o.Backend, BackendExact)
	o.Formulation = cmp.Or(o.Formulation, FormulationOneHot)
	if o.CustomObjective != nil {
		o.Objective = o.CustomObjective.Name
	}
	o.Objective = cmp.Or(o.Objective, ObjectiveProgress)
	o.Admission = cmp.Or(o.Admission, AdmissionFIFO)
	o.BadJobs = cmp.Or(o.BadJobs, BadJobsRefuse)
	return o
}

// Horizon returns how far the decision on a snapshot with its defaults looks ahead.
func (o *Options) Horizon(s *snapshot.Snapshot) snapshot.Horizon {
	if step := o.Spec().Step; step != nil {
		return snapshot.Horizon{Step: step(o), Steps: 1}
	}
	return s.Horizon
}

// Validate returns every bad field of options that have their defaults. known are
// the backends that exist.
func (o Options) Validate(known []BackendName) []snapshot.Violation {
	var bad snapshot.Violations
	validateName(&bad, "backend", o.Backend, known)
	validateName(&bad, "formulation", o.Formulation, []Formulation{FormulationOneHot, FormulationPaper})
	if o.TimeBudget < 0 {
		bad.Addf("time_budget", "is %v; want more than 0", o.TimeBudget)
	}
	if gap := o.RelativeGap; !(gap >= 0 && gap < 1) {
		bad.Addf("relative_gap", "is %v; want at least 0 and less than 1", gap)
	}
	spec := o.Spec()
	if spec.Name != o.Objective {
		validateName(&bad, "objective", o.Objective, objectiveNames(func(ObjectiveSpec) bool { return true }))
	}
	if spec.Step != nil && o.Formulation == FormulationPaper {
		bad.Addf("formulation", "is %s, which is not for %s; want %s", APIName("FORMULATION", o.Formulation),
			APIName("OBJECTIVE", o.Objective), APIName("FORMULATION", FormulationOneHot))
	}
	for _, spec := range Objectives() {
		if validate := spec.parameters.validate; validate != nil {
			validate(&o, &bad)
		}
	}
	validateName(&bad, "admission", o.Admission, Admissions())
	validateName(&bad, "bad_jobs", o.BadJobs, []BadJobs{BadJobsRefuse, BadJobsHold})
	if n := len(o.PriceHint); n > snapshot.MaxSteps {
		bad.Addf("price_hint", "has %d prices; want at most one per step, %d", n, snapshot.MaxSteps)
		return bad
	}
	for t, price := range o.PriceHint {
		if !(price >= 0 && !math.IsInf(price, 1)) {
			bad.Addf(fmt.Sprintf("price_hint[%d]", t), "is %v; want a finite price of at least 0", price)
		}
	}
	return bad
}

// validateName reports a value that is not one of those known.
func validateName[Name ~string](bad *snapshot.Violations, path string, value Name, known []Name) {
	if slices.Contains(known, value) {
		return
	}
	names := make([]string, len(known))
	for i, name := range known {
		names[i] = string(name)
	}
	bad.Addf(path, "is %q; want one of %s", string(value), strings.Join(names, ", "))
}
