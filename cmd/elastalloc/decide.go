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

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// decideFlags is the flags of every command that decides.
type decideFlags struct {
	file, output, unit string
	remote             remoteFlags
	// sort and limit arrange the list of a result.
	sort  string
	limit int
	// options is the flags for the options of a request. It is nil for commands without them.
	options *optionFlags
	// read reads the request. If it is nil, the request is read from file.
	read func(*cobra.Command) (*elastallocv1.AllocateRequest, error)
}

// add adds the flags to a command that prints tables, JSON, CSV and other formats.
func (f *decideFlags) add(command *cobra.Command, formats ...string) {
	flags := command.Flags()
	flags.VarP(cli.FileFlag{Name: &f.file}, "file", "f", "request in protojson, - for standard input")
	cli.AddOutput(flags, &f.output, append([]string{outputCSV}, formats...)...)
	cli.AddUnit(flags, &f.unit)
	cli.CompleteFiles(command, "json", "file")
	f.remote.add(flags)
	command.Args = cobra.NoArgs
}

// result is the result of a command.
type result struct {
	message proto.Message // the response
	// report is the report of the decision. It is nil if there is none.
	report *elastallocv1.SolveReport
	// list is the rows of CSV. format shows them in the same order.
	list *list
	// format formats the response for a screen.
	format func(cli.Screen) (string, error)
}

// run returns the RunE function of a command. It reads the request, applies the flags to its options, calls
// decide with a client of the server or an allocator in this process, and prints the result.
func (f *decideFlags) run(
	env cli.LookupEnv, decide func(*cobra.Command, *elastallocv1.AllocateRequest, allocator) (result, error),
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
		decided, err := decide(cmd, request, allocator)
		if err != nil {
			return err
		}
		warnOfBackend(cmd, request.GetOptions(), decided.report)
		out := cmd.OutOrStdout()
		if f.output == cli.OutputJSON {
			return cli.Failed(writeJSON(out, decided.message, protojson.MarshalOptions{EmitDefaultValues: true}))
		}
		decided.list.arrange(f.sort, f.limit)
		screen := cli.ScreenFor(out, env)
		screen.Unit = f.unit
		format := decided.format
		if f.output == outputCSV {
			format = func(cli.Screen) (string, error) { return decided.list.csv() }
		}
		formatted, err := format(screen)
		if err == nil {
			_, err = io.WriteString(out, formatted)
		}
		return cli.Failed(err)
	}
}

// addIDs adds a flag for ids of jobs of the request, with shell completion.
func (f *decideFlags) addIDs(command *cobra.Command, ids *[]string, name, usage string) {
	command.Flags().StringArrayVar(ids, name, nil, usage)
	// An error means that the flag is missing or has a completion function.
	_ = command.RegisterFlagCompletionFunc(name,
		func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// checkIDs returns an error if no job of the request has one of the ids of a flag.
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
		return fmt.Errorf("--%s: is %q; must be the id of a job of the snapshot%s", name, id, hint)
	}
	return nil
}

// allocator is the AllocatorService, in this process or at a server.
type allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
	FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error)
	Explain(context.Context, *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error)
	WhatIf(context.Context, *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error)
	Forecast(context.Context, *elastallocv1.ForecastRequest) (*elastallocv1.ForecastResponse, error)
}

// newAllocator returns a client of the server or an allocator in this process, for requests with the given
// options, and a function that closes it.
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

// addOptions adds the flags for the options of a request. If budget is not 0, it is the default time budget.
func (f *decideFlags) addOptions(command *cobra.Command, budget time.Duration) {
	o := new(optionFlags)
	f.options = o
	cli.AddProgramFlags(command.Flags(), &o.programs)
	flags := command.Flags()
	flags.Var(&o.formulation, "formulation", "model for cbc and highs (default one-hot)")
	flags.Var(&o.backend, "backend", "backend to call first (default exact)")
	flags.Var(&o.objective, "objective", "objective to maximize (default total-time)")
	flags.Var(&o.admission, "admission",
		"rule for which jobs get nodes if the smallest sizes of all jobs do not fit (default start-first, with the objective progress fifo)")
	usage := "time budget of the decision (default: default of the server, 900ms)"
	if budget > 0 {
		usage = "time budget of the response"
	}
	flags.DurationVar(&o.budget, "budget", budget, usage)
	flags.Float64Var(&o.gap, "gap", 0, "stop if the relative gap is proven to be at most this number")
}

// apply overrides the options of the request with the flags that are set.
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

// warnOfBackend warns if the requested backend returned no plan, so that another one decided. It does not warn
// if the verification replaced the plan of the requested backend by a better plan or one with fewer changes,
// which the attempts in the report show.
func warnOfBackend(cmd *cobra.Command, options *elastallocv1.AllocateOptions, report *elastallocv1.SolveReport) {
	requested := options.GetBackend()
	if requested == elastallocv1.Backend_BACKEND_UNSPECIFIED || requested == report.GetBackend() {
		return
	}
	for _, attempt := range report.GetAttempts() {
		if attempt.GetBackend() == requested && attempt.GetOutcome() != elastallocv1.Outcome_OUTCOME_ANSWERED {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: decided by %s, not by %s: %s\n", cmd.CommandPath(),
				cli.EnumName(report.GetBackend()), cli.EnumName(requested), text.Printable(cmp.Or(attempt.GetDetail(), words(attempt.GetOutcome()))))
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

// requestError converts the error of an allocator. An invalid request is bad input, other errors are failures.
// Errors of decisions in this process are errors of the core, and errors of a server are gRPC statuses.
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
		return cli.Failed(fmt.Errorf("%s did not respond in time: %s", f.remote.address, message))
	case codes.Unknown:
		if strings.Contains(message, "HTTP status code received from server: 413") {
			return cli.Failed(fmt.Errorf("a proxy before %s limits the size of requests (HTTP "+
				"status 413); raise its limit, such as client_max_body_size of nginx", f.remote.address))
		}
		return cli.Failed(fmt.Errorf("%s: %s", refusal.Code(), message))
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
