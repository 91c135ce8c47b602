package apiconv

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Explain decides a snapshot and explains the decision.
func (p InProcess) Explain(ctx context.Context, request *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error) {
	c := converter{validate: func(s *solver.Snapshot, _ *solver.Options) []solver.Violation {
		if len(s.Jobs) < len(request.GetSnapshot().GetJobs()) {
			return nil // There are too many jobs, so that they were not converted.
		}
		return s.UnknownJobs(request.GetJobIds())
	}}
	converted, err := c.request(request, p.Allocator.MaxJobs())
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
		r := &elastallocv1.Remedy{
			Nodes: int32(remedy.Nodes), NodeType: remedy.NodeType, NodesType: remedy.NodesType, MachineNodes: int32(remedy.MachineNodes),
		}
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

// fromForecastRequest converts the options of a forecast. Invalid fields are recorded in Bad.
func fromForecastRequest(r *elastallocv1.ForecastRequest) solver.ForecastOptions {
	var c converter
	options := solver.ForecastOptions{
		ArrivalsPerHour: r.GetArrivalsPerHour(),
		Cadence:         c.positive(r.GetCadence(), "cadence"),
		EveryEvent:      r.GetEveryEvent(),
		ETAError:        r.GetEtaError(),
		Samples:         int(r.GetSamples()),
		Seed:            r.GetSeed(),
		Until:           c.positive(r.GetUntil(), "until"),
	}
	options.Bad = c.violations
	return options
}

// Forecast simulates the cluster from a snapshot on.
func (p InProcess) Forecast(ctx context.Context, request *elastallocv1.ForecastRequest) (*elastallocv1.ForecastResponse, error) {
	options := fromForecastRequest(request)
	c := converter{validate: func(s *solver.Snapshot, o *solver.Options) []solver.Violation {
		options := options.WithDefaults(s, o)
		return options.Validate()
	}}
	converted, err := c.request(request, p.Allocator.MaxJobs())
	if err != nil {
		return nil, err
	}
	forecast, err := p.Allocator.Forecast(ctx, converted.Snapshot, converted.Options, options)
	if err != nil {
		return nil, err
	}
	response := &elastallocv1.ForecastResponse{
		MeanTotal: durationpb.New(forecast.MeanTotal), MeanQueue: durationpb.New(forecast.MeanQueue),
		Decisions: forecast.Decisions, Complete: forecast.Complete, Stalled: forecast.Stalled,
		IfNothingElse: request.GetArrivalsPerHour() == 0,
	}
	for i := range forecast.Jobs {
		job := &forecast.Jobs[i]
		response.Jobs = append(response.Jobs, &elastallocv1.JobForecast{
			JobId: job.JobID,
			Start: toTime(job.Start), StartLow: toTime(job.StartLow), StartHigh: toTime(job.StartHigh),
			End: toTime(job.End), EndLow: toTime(job.EndLow), EndHigh: toTime(job.EndHigh),
			Resizes: int32(job.Resizes), Ended: job.End != nil,
		})
	}
	return response, nil
}

// fromScenarios converts scenarios with at most maxJobs put jobs each. plans reports for each scenario
// whether its decision includes the plan. If there are too many scenarios, that is the only violation,
// and they are not converted.
func (c *converter) fromScenarios(
	request *elastallocv1.WhatIfRequest, maxJobs int,
) (scenarios []solver.Scenario, plans []bool) {
	if n := len(request.GetScenarios()); n > solver.MaxScenarios {
		c.addf("scenarios", "has %d scenarios; must have at most %d", n, solver.MaxScenarios)
		return nil, nil
	}
	for i, s := range request.GetScenarios() {
		if n := len(s.GetName()); n > solver.MaxIDBytes {
			c.addf(fmt.Sprintf("scenarios[%d].name", i), "has %d bytes; must have at most %d", n, solver.MaxIDBytes)
		}
		var sub converter
		scenario := solver.Scenario{Name: s.GetName(), RemoveJobIDs: s.GetRemoveJobIds()}
		if s != nil && s.TotalNodes != nil {
			scenario.TotalNodes = new(int(s.GetTotalNodes()))
		}
		scenario.PutSizeLimits = convertSizeLimits(s.GetPutSizeLimits())
		scenario.PutNodeTypes = sub.nodeTypes(s.GetPutNodeTypes(), "put_node_types")
		if n := len(s.GetPutJobs()); n > maxJobs {
			sub.addf("put_jobs", "has %d jobs; must have at most %d", n, maxJobs)
		} else {
			scenario.PutJobs = make([]solver.Job, n)
			for i, job := range s.GetPutJobs() {
				scenario.PutJobs[i] = convertJob(job)
			}
		}
		plan := includesPlan(request.GetOptions())
		if s.GetOptions() != nil {
			scenario.Options = new(sub.options(s.GetOptions()))
			plan = includesPlan(s.GetOptions())
		}
		scenario.Bad = sub.violations
		scenarios, plans = append(scenarios, scenario), append(plans, plan)
	}
	return scenarios, plans
}

// WhatIf decides a snapshot and variations of it.
func (p InProcess) WhatIf(ctx context.Context, request *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error) {
	maxJobs := p.Allocator.MaxJobs()
	var c converter
	scenarios, plans := c.fromScenarios(request, maxJobs)
	converted, err := c.request(request, maxJobs)
	if err != nil {
		return nil, err
	}
	id := converted.Snapshot.ID
	whatIf, err := p.Allocator.WhatIf(ctx, converted.Snapshot, converted.Options, scenarios)
	if err != nil {
		return nil, err
	}
	response := &elastallocv1.WhatIfResponse{Base: ToAllocateResponse(id, whatIf.Base, converted.IncludePlan)}
	for n := range whatIf.Results {
		result := &whatIf.Results[n]
		scenario := &elastallocv1.ScenarioResult{Name: result.Name}
		if result.Err != nil {
			scenario.Error = scenarioError(result.Err)
		} else {
			scenario.Decision = ToAllocateResponse(id, result.Decision, plans[n])
			scenario.ChangedJobIds, scenario.Benefit = result.ChangedJobIDs, result.Benefit
		}
		response.Results = append(response.Results, scenario)
	}
	return response, nil
}

// scenarioError returns the status of a scenario without a decision.
func scenarioError(err error) *status.Status {
	if invalid, ok := errors.AsType[*solver.InvalidError](err); ok {
		return StatusOfViolations(invalid.Violations).Proto()
	}
	return &status.Status{Code: int32(codes.DeadlineExceeded), Message: fmt.Sprintf("no decision in time: %v", err)}
}
