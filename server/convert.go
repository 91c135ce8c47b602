package server

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Request is an AllocateRequest in the terms of the decision core, every unset
// field at its default.
type Request struct {
	// Snapshot is valid.
	Snapshot *solver.Snapshot
	// Options has a TimeBudget of 0 where the request names none: that default is
	// the chain's to apply.
	Options solver.Options
	// IncludePlan asks for every job's plan over the horizon.
	IncludePlan bool
}

// ConvertRequest converts and validates a request of at most maxJobs jobs. Its
// error is a *solver.InvalidError that names every bad field once, by its path in
// the API such as snapshot.jobs[3].max_nodes. A nil request is an empty one.
func ConvertRequest(request *elastallocv1.AllocateRequest, maxJobs int) (Request, error) {
	var c converter
	snapshot := c.snapshot(request.GetSnapshot(), maxJobs)
	options := c.options(request.GetOptions())
	if len(c.violations) > 0 {
		return Request{}, &solver.InvalidError{Violations: c.violations}
	}
	return Request{Snapshot: snapshot, Options: options, IncludePlan: request.GetOptions().GetIncludePlan()}, nil
}

// converter converts parts of a request and collects their bad fields.
type converter struct {
	violations []solver.Violation
}

func (c *converter) addf(path, format string, args ...any) {
	c.violations = append(c.violations, solver.Violation{Path: path, Description: fmt.Sprintf(format, args...)})
}

// snapshot converts a snapshot and adds what the core's own validation finds to
// what the conversion found. Where both know a path the conversion knows better:
// the core saw only what was put in place of the bad field.
func (c *converter) snapshot(s *elastallocv1.Snapshot, maxJobs int) *solver.Snapshot {
	if s == nil {
		c.addf("snapshot", "is missing")
		return nil
	}
	horizon := s.GetHorizon()
	if horizon == nil {
		horizon = &elastallocv1.Horizon{}
	}
	converted := &solver.Snapshot{
		ID:         s.GetId(),
		TotalNodes: int(s.GetTotalNodes()),
		Horizon: solver.Horizon{
			Step:  c.duration(horizon.GetStep(), solver.DefaultStep, "snapshot.horizon.step"),
			Steps: unsetInt(horizon.Steps, solver.DefaultSteps),
		},
	}
	if n := len(s.GetJobs()); n > maxJobs {
		// Nothing is said about single jobs then, and no memory is spent on them.
		c.addf("snapshot.jobs", "holds %d jobs; want at most %d", n, maxJobs)
	} else {
		converted.Jobs = make([]solver.Job, n)
		for i, job := range s.GetJobs() {
			converted.Jobs[i] = c.job(i, job)
		}
	}

	known := make(map[string]bool, len(c.violations))
	for _, v := range c.violations {
		known[v.Path] = true
	}
	for _, v := range converted.Validate(maxJobs) {
		if v.Path = "snapshot." + v.Path; !known[v.Path] {
			c.violations = append(c.violations, v)
		}
	}
	return converted
}

// job converts job i. A null entry, which only a caller in process can make, is
// an empty job.
func (c *converter) job(i int, job *elastallocv1.Job) solver.Job {
	if job == nil {
		job = &elastallocv1.Job{}
	}
	if job.GetRemainingEta() == nil {
		c.addf(fmt.Sprintf("snapshot.jobs[%d].remaining_eta", i), "is missing; every job needs one")
	}
	converted := solver.Job{
		ID:           job.GetId(),
		RemainingETA: c.duration(job.GetRemainingEta(), 0, "snapshot.jobs[%d].remaining_eta", i),
		MinNodes:     unsetInt(job.MinNodes, solver.DefaultMinNodes),
		MaxNodes:     unsetInt(job.MaxNodes, solver.DefaultMaxNodes),
		CurrentNodes: int(job.GetCurrentNodes()),
		TrainingTime: c.duration(job.GetTrainingTime(), 0, "snapshot.jobs[%d].training_time", i),
		Scaling:      c.scaling(i, job.GetScaling()),
		Weight:       solver.DefaultWeight,
		RescaleDelay: c.duration(job.GetRescaleDelay(), 0, "snapshot.jobs[%d].rescale_delay", i),
	}
	if job.Weight != nil {
		converted.Weight = job.GetWeight()
	}
	if len(job.GetAllowedNodes()) > 0 {
		converted.AllowedNodes = convertInts[int](job.GetAllowedNodes())
	}
	return converted
}

// scaling converts the scaling of job i.
func (c *converter) scaling(i int, scaling *elastallocv1.Scaling) solver.Scaling {
	converted := solver.Scaling{DoublingEfficiency: solver.DefaultDoublingEfficiency}
	switch curve := scaling.GetCurve().(type) {
	case *elastallocv1.Scaling_DoublingEfficiency:
		converted.DoublingEfficiency = curve.DoublingEfficiency
	case *elastallocv1.Scaling_Table:
		if len(curve.Table.GetSpeeds()) == 0 {
			c.addf(fmt.Sprintf("snapshot.jobs[%d].scaling.table.speeds", i), "is empty; want one speed per legal size")
			break
		}
		converted.Speeds = slices.Clone(curve.Table.GetSpeeds())
	}
	return converted
}

// options converts the options of a request.
func (c *converter) options(o *elastallocv1.AllocateOptions) solver.Options {
	converted := solver.Options{
		Backend:     convertEnum(c, "options.backend", o.GetBackend(), backends()),
		Formulation: convertEnum(c, "options.formulation", o.GetFormulation(), formulations()),
		TimeBudget:  c.duration(o.GetTimeBudget(), 0, "options.time_budget"),
		RelativeGap: o.GetRelativeGap(),
		Mode:        convertEnum(c, "options.mode", o.GetMode(), modes()),
		Admission:   convertEnum(c, "options.admission", o.GetAdmission(), admissions()),
	}
	if budget := o.GetTimeBudget(); budget != nil && durationProblem(budget) == "" && budget.AsDuration() <= 0 {
		c.addf("options.time_budget", "is %v; want more than 0", budget.AsDuration())
	}
	if gap := converted.RelativeGap; !(gap >= 0 && gap < 1) {
		c.addf("options.relative_gap", "is %v; want at least 0 and less than 1", gap)
	}
	return converted
}

// duration converts a Duration and reports a bad one under the path that
// pathFormat and pathArgs make: spelled out only then, for nearly all are good.
func (c *converter) duration(d *durationpb.Duration, unset time.Duration, pathFormat string, pathArgs ...any) time.Duration {
	if d == nil {
		return unset
	}
	if problem := durationProblem(d); problem != "" {
		c.addf(fmt.Sprintf(pathFormat, pathArgs...), "%s", problem)
	}
	return d.AsDuration()
}

// durationProblem says what is wrong with a Duration that is invalid or does not
// fit a time.Duration, "" of a good one.
func durationProblem(d *durationpb.Duration) string {
	if !d.IsValid() {
		return fmt.Sprintf("is no valid duration (%d s and %d ns)", d.GetSeconds(), d.GetNanos())
	}
	// AsDuration saturates, so only what fits survives the way back.
	if back := durationpb.New(d.AsDuration()); back.GetSeconds() != d.GetSeconds() || back.GetNanos() != d.GetNanos() {
		return fmt.Sprintf("is out of range (%d s); want at most 292 years", d.GetSeconds())
	}
	return ""
}

// unsetInt returns the value of an optional field, or the default if it is unset.
func unsetInt(value *int32, unset int) int {
	if value == nil {
		return unset
	}
	return int(*value)
}

// convertInts converts a list of numbers of nodes.
func convertInts[To, From int | int32](list []From) []To {
	converted := make([]To, len(list))
	for i, v := range list {
		converted[i] = To(v)
	}
	return converted
}

// ConvertDecision converts the decision on the snapshot of the given id, with the
// plans over the horizon where they are asked for.
func ConvertDecision(snapshotID string, d solver.Decision, includePlan bool) *elastallocv1.AllocateResponse {
	response := &elastallocv1.AllocateResponse{
		SnapshotId:  snapshotID,
		Allocations: make([]*elastallocv1.Allocation, len(d.Allocations)),
		Report:      convertReport(&d.Report),
	}
	changes := changes()
	for i := range d.Allocations {
		a := &d.Allocations[i]
		response.Allocations[i] = &elastallocv1.Allocation{
			JobId:  a.JobID,
			Nodes:  int32(a.Nodes),
			Change: enumOf[elastallocv1.Change](a.Change, changes),
		}
		if includePlan {
			response.Allocations[i].PlannedNodes = convertInts[int32](a.PlannedNodes)
			response.Allocations[i].PlannedProgress = a.PlannedProgress
		}
	}
	return response
}

// convertReport converts the report of a decision.
func convertReport(r *solver.Report) *elastallocv1.SolveReport {
	converted := &elastallocv1.SolveReport{
		Backend:         enumOf[elastallocv1.Backend](r.Backend, backends()),
		Reason:          enumOf[elastallocv1.Reason](r.Reason, reasons()),
		Limit:           enumOf[elastallocv1.Limit](r.Limit, limits()),
		Objective:       r.Objective,
		Bound:           r.Bound,
		RelativeGap:     r.RelativeGap,
		GreedyObjective: r.GreedyObjective,
		SolveTime:       durationpb.New(r.SolveTime),
		IdleNodes:       int32(r.IdleNodes),
	}
	for _, attempt := range r.Attempts {
		converted.Attempts = append(converted.Attempts, &elastallocv1.Attempt{
			Backend:  enumOf[elastallocv1.Backend](attempt.Backend, backends()),
			Outcome:  enumOf[elastallocv1.Outcome](attempt.Outcome, outcomes()),
			Detail:   attempt.Detail,
			Duration: durationpb.New(attempt.Duration),
		})
	}
	return converted
}
