// Package apiconv converts between the API and the decision core, in both directions. It is the only
// package that depends on both.
package apiconv

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Request is an AllocateRequest in the types of the decision core. Unset fields have their zero value,
// which means the default.
type Request struct {
	Snapshot *solver.Snapshot
	Options  solver.Options
	// IncludePlan requests the plan of every job over the horizon.
	IncludePlan bool
}

// FromAllocateRequest converts a request with at most maxJobs jobs. The error is a *solver.InvalidError
// with the path of every invalid field, such as snapshot.jobs[3].max_nodes. A field is invalid here if
// the types of the core cannot represent it, for example a duration of more than 292 years. If there is
// such a field, the error also has the violations that the validation of the core finds. Otherwise the
// request is validated later, by the allocator. Invalid fields of a job are recorded in its Bad and are
// not an error.
func FromAllocateRequest(request *elastallocv1.AllocateRequest, maxJobs int) (Request, error) {
	return new(converter).request(request, maxJobs)
}

// FromSnapshot converts a snapshot with at most maxJobs jobs. The errors are the errors of
// FromAllocateRequest.
func FromSnapshot(snapshot *elastallocv1.Snapshot, maxJobs int) (*solver.Snapshot, error) {
	var c converter
	converted := c.snapshot(snapshot, maxJobs)
	if err := c.err(converted, solver.DefaultOptions(), maxJobs); err != nil {
		return nil, err
	}
	return converted, nil
}

// converter converts parts of a request and collects violations. The paths of violations of a job are
// relative to the job.
type converter struct {
	violations []solver.Violation
	// validate returns the violations of further fields, in addition to snapshot and options. It may be nil.
	validate func(*solver.Snapshot, *solver.Options) []solver.Violation
}

func (c *converter) addf(path, format string, args ...any) {
	c.violations = append(c.violations, solver.Violation{Path: path, Description: fmt.Sprintf(format, args...)})
}

// err returns the violations of the conversion and, if there are any, the violations that the
// validation of the core finds. If both have the same path, it keeps the one of the conversion, because
// the core validated only a substitute for the invalid field.
func (c *converter) err(s *solver.Snapshot, o solver.Options, maxJobs int) error {
	if len(c.violations) == 0 {
		return nil
	}
	if s == nil {
		s = &solver.Snapshot{}
	}
	seen := make(map[string]bool, len(c.violations))
	for _, v := range c.violations {
		seen[v.Path] = true
	}
	o, s = o.WithDefaults(), s.WithDefaults()
	all := s
	if hold := o.BadJobs == solver.BadJobsHold; len(s.Jobs) <= maxJobs {
		s, _ = s.Freeze(hold)
	}
	bad := solver.Validate(s, o, maxJobs, []solver.BackendName{o.Backend})
	if c.validate != nil {
		bad = append(bad, c.validate(all, &o)...)
	}
	for _, v := range bad {
		if !seen[v.Path] {
			c.violations = append(c.violations, v)
		}
	}
	return &solver.InvalidError{Violations: c.violations}
}

// decisionRequest is implemented by all requests for decisions.
type decisionRequest interface {
	GetSnapshot() *elastallocv1.Snapshot
	GetOptions() *elastallocv1.AllocateOptions
}

// request converts snapshot and options of a request. The error also has earlier violations of the converter.
func (c *converter) request(r decisionRequest, maxJobs int) (Request, error) {
	converted := Request{
		Snapshot:    c.snapshot(r.GetSnapshot(), maxJobs),
		Options:     c.options(r.GetOptions()),
		IncludePlan: includesPlan(r.GetOptions()),
	}
	if err := c.err(converted.Snapshot, converted.Options, maxJobs); err != nil {
		return Request{}, err
	}
	return converted, nil
}

// includesPlan reports whether options request plans. A certificate includes them.
func includesPlan(o *elastallocv1.AllocateOptions) bool {
	return o.GetIncludePlan() || o.GetCertificate()
}

func (c *converter) snapshot(s *elastallocv1.Snapshot, maxJobs int) *solver.Snapshot {
	if s == nil {
		c.addf("snapshot", "is missing")
		return nil
	}
	horizon := cmp.Or(s.GetHorizon(), new(elastallocv1.Horizon))
	converted := &solver.Snapshot{
		ID:         s.GetId(),
		TotalNodes: int(s.GetTotalNodes()),
		Horizon: solver.Horizon{
			Step:  c.positive(horizon.GetStep(), "snapshot.horizon.step"),
			Steps: c.atLeastOne(horizon.Steps, "snapshot.horizon.steps"),
		},
	}
	if n := len(s.GetJobs()); n > maxJobs {
		// Jobs are not converted then, which limits the memory.
		c.addf("snapshot.jobs", "has %d jobs; must have at most %d", n, maxJobs)
		return converted
	}
	if n := len(s.GetGroups()); n > solver.MaxGroups {
		c.addf("snapshot.groups", "has %d groups; must have at most %d", n, solver.MaxGroups)
		return converted
	}
	converted.Groups = convertGroups(s.GetGroups())
	converted.NodeTypes = c.nodeTypes(s.GetNodeTypes(), "snapshot.node_types")
	converted.SizeLimits = convertSizeLimits(s.GetSizeLimits())
	converted.Jobs = make([]solver.Job, len(s.GetJobs()))
	for i, job := range s.GetJobs() {
		converted.Jobs[i] = convertJob(job)
	}
	return converted
}

// convertGroups converts groups. It returns nil if there are none. A nil entry, which is possible only
// in process, is an empty group.
func convertGroups(groups []*elastallocv1.Group) []solver.Group {
	if len(groups) == 0 {
		return nil
	}
	converted := make([]solver.Group, len(groups))
	for i, g := range groups {
		converted[i] = solver.Group{ID: g.GetId(), ParentID: g.GetParentId(), Quota: int(g.GetQuota())}
		if g != nil && g.Limit != nil {
			converted[i].Limit = new(int(*g.Limit))
		}
		for _, limit := range g.GetTypeLimits()[:min(len(g.GetTypeLimits()), solver.MaxNodeTypes+1)] {
			converted[i].TypeLimits = append(converted[i].TypeLimits, solver.GroupTypeLimit{
				NodeType: limit.GetNodeType(), Limit: int(limit.GetLimit()),
			})
		}
	}
	return converted
}

// nodeTypes converts node types. It returns nil if there are none. If there are too many, it converts
// one more than the maximum, which the validation rejects.
func (c *converter) nodeTypes(types []*elastallocv1.NodeType, path string) []solver.NodeType {
	var converted []solver.NodeType
	for i, t := range types[:min(len(types), solver.MaxNodeTypes+1)] {
		t = cmp.Or(t, new(elastallocv1.NodeType))
		converted = append(converted, solver.NodeType{
			ID: t.GetId(), Nodes: int(t.GetNodes()),
			Speed: c.positiveNumber(t.Speed, fmt.Sprintf("%s[%d].speed", path, i)),
		})
	}
	return converted
}

// convertSizeLimits converts size limits. It returns nil if there are none. If there are too many, it
// converts one more than the maximum, which the validation rejects.
func convertSizeLimits(limits []*elastallocv1.SizeLimit) []solver.SizeLimit {
	var converted []solver.SizeLimit
	for _, l := range limits[:min(len(limits), solver.MaxSizeLimits+1)] {
		converted = append(converted, solver.SizeLimit{Size: int(l.GetSize()), Nodes: int(l.GetNodes()), NodeType: l.GetNodeType()})
	}
	return converted
}

// speeds converts the speeds of a job on node types. It returns nil if there are none. If there are too
// many, it converts one more than the maximum, which the validation rejects.
func (c *converter) speeds(speeds []*elastallocv1.TypeSpeed) []solver.TypeSpeed {
	var converted []solver.TypeSpeed
	for i, s := range speeds[:min(len(speeds), solver.MaxNodeTypes+1)] {
		s, path := cmp.Or(s, new(elastallocv1.TypeSpeed)), fmt.Sprintf("speeds[%d]", i)
		converted = append(converted, solver.TypeSpeed{
			NodeType:     s.GetNodeType(),
			Factor:       c.positiveNumber(s.Factor, path+".factor"),
			Scaling:      c.scaling(s.GetScaling(), path+".scaling"),
			AllowedNodes: convertSizes(s.GetAllowedNodes()),
		})
	}
	return converted
}

// convertJob converts a job. A nil entry, which is possible only in process, is an empty job.
func convertJob(job *elastallocv1.Job) solver.Job {
	if job == nil {
		job = &elastallocv1.Job{}
	}
	var c converter
	converted := solver.Job{
		ID:           job.GetId(),
		RemainingETA: c.duration(job.GetRemainingEta(), "remaining_eta"),
		MinNodes:     c.atLeastOne(job.MinNodes, "min_nodes"),
		MaxNodes:     c.atLeastOne(job.MaxNodes, "max_nodes"),
		CurrentNodes: int(job.GetCurrentNodes()),
		TrainingTime: c.duration(job.GetTrainingTime(), "training_time"),
		Scaling:      c.scaling(job.GetScaling(), "scaling"),
		Weight:       job.Weight,
		ResizeDelay:  c.duration(job.GetResizeDelay(), "resize_delay"),
		RestartTime:  c.duration(job.GetRestartTime(), "restart_time"),
		FreeResizes:  job.RestartTime != nil && job.RestartTime.AsDuration() == 0,
		WaitingTime:  c.duration(job.GetWaitingTime(), "waiting_time"),
		ETANodes:     c.atLeastOne(job.EtaNodes, "eta_nodes"),
		GroupID:      job.GetGroupId(),
		ETAError:     job.EtaError,
		WorkDone:     c.duration(job.GetWorkDone(), "work_done"),

		CurrentNodeType: job.GetCurrentNodeType(),
		ETANodeType:     job.GetEtaNodeType(),
		AllowedNodes:    convertSizes(job.GetAllowedNodes()),
		Speeds:          c.speeds(job.GetSpeeds()),
		MoveTime:        c.optionalDuration(job.GetMoveTime(), "move_time"),
		Overrun:         job.GetOverrun(),
		PieceNodes:      int(job.GetPieceNodes()),
		RecentRestarts:  c.durations(job.GetRecentRestarts(), "recent_restarts"),
		Keep:            job.GetKeep(),
	}
	if !converted.Keep { // Otherwise, these fields are not read.
		converted.Bad = c.violations
	}
	return converted
}

func (c *converter) scaling(scaling *elastallocv1.Scaling, path string) solver.Scaling {
	var converted solver.Scaling
	switch curve := scaling.GetCurve().(type) {
	case *elastallocv1.Scaling_DoublingEfficiency:
		converted.DoublingEfficiency = curve.DoublingEfficiency
		if curve.DoublingEfficiency == 0 {
			c.addf(path+".doubling_efficiency", "is 0; must be greater than 0 and at most 1")
		}
	case *elastallocv1.Scaling_Table:
		converted.Speeds = slices.Clone(curve.Table.GetSpeeds())
		if len(converted.Speeds) == 0 {
			c.addf(path+".table.speeds", "is empty; must have one speed per legal size")
		}
	}
	return converted
}

func (c *converter) options(o *elastallocv1.AllocateOptions) solver.Options {
	return solver.Options{
		Backend:     fromEnum[solver.BackendName](c, "options.backend", o.GetBackend()),
		Formulation: fromEnum[solver.Formulation](c, "options.formulation", o.GetFormulation()),
		TimeBudget:  c.positive(o.GetTimeBudget(), "options.time_budget"),
		RelativeGap: o.GetRelativeGap(),
		Objective:   fromEnum[solver.Objective](c, "options.objective", o.GetObjective()),
		TotalTime:   c.totalTime(o.GetTotalTime()),
		Admission:   fromEnum[solver.Admission](c, "options.admission", o.GetAdmission()),
		BadJobs:     fromEnum[solver.BadJobs](c, "options.bad_jobs", o.GetBadJobs()),
		Certificate: o.GetCertificate(),
	}
}

func (c *converter) totalTime(o *elastallocv1.TotalTimeOptions) solver.TotalTimeOptions {
	if o == nil {
		return solver.TotalTimeOptions{}
	}
	optional := func(d *durationpb.Duration, name string) *time.Duration {
		return c.optionalDuration(d, "options.total_time."+name)
	}
	return solver.TotalTimeOptions{
		Fairness:         o.Fairness,
		Aging:            optional(o.GetAging(), "aging"),
		ResizePrice:      optional(o.GetResizePrice(), "resize_price"),
		Payback:          optional(o.GetPayback(), "payback"),
		PausePriceFactor: o.PausePriceFactor,
		StartBonus:       optional(o.GetStartBonus(), "start_bonus"),
		Cadence:          optional(o.GetCadence(), "cadence"),
		QuotaPrice:       o.QuotaPrice,
		ETAError:         o.EtaError,
		SharePrice:       o.SharePrice,
	}
}

// fromEnum converts an enum number. An unknown number, for example of a newer client, is a violation.
func fromEnum[Value ~string, E Enum](c *converter, path string, number E) Value {
	name := Name(number)
	if name == "" && number != 0 {
		c.addf(path, "is %d; must be one of %s", int32(number), strings.Join(APINames(number.Descriptor()), ", "))
	}
	return Value(name)
}

// duration converts a Duration, unset to 0. It is a violation if it is invalid or does not fit a
// time.Duration.
func (c *converter) duration(d *durationpb.Duration, path string) time.Duration {
	if d == nil {
		return 0
	}
	converted := d.AsDuration()
	// AsDuration saturates, so only durations that fit are unchanged by a round trip.
	if back := durationpb.New(converted); !d.IsValid() {
		c.addf(path, "is not a valid duration (%d s and %d ns)", d.GetSeconds(), d.GetNanos())
	} else if back.GetSeconds() != d.GetSeconds() || back.GetNanos() != d.GetNanos() {
		c.addf(path, "is out of range (%d s); must be at most 292 years", d.GetSeconds())
	}
	return converted
}

// durations converts a list of Durations. It returns nil if there are none. If there are too many, it
// converts one more than the maximum, which the validation rejects.
func (c *converter) durations(list []*durationpb.Duration, path string) []time.Duration {
	var converted []time.Duration
	for n, d := range list[:min(len(list), solver.MaxRecentRestarts+1)] {
		converted = append(converted, c.duration(d, fmt.Sprintf("%s[%d]", path, n)))
	}
	return converted
}

// optionalDuration converts a Duration, unset to nil.
func (c *converter) optionalDuration(d *durationpb.Duration, path string) *time.Duration {
	if d == nil {
		return nil
	}
	return new(c.duration(d, path))
}

// positive converts a Duration, unset to 0. An explicit 0 is a violation.
func (c *converter) positive(d *durationpb.Duration, path string) time.Duration {
	converted := c.duration(d, path)
	if d != nil && converted == 0 && d.IsValid() {
		c.addf(path, "is 0s; must be greater than 0")
	}
	return converted
}

// atLeastOne converts an optional number, unset to 0. An explicit 0 is a violation.
func (c *converter) atLeastOne(value *int32, path string) int {
	if value == nil {
		return 0
	}
	if *value == 0 {
		c.addf(path, "is 0; must be at least 1")
	}
	return int(*value)
}

// positiveNumber converts an optional number, unset to 0. It is a violation if it is not greater than 0
// and at most solver.MaxSpeed.
func (c *converter) positiveNumber(value *float64, path string) float64 {
	if value == nil {
		return 0
	}
	if !(*value > 0 && *value <= solver.MaxSpeed) {
		c.addf(path, "is %v; must be greater than 0 and at most %g", *value, float64(solver.MaxSpeed))
		return 0
	}
	return *value
}

// convertSizes converts legal sizes. It returns nil if there are none.
func convertSizes(sizes []int32) []int {
	if len(sizes) == 0 {
		return nil
	}
	return convertInts[int](sizes)
}

func convertInts[To, From int | int32](list []From) []To {
	converted := make([]To, len(list))
	for i, v := range list {
		converted[i] = To(v)
	}
	return converted
}

// ToAllocateRequest converts a request of the core. Numbers of nodes must fit in 32 bits.
func ToAllocateRequest(r Request) *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{
		Snapshot: ToSnapshot(r.Snapshot),
		Options: &elastallocv1.AllocateOptions{
			Backend:     Number[elastallocv1.Backend](r.Options.Backend),
			Formulation: Number[elastallocv1.Formulation](r.Options.Formulation),
			RelativeGap: r.Options.RelativeGap,
			Objective:   Number[elastallocv1.Objective](r.Options.Objective),
			TotalTime:   toTotalTime(&r.Options.TotalTime),
			Admission:   Number[elastallocv1.Admission](r.Options.Admission),
			BadJobs:     Number[elastallocv1.BadJobs](r.Options.BadJobs),
			IncludePlan: r.IncludePlan,
			Certificate: r.Options.Certificate,
			TimeBudget:  optionalDuration(r.Options.TimeBudget),
		},
	}
}

// toTotalTime converts parameters. It returns nil if none is set.
func toTotalTime(o *solver.TotalTimeOptions) *elastallocv1.TotalTimeOptions {
	if *o == (solver.TotalTimeOptions{}) {
		return nil
	}
	return &elastallocv1.TotalTimeOptions{
		Fairness:         o.Fairness,
		Aging:            toTime(o.Aging),
		ResizePrice:      toTime(o.ResizePrice),
		Payback:          toTime(o.Payback),
		PausePriceFactor: o.PausePriceFactor,
		StartBonus:       toTime(o.StartBonus),
		Cadence:          toTime(o.Cadence),
		QuotaPrice:       o.QuotaPrice,
		EtaError:         o.ETAError,
		SharePrice:       o.SharePrice,
	}
}

// ToSnapshot converts a snapshot of the core, nil to nil. Fields that have a default are left unset if
// they are 0. Numbers of nodes must fit in 32 bits.
func ToSnapshot(s *solver.Snapshot) *elastallocv1.Snapshot {
	if s == nil {
		return nil
	}
	converted := &elastallocv1.Snapshot{
		Id: s.ID, TotalNodes: int32(s.TotalNodes),
		Jobs: make([]*elastallocv1.Job, len(s.Jobs)),
	}
	if s.Horizon != (solver.Horizon{}) {
		converted.Horizon = &elastallocv1.Horizon{Step: optionalDuration(s.Horizon.Step), Steps: optional(int32(s.Horizon.Steps))}
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		converted.Jobs[i] = &elastallocv1.Job{
			Id:           job.ID,
			RemainingEta: durationpb.New(job.RemainingETA),
			MinNodes:     optional(int32(job.MinNodes)),
			MaxNodes:     optional(int32(job.MaxNodes)),
			CurrentNodes: int32(job.CurrentNodes),
			TrainingTime: optionalDuration(job.TrainingTime),
			AllowedNodes: convertInts[int32](job.AllowedNodes),
			Scaling:      toScaling(job.Scaling),
			Weight:       job.Weight,
			ResizeDelay:  optionalDuration(job.ResizeDelay),
			RestartTime:  toRestartTime(job),
			WaitingTime:  optionalDuration(job.WaitingTime),
			EtaNodes:     optional(int32(job.ETANodes)),
			GroupId:      job.GroupID,
			EtaError:     job.ETAError,
			WorkDone:     optionalDuration(job.WorkDone),

			CurrentNodeType: job.CurrentNodeType,
			EtaNodeType:     job.ETANodeType,
			Speeds:          toSpeeds(job.Speeds),
			MoveTime:        toTime(job.MoveTime),
			Overrun:         job.Overrun,
			PieceNodes:      optional(int32(job.PieceNodes)),
			RecentRestarts:  toDurations(job.RecentRestarts),
			Keep:            job.Keep,
		}
	}
	for _, t := range s.NodeTypes {
		converted.NodeTypes = append(converted.NodeTypes, &elastallocv1.NodeType{
			Id: t.ID, Nodes: int32(t.Nodes), Speed: optional(t.Speed),
		})
	}
	for _, l := range s.SizeLimits {
		converted.SizeLimits = append(converted.SizeLimits, &elastallocv1.SizeLimit{
			Size: int32(l.Size), Nodes: int32(l.Nodes), NodeType: l.NodeType,
		})
	}
	for _, g := range s.Groups {
		group := &elastallocv1.Group{Id: g.ID, ParentId: g.ParentID, Quota: int32(g.Quota)}
		for _, limit := range g.TypeLimits {
			group.TypeLimits = append(group.TypeLimits, &elastallocv1.GroupTypeLimit{NodeType: limit.NodeType, Limit: int32(limit.Limit)})
		}
		if g.Limit != nil {
			group.Limit = new(int32(*g.Limit))
		}
		converted.Groups = append(converted.Groups, group)
	}
	return converted
}

func toSpeeds(speeds []solver.TypeSpeed) []*elastallocv1.TypeSpeed {
	var converted []*elastallocv1.TypeSpeed
	for _, s := range speeds {
		converted = append(converted, &elastallocv1.TypeSpeed{
			NodeType: s.NodeType, Factor: optional(s.Factor), Scaling: toScaling(s.Scaling),
			AllowedNodes: convertInts[int32](s.AllowedNodes),
		})
	}
	return converted
}

// toScaling converts a scaling. It returns nil if the scaling is not set.
func toScaling(s solver.Scaling) *elastallocv1.Scaling {
	switch {
	case s.Speeds != nil:
		return &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{
			Table: &elastallocv1.SpeedTable{Speeds: slices.Clone(s.Speeds)},
		}}
	case s.DoublingEfficiency != 0:
		return &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{
			DoublingEfficiency: s.DoublingEfficiency,
		}}
	default:
		return nil
	}
}

// toRestartTime converts the restart time of a job, unknown to unset.
func toRestartTime(job *solver.Job) *durationpb.Duration {
	if job.FreeResizes {
		return durationpb.New(job.RestartTime)
	}
	return optionalDuration(job.RestartTime)
}

func toDurations(list []time.Duration) []*durationpb.Duration {
	var converted []*durationpb.Duration
	for _, d := range list {
		converted = append(converted, durationpb.New(d))
	}
	return converted
}

// toTime converts a duration, nil to unset.
func toTime(d *time.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(*d)
}

// optionalDuration converts a duration, 0 to unset.
func optionalDuration(d time.Duration) *durationpb.Duration { return toTime(optional(d)) }

// optional converts a number, 0 to unset.
func optional[Number ~int32 | ~int64 | ~float64](value Number) *Number {
	if value == 0 {
		return nil
	}
	return &value
}
