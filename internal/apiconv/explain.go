package apiconv

import (
	"context"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Explain decides one snapshot and says why.
func (p InProcess) Explain(ctx context.Context, request *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error) {
	converted, err := new(converter).request(request, p.Allocator.MaxJobs())
	if err != nil {
		return nil, err
	}
	explanation, err := p.Allocator.Explain(ctx, converted.Snapshot, converted.Options, request.GetJobIds())
	if err != nil {
		return nil, err
	}
	response := &elastallocv1.ExplainResponse{
		Decision: ToAllocateResponse(converted.Snapshot.ID, explanation.Decision, converted.IncludePlan),
	}
	for i := range explanation.Jobs {
		response.Jobs = append(response.Jobs, toJobExplanation(&explanation.Jobs[i]))
	}
	return response, nil
}

// toJobExplanation converts the explanation of a job.
func toJobExplanation(job *solver.JobExplanation) *elastallocv1.JobExplanation {
	converted := &elastallocv1.JobExplanation{
		JobId: job.JobID, Nodes: int32(job.Nodes), Why: Number[elastallocv1.Why](job.Why), Text: job.Text,
	}
	for _, size := range job.Sizes {
		converted.Sizes = append(converted.Sizes, &elastallocv1.SizeOption{
			Nodes: int32(size.Nodes), Loss: size.Loss, Proven: size.Proven, NodeType: size.NodeType,
		})
	}
	for _, remedy := range job.Remedies {
		r := &elastallocv1.Remedy{Nodes: int32(remedy.Nodes), NodeType: remedy.NodeType}
		switch {
		case remedy.Weight > 0:
			r.Change = &elastallocv1.Remedy_Weight{Weight: remedy.Weight}
		case remedy.TotalNodes > 0:
			r.Change = &elastallocv1.Remedy_TotalNodes{TotalNodes: int32(remedy.TotalNodes)}
		default:
			r.Change = &elastallocv1.Remedy_MinNodes{MinNodes: int32(remedy.MinNodes)}
		}
		converted.Remedies = append(converted.Remedies, r)
	}
	return converted
}
