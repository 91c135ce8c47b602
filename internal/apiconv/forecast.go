package apiconv

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// fromForecastRequest converts how a future is to be simulated. Its bad fields go into Bad.
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
	converted, err := new(converter).request(request, p.Allocator.MaxJobs())
	if err != nil {
		return nil, err
	}
	forecast, err := p.Allocator.Forecast(ctx, converted.Snapshot, converted.Options, fromForecastRequest(request))
	if err != nil {
		return nil, err
	}
	response := &elastallocv1.ForecastResponse{
		MeanTotal: durationpb.New(forecast.MeanTotal), MeanQueue: durationpb.New(forecast.MeanQueue),
		Decisions: forecast.Decisions, Complete: forecast.Complete,
		IfNothingElse: request.GetArrivalsPerHour() == 0,
	}
	for i := range forecast.Jobs {
		job := &forecast.Jobs[i]
		response.Jobs = append(response.Jobs, &elastallocv1.JobForecast{
			JobId: job.JobID,
			Start: toTime(job.Start), StartLow: toTime(job.StartLow), StartHigh: toTime(job.StartHigh),
			End: toTime(job.End), EndLow: toTime(job.EndLow), EndHigh: toTime(job.EndHigh),
			Rescales: int32(job.Rescales), Ended: job.End != nil,
		})
	}
	return response, nil
}
