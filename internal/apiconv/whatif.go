package apiconv

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// fromScenarios converts scenarios with at most maxJobs jobs each to put in, and says of
// each whether its decision is to include the plan. More scenarios than there may be are
// one bad field, and are not looked at.
func (c *converter) fromScenarios(
	request *elastallocv1.WhatIfRequest, maxJobs int,
) (scenarios []solver.Scenario, plans []bool) {
	if n := len(request.GetScenarios()); n > solver.MaxScenarios {
		c.addf("scenarios", "has %d scenarios; want at most %d", n, solver.MaxScenarios)
		return nil, nil
	}
	for i, s := range request.GetScenarios() {
		if n := len(s.GetName()); n > solver.MaxIDBytes {
			c.addf(fmt.Sprintf("scenarios[%d].name", i), "has %d bytes; want at most %d", n, solver.MaxIDBytes)
		}
		var own converter
		scenario := solver.Scenario{Name: s.GetName(), RemoveJobIDs: s.GetRemoveJobIds()}
		if s != nil && s.TotalNodes != nil {
			scenario.TotalNodes = new(int(s.GetTotalNodes()))
		}
		scenario.PutNodeTypes = own.nodeTypes(s.GetPutNodeTypes(), "put_node_types")
		if n := len(s.GetPutJobs()); n > maxJobs {
			own.addf("put_jobs", "has %d jobs; want at most %d", n, maxJobs)
		} else {
			scenario.PutJobs = make([]solver.Job, n)
			for i, job := range s.GetPutJobs() {
				scenario.PutJobs[i] = convertJob(job)
			}
		}
		plan := includesPlan(request.GetOptions())
		if s.GetOptions() != nil {
			scenario.Options = new(own.options(s.GetOptions()))
			plan = includesPlan(s.GetOptions())
		}
		scenario.Bad = own.violations
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
	answer, err := p.Allocator.WhatIf(ctx, converted.Snapshot, converted.Options, scenarios)
	if err != nil {
		return nil, err
	}
	response := &elastallocv1.WhatIfResponse{Base: ToAllocateResponse(id, answer.Base, converted.IncludePlan)}
	for n := range answer.Results {
		result := &answer.Results[n]
		scenario := &elastallocv1.ScenarioResult{Name: result.Name}
		if result.Err != nil {
			scenario.Error = scenarioError(result.Err)
		} else {
			scenario.Decision = ToAllocateResponse(id, result.Decision, plans[n])
			scenario.ChangedJobIds = result.ChangedJobIDs
		}
		response.Results = append(response.Results, scenario)
	}
	return response, nil
}

// scenarioError returns the status of a scenario that has no decision.
func scenarioError(err error) *status.Status {
	var invalid *solver.InvalidError
	if errors.As(err, &invalid) {
		return StatusOfViolations(invalid.Violations).Proto()
	}
	return &status.Status{Code: int32(codes.DeadlineExceeded), Message: fmt.Sprintf("no allocation in time: %v", err)}
}
