package apiconv

import (
	"bytes"
	"context"
	"encoding/json"
	"math"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// ToAllocateResponse converts the decision for the snapshot with the given id. includePlan includes the
// plans over the horizon.
func ToAllocateResponse(snapshotID string, d solver.Decision, includePlan bool) *elastallocv1.AllocateResponse {
	return &elastallocv1.AllocateResponse{
		SnapshotId:  snapshotID,
		Allocations: toAllocations(d.Allocations, includePlan),
		Report:      toReport(&d.Report),
	}
}

// ToFillIdleResponse converts the decision of FillIdle for the snapshot with the given id.
func ToFillIdleResponse(snapshotID string, d solver.Decision) *elastallocv1.FillIdleResponse {
	return &elastallocv1.FillIdleResponse{
		SnapshotId:  snapshotID,
		Allocations: toAllocations(d.Allocations, false),
		IdleNodes:   int32(d.Report.IdleNodes),
	}
}

func toAllocations(allocations []solver.Allocation, includePlan bool) []*elastallocv1.Allocation {
	converted := make([]*elastallocv1.Allocation, len(allocations))
	block := make([]elastallocv1.Allocation, len(allocations))
	changes, reasons := numbers[elastallocv1.Change](), numbers[elastallocv1.WaitReason]()
	for i := range allocations {
		a := &allocations[i]
		converted[i] = &block[i]
		converted[i].JobId, converted[i].Nodes = a.JobID, int32(a.Nodes)
		converted[i].Change = elastallocv1.Change(changes[string(a.Change)])
		converted[i].WaitReason, converted[i].BehindJobId = elastallocv1.WaitReason(reasons[string(a.WaitReason)]), a.BehindJobID
		converted[i].NodeType = a.NodeType
		if includePlan {
			converted[i].PlannedNodes = convertInts[int32](a.PlannedNodes)
			converted[i].PlannedProgress = a.PlannedProgress
		}
	}
	return converted
}

func toReport(r *solver.Report) *elastallocv1.SolveReport {
	converted := &elastallocv1.SolveReport{
		Backend:         Number[elastallocv1.Backend](r.Backend),
		Reason:          Number[elastallocv1.Reason](r.Reason),
		Limit:           Number[elastallocv1.Limit](r.Limit),
		Objective:       r.Objective,
		Bound:           r.Bound,
		RelativeGap:     r.RelativeGap,
		GreedyObjective: r.GreedyObjective,
		SolveTime:       durationpb.New(r.SolveTime),
		IdleNodes:       int32(r.IdleNodes),
		NodePrices:      r.NodePrices,
	}
	for _, attempt := range r.Attempts {
		converted.Attempts = append(converted.Attempts, &elastallocv1.Attempt{
			Backend:  Number[elastallocv1.Backend](attempt.Backend),
			Outcome:  Number[elastallocv1.Outcome](attempt.Outcome),
			Detail:   attempt.Detail,
			Duration: durationpb.New(attempt.Duration),
		})
	}
	for _, w := range r.Warnings {
		converted.Warnings = append(converted.Warnings, &elastallocv1.Warning{
			Code: Number[elastallocv1.WarningCode](w.Code), JobId: w.JobID, Message: w.Message,
		})
	}
	for _, g := range r.Groups {
		group := &elastallocv1.GroupReport{Id: g.ID, Nodes: int32(min(g.Nodes, math.MaxInt32)), Short: int32(g.Short), Price: g.Price}
		for _, t := range g.Types {
			group.Types = append(group.Types, &elastallocv1.GroupTypeReport{
				NodeType: t.NodeType, Nodes: int32(min(t.Nodes, math.MaxInt32)), Limit: int32(t.Limit), Price: t.Price,
			})
		}
		converted.Groups = append(converted.Groups, group)
	}
	for _, t := range r.NodeTypes {
		converted.NodeTypes = append(converted.NodeTypes, &elastallocv1.NodeTypeReport{
			Id: t.ID, Nodes: int32(t.Nodes), IdleNodes: int32(t.IdleNodes), Price: t.Price,
		})
	}
	for _, l := range r.SizeLimits {
		converted.SizeLimits = append(converted.SizeLimits, &elastallocv1.SizeLimitReport{
			Size: int32(l.Size), NodeType: l.NodeType, Nodes: int32(l.Nodes), Used: int32(l.Used), Price: l.Price,
		})
	}
	converted.Certificate = toCertificate(r.Certificate)
	return converted
}

// toCertificate converts a certificate. It returns nil if there is none.
func toCertificate(c solver.Certificate) *elastallocv1.Certificate {
	if c == nil {
		return nil
	}
	converted := new(elastallocv1.Certificate)
	for _, of := range c {
		converted.SizePrices = append(converted.SizePrices, &elastallocv1.Certificate_SizePrices{Job: int32(of.Job), Prices: of.Prices})
	}
	return converted
}

// JSON returns a message as indented protojson. Unlike protojson, its output is deterministic.
func JSON(message proto.Message, o protojson.MarshalOptions) ([]byte, error) {
	compact, err := o.Marshal(message)
	if err != nil {
		return nil, err
	}
	// Package protojson randomizes white space.
	var indented bytes.Buffer
	err = json.Indent(&indented, compact, "", "  ")
	indented.WriteByte('\n')
	return indented.Bytes(), err
}

// Allocator makes decisions in the types of the core, as *elastalloc.Allocator does.
type Allocator interface {
	Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	FillIdle(context.Context, *solver.Snapshot) (solver.Decision, error)
	Explain(ctx context.Context, s *solver.Snapshot, o solver.Options, jobIDs []string) (solver.Explanation, error)
	WhatIf(context.Context, *solver.Snapshot, solver.Options, []solver.Scenario) (solver.WhatIf, error)
	Forecast(context.Context, *solver.Snapshot, solver.Options, solver.ForecastOptions) (solver.Forecast, error)
	// MaxJobs returns the maximum number of jobs per snapshot.
	MaxJobs() int
}

// InProcess implements the methods of the API with an allocator in this process. Its errors are the
// errors of the allocator and not gRPC statuses.
type InProcess struct{ Allocator Allocator }

// Allocate decides a snapshot.
func (p InProcess) Allocate(
	ctx context.Context, request *elastallocv1.AllocateRequest,
) (*elastallocv1.AllocateResponse, error) {
	converted, err := FromAllocateRequest(request, p.Allocator.MaxJobs())
	if err != nil {
		return nil, err
	}
	decision, err := p.Allocator.Allocate(ctx, converted.Snapshot, converted.Options)
	if err != nil {
		return nil, err
	}
	return ToAllocateResponse(converted.Snapshot.ID, decision, converted.IncludePlan), nil
}

// FillIdle allocates the idle nodes of a snapshot to its queued jobs.
func (p InProcess) FillIdle(
	ctx context.Context, request *elastallocv1.FillIdleRequest,
) (*elastallocv1.FillIdleResponse, error) {
	snapshot, err := FromSnapshot(request.GetSnapshot(), p.Allocator.MaxJobs())
	if err != nil {
		return nil, err
	}
	decision, err := p.Allocator.FillIdle(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	return ToFillIdleResponse(snapshot.ID, decision), nil
}
