package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nextmv-io/sdk/run"
	"github.com/nextmv-io/sdk/run/schema"
	"github.com/nextmv-io/sdk/run/statistics"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

type app struct{ programs cli.Programs }

func (a app) solve(ctx context.Context, request *elastallocv1.AllocateRequest, o options) (schema.Output, error) {
	if err := o.apply(request); err != nil {
		return schema.Output{}, err
	}
	allocator, err := cli.NewInProcess(request.GetOptions(), a.programs)
	if err != nil {
		return schema.Output{}, err
	}
	response, err := allocator.Allocate(ctx, request)
	if err != nil {
		return schema.Output{}, err
	}
	output := schema.NewOutput(o, solution{response})
	output.Statistics = newStatistics(ctx, response.GetReport())
	return output, nil
}

// decodeRequest decodes a request, like the command line.
func decodeRequest(_ context.Context, input any) (*elastallocv1.AllocateRequest, error) {
	reader, ok := input.(io.Reader)
	if !ok {
		return nil, fmt.Errorf("input: is a %T; must be a reader", input)
	}
	text, err := io.ReadAll(reader)
	if err != nil && !errors.Is(err, os.ErrClosed) { // The sdk closes an input that is empty.
		return nil, err
	}
	request := new(elastallocv1.AllocateRequest)
	if err := cli.ParseMessage(text, request); err != nil {
		return nil, fmt.Errorf("parse AllocateRequest: %w", err)
	}
	return request, nil
}

// solution is a message that encoding/json writes as protojson.
type solution struct{ message proto.Message }

// MarshalJSON returns the message in protojson, including fields with default values.
func (s solution) MarshalJSON() ([]byte, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(s.message)
}

// resultStatistics is the custom statistics of the result.
type resultStatistics struct {
	Backend         string             `json:"backend"`
	Reason          string             `json:"reason"`
	Limit           string             `json:"limit"`
	Bound           statistics.Float64 `json:"bound"`
	RelativeGap     statistics.Float64 `json:"relative_gap"`
	GreedyObjective statistics.Float64 `json:"greedy_objective"`
	IdleNodes       int32              `json:"idle_nodes"`
}

// newStatistics returns Nextmv's statistics of a decision. The value is the
// objective. The duration of the result is the time in the backend that produced
// the plan, and the duration of the run the time since the start, in seconds.
func newStatistics(ctx context.Context, report *elastallocv1.SolveReport) *statistics.Statistics {
	solveTime := report.GetSolveTime().AsDuration().Seconds()
	value := statistics.Float64(report.GetObjective())
	s := statistics.NewStatistics()
	s.Result = &statistics.Result{
		Duration: &solveTime,
		Value:    &value,
		Custom: resultStatistics{
			Backend:         apiconv.Name(report.GetBackend()),
			Reason:          apiconv.Name(report.GetReason()),
			Limit:           apiconv.Name(report.GetLimit()),
			Bound:           statistics.Float64(report.GetBound()),
			RelativeGap:     statistics.Float64(report.GetRelativeGap()),
			GreedyObjective: statistics.Float64(report.GetGreedyObjective()),
			IdleNodes:       report.GetIdleNodes(),
		},
	}
	s.Run = new(statistics.Run)
	if start, known := ctx.Value(run.Start).(time.Time); known {
		duration := time.Since(start).Seconds()
		s.Run.Duration = &duration
	}
	return s
}

// options is the options of the app. The SDK adds a flag for each, such as
// -solve.backend, and reads SOLVE_BACKEND. An option with its zero value does not
// change the request.
type options struct {
	Solve struct {
		Backend     string        `json:"backend,omitempty" usage:"Backend to call first: exact, cbc, highs or greedy"`
		Formulation string        `json:"formulation,omitempty" usage:"Model for cbc and highs: one-hot or paper"`
		Budget      time.Duration `json:"budget,omitempty" usage:"Decision budget; 0 keeps the budget of the request, 900ms by default"`
		Gap         float64       `json:"gap,omitempty" usage:"Stop if the relative gap is proven to be at most this number"`
		Objective   string        `json:"objective,omitempty" usage:"Objective to maximize: progress or total-time"`
		Admission   string        `json:"admission,omitempty" usage:"Rule for which jobs get nodes: fifo, optimized, preemptive or start-first"`
		Plan        bool          `json:"plan,omitempty" usage:"Also return the plan over the horizon"`
	} `json:"solve"`
}

// apply sets the options in a request. The error names every option with an unknown
// value. The allocator reports invalid numbers.
func (o *options) apply(request *elastallocv1.AllocateRequest) error {
	if request.Options == nil {
		request.Options = new(elastallocv1.AllocateOptions)
	}
	to, from := request.Options, o.Solve
	if from.Budget != 0 {
		to.TimeBudget = durationpb.New(from.Budget)
	}
	if from.Gap != 0 {
		to.RelativeGap = from.Gap
	}
	to.IncludePlan = to.IncludePlan || from.Plan
	return errors.Join(
		setEnum(&to.Backend, "solve.backend", from.Backend),
		setEnum(&to.Formulation, "solve.formulation", from.Formulation),
		setEnum(&to.Objective, "solve.objective", from.Objective),
		setEnum(&to.Admission, "solve.admission", from.Admission),
	)
}

func setEnum[E apiconv.Enum](field *E, option, name string) error {
	if name == "" {
		return nil
	}
	number, err := apiconv.ParseEnum[E](name)
	if err != nil {
		return fmt.Errorf("option %s: is %q; %w", option, name, err)
	}
	*field = number
	return nil
}
