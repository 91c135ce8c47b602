package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// decideFlags are the flags of every command that asks for decisions.
type decideFlags struct {
	file, output, unit string
	remote             remoteFlags
	// options are the flags that say how to decide, nil for a command without them.
	options *optionFlags
	// read reads the request, of the file if it is nil.
	read func(*cobra.Command) (*elastallocv1.AllocateRequest, error)
}

// add adds the flags to a command, which prints tables, JSON and the formats drawn.
func (f *decideFlags) add(command *cobra.Command, drawn ...string) {
	flags := command.Flags()
	flags.VarP(cli.FileFlag{Name: &f.file}, "file", "f", "request in protojson, - for standard input")
	cli.AddOutput(flags, &f.output, drawn...)
	cli.AddUnit(flags, &f.unit)
	cli.CompleteFiles(command, "json", "file")
	f.remote.add(flags)
	command.Args = cobra.NoArgs
}

// answer is what a command has been told.
type answer struct {
	message proto.Message
	// report is that of the decision, nil for none.
	report *elastallocv1.SolveReport
	// show lays the answer out for a person.
	show func(cli.Screen) (string, error)
}

// asking returns what a command runs: it reads the request, lets the flags win over the
// options in it, asks the server or an allocator in this process, and prints the answer.
func (f *decideFlags) asking(
	env cli.LookupEnv, ask func(*cobra.Command, *elastallocv1.AllocateRequest, allocator) (answer, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := f.remote.check(); err != nil {
			return err
		}
		read := f.read
		if read == nil {
			read = func(cmd *cobra.Command) (*elastallocv1.AllocateRequest, error) { return cli.ReadRequest(cmd, f.file) }
		}
		request, err := read(cmd)
		if err != nil {
			return err
		}
		if f.options == nil {
			request.Options = nil
		} else {
			f.options.apply(cmd, request)
		}
		allocator, closeAllocator, err := f.newAllocator(request.GetOptions())
		if err != nil {
			return err
		}
		defer closeAllocator()
		answered, err := ask(cmd, request, allocator)
		if err != nil {
			return err
		}
		warnOfBackend(cmd, request.GetOptions(), answered.report)
		out := cmd.OutOrStdout()
		if f.output == cli.OutputJSON {
			return cli.Failed(writeJSON(out, answered.message, protojson.MarshalOptions{EmitDefaultValues: true}))
		}
		screen := cli.ScreenFor(out, env)
		screen.Unit = f.unit
		shown, err := answered.show(screen)
		if err == nil {
			_, err = io.WriteString(out, shown)
		}
		return cli.Failed(err)
	}
}

// addIDs adds a flag for ids of jobs of the request, which the shell completes.
func (f *decideFlags) addIDs(command *cobra.Command, ids *[]string, name, usage string) {
	command.Flags().StringArrayVar(ids, name, nil, usage)
	// Fails only for a flag that is not there or has values already.
	_ = command.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if f.file == "" || f.file == cli.StandardInput {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		request, err := cli.ReadRequest(cmd, f.file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return idsOf(request), cobra.ShellCompDirectiveNoFileComp
	})
}

func idsOf(request *elastallocv1.AllocateRequest) []string {
	var ids []string
	for _, job := range request.GetSnapshot().GetJobs() {
		ids = append(ids, job.GetId())
	}
	return ids
}

// checkIDs returns an error for a flag's ids that no job of the request has.
func checkIDs(request *elastallocv1.AllocateRequest, name string, ids []string) error {
	known := idsOf(request)
	for _, id := range ids {
		if slices.Contains(known, id) {
			continue
		}
		hint := ""
		if i := slices.IndexFunc(known, func(other string) bool { return strings.Contains(other, id) }); id != "" && i >= 0 {
			hint = fmt.Sprintf("; did you mean %s?", known[i])
		}
		return fmt.Errorf("--%s is %q; want the id of a job of the snapshot%s", name, id, hint)
	}
	return nil
}

// allocator answers the API's requests, in this process or at a server.
type allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
	FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error)
	Explain(context.Context, *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error)
	WhatIf(context.Context, *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error)
	Forecast(context.Context, *elastallocv1.ForecastRequest) (*elastallocv1.ForecastResponse, error)
}

// newAllocator returns what answers requests with the given options, the server or an
// allocator in this process, and what to call when done with it.
func (f *decideFlags) newAllocator(o *elastallocv1.AllocateOptions) (allocator, func(), error) {
	if f.remote.address != "" {
		remote, err := f.remote.client()
		if err != nil {
			return nil, nil, err
		}
		return remote, func() { remote.Close() }, nil
	}
	var programs cli.Programs
	if f.options != nil {
		programs = f.options.programs
	}
	local, err := cli.NewInProcess(o, programs)
	return local, func() {}, err
}

type optionFlags struct {
	programs    cli.Programs
	backend     cli.EnumFlag[elastallocv1.Backend]
	formulation cli.EnumFlag[elastallocv1.Formulation]
	objective   cli.EnumFlag[elastallocv1.Objective]
	admission   cli.EnumFlag[elastallocv1.Admission]
	budget      time.Duration
	gap         float64
}

// addOptions adds the flags that say how to decide, with a default budget unless that is 0.
func (f *decideFlags) addOptions(command *cobra.Command, budget time.Duration) {
	o := new(optionFlags)
	f.options = o
	cli.AddProgramFlags(command.Flags(), &o.programs)
	flags := command.Flags()
	flags.Var(&o.formulation, "formulation", "model for cbc and highs (default one-hot)")
	flags.Var(&o.backend, "backend", "backend to ask first (default exact)")
	flags.Var(&o.objective, "objective", "what is maximised (default progress)")
	flags.Var(&o.admission, "admission", "who gets nodes when the minimums do not all fit (default fifo)")
	usage := "decision budget (default that of the server, 900ms)"
	if budget > 0 {
		usage = "time budget of the whole answer"
	}
	flags.DurationVar(&o.budget, "budget", budget, usage)
	flags.Float64Var(&o.gap, "gap", 0, "stop once proven within this share of the optimum")
}

// apply lets the flags that were set win over the options of the request.
func (f *optionFlags) apply(cmd *cobra.Command, request *elastallocv1.AllocateRequest) {
	if request.Options == nil {
		request.Options = new(elastallocv1.AllocateOptions)
	}
	options := request.Options
	options.Backend = cmp.Or(f.backend.Number(), options.GetBackend())
	options.Formulation = cmp.Or(f.formulation.Number(), options.GetFormulation())
	options.Objective = cmp.Or(f.objective.Number(), options.GetObjective())
	options.Admission = cmp.Or(f.admission.Number(), options.GetAdmission())
	if cmd.Flags().Changed("budget") || f.budget > 0 && options.GetTimeBudget() == nil {
		options.TimeBudget = durationpb.New(f.budget)
	}
	if cmd.Flags().Changed("gap") {
		options.RelativeGap = f.gap
	}
}

// warnOfBackend warns a person if the backend that was asked for has no answer and another one has
// decided. A backend that answered is no reason to warn: its plan gave way to one that its
// verification found, which is better or has fewer changes. The attempts of the report show it.
func warnOfBackend(cmd *cobra.Command, options *elastallocv1.AllocateOptions, report *elastallocv1.SolveReport) {
	asked := options.GetBackend()
	if asked == elastallocv1.Backend_BACKEND_UNSPECIFIED || asked == report.GetBackend() {
		return
	}
	for _, attempt := range report.GetAttempts() {
		if attempt.GetBackend() == asked && attempt.GetOutcome() != elastallocv1.Outcome_OUTCOME_ANSWERED {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: decided by %s, not by %s: %s\n", cmd.CommandPath(),
				cli.EnumName(report.GetBackend()), cli.EnumName(asked), text.Printable(cmp.Or(attempt.GetDetail(), words(attempt.GetOutcome()))))
		}
	}
}

// writeJSON writes a message in protojson.
func writeJSON(w io.Writer, message proto.Message, o protojson.MarshalOptions) error {
	indented, err := apiconv.JSON(message, o)
	if err != nil {
		return err
	}
	_, err = w.Write(indented)
	return err
}

// requestError turns an allocator's error, if any, into one of this program: a bad request is
// bad input, anything else is a failure. A request that is decided in this process has
// errors of the core, one at a server those of gRPC.
func (f *decideFlags) requestError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return cli.ErrInterrupted
	}
	var lines []string
	var invalid *solver.InvalidError
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			lines = append(lines, "\n  "+v.Path+": "+v.Description)
		}
		return errors.New("the request is invalid" + strings.Join(lines, ""))
	}
	refusal, remote := status.FromError(err)
	if !remote {
		return cli.Failed(err)
	}
	message := text.Printable(refusal.Message())
	switch refusal.Code() {
	case codes.InvalidArgument:
	case codes.Unavailable:
		return cli.Failed(f.remote.unreachable(ctx, message))
	case codes.DeadlineExceeded:
		return cli.Failed(fmt.Errorf("%s gave no answer in time: %s", f.remote.address, message))
	default:
		return cli.Failed(fmt.Errorf("%s: %s", refusal.Code(), message))
	}
	for _, detail := range refusal.Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, field := range request.GetFieldViolations() {
				line := field.GetDescription()
				if field.GetField() != "" {
					line = field.GetField() + ": " + line
				}
				lines = append(lines, "\n  "+text.Printable(line))
			}
		}
	}
	if len(lines) == 0 {
		return errors.New(message)
	}
	return errors.New("the request is invalid" + strings.Join(lines, ""))
}
