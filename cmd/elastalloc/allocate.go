package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/wiring"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// allocateFlags are the flags of allocate.
type allocateFlags struct {
	file, output                          string
	remote                                remoteFlags
	backend, formulation, mode, admission cli.EnumFlag
	budget                                time.Duration
	gap                                   float64
	plan                                  bool
	programs                              wiring.Programs
}

func newAllocateCommand(env cli.LookupEnv) *cobra.Command {
	f := allocateFlags{
		backend:     cli.NewEnumFlag(elastallocv1.Backend(0)),
		formulation: cli.NewEnumFlag(elastallocv1.Formulation(0)),
		mode:        cli.NewEnumFlag(elastallocv1.Mode(0)),
		admission:   cli.NewEnumFlag(elastallocv1.Admission(0)),
	}
	command := &cobra.Command{
		Use:   "allocate -f FILE",
		Short: "Decide one snapshot",
		Long: `Decide one snapshot, in this process or at a server, and print the decision.

The input is an AllocateRequest in protojson. Flags win over the options in it.`,
		Example: `  elastalloc allocate -f request.json
  elastalloc allocate -f request.json --server localhost:50051 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.output != cli.OutputTable && f.output != cli.OutputJSON {
				return fmt.Errorf("--output is %q; want %s or %s", f.output, cli.OutputTable, cli.OutputJSON)
			}
			request, err := cli.ReadRequest(cmd, f.file)
			if err != nil {
				return err
			}
			f.apply(cmd, request)
			return f.allocate(cmd, request, env)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "request in protojson, - for standard input")
	flags.StringVarP(&f.output, "output", "o", cli.OutputTable, "output format, table or json")
	f.remote.add(flags)
	flags.Var(&f.backend, "backend", "backend to ask first (default exact)")
	flags.Var(&f.formulation, "formulation", "model for cbc and highs (default one-hot)")
	flags.Var(&f.mode, "mode", "kind of moment (default rebalance)")
	flags.Var(&f.admission, "admission", "who gets nodes when the minimums do not all fit (default fifo)")
	flags.DurationVar(&f.budget, "budget", 0, "decision budget (default that of the server, 900ms)")
	flags.Float64Var(&f.gap, "gap", 0, "stop once proven within this share of the optimum")
	flags.BoolVar(&f.plan, "plan", false, "show the plan over the horizon")
	cli.AddProgramFlags(flags, &f.programs)
	cli.MarkRequired(command, "file")
	return command
}

// apply lets the flags that were set win over the options of the request.
func (f *allocateFlags) apply(cmd *cobra.Command, request *elastallocv1.AllocateRequest) {
	if request.Options == nil {
		request.Options = new(elastallocv1.AllocateOptions)
	}
	options := request.Options
	if number := f.backend.Number(); number != 0 {
		options.Backend = elastallocv1.Backend(number)
	}
	if number := f.formulation.Number(); number != 0 {
		options.Formulation = elastallocv1.Formulation(number)
	}
	if number := f.mode.Number(); number != 0 {
		options.Mode = elastallocv1.Mode(number)
	}
	if number := f.admission.Number(); number != 0 {
		options.Admission = elastallocv1.Admission(number)
	}
	if cmd.Flags().Changed("budget") {
		options.TimeBudget = durationpb.New(f.budget)
	}
	if cmd.Flags().Changed("gap") {
		options.RelativeGap = f.gap
	}
	if cmd.Flags().Changed("plan") {
		options.IncludePlan = f.plan
	}
}

// allocate has the request decided and prints the decision.
func (f *allocateFlags) allocate(cmd *cobra.Command, request *elastallocv1.AllocateRequest, env cli.LookupEnv) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	allocator, closeAllocator, err := f.newAllocator(ctx, request)
	if err != nil {
		return err
	}
	defer closeAllocator()

	asked := proto.CloneOf(request)
	if f.output == cli.OutputTable {
		// The table shows the progress that the plan makes.
		asked.Options.IncludePlan = true
	}
	response, err := allocator.Allocate(ctx, asked)
	if err != nil {
		return allocateError(err)
	}
	if f.output == cli.OutputJSON {
		return cli.Failed(writeJSON(out, response, emitDefaults))
	}
	return cli.Failed(writeTable(out, request, response, cli.ColorsFor(out, env)))
}

// allocator is the server's Allocate, near or far.
type allocator interface {
	Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error)
}

// newAllocator returns who decides a request: the server asked for, or the same
// code in this process, and what to call when done with it.
func (f *allocateFlags) newAllocator(
	ctx context.Context, request *elastallocv1.AllocateRequest,
) (allocator, func(), error) {
	if f.remote.address != "" {
		remote, err := f.remote.client()
		if err != nil {
			return nil, nil, err
		}
		return remote, func() { remote.Close() }, nil
	}
	near, err := wiring.Allocator(ctx, request, f.programs)
	return near, func() {}, err
}
