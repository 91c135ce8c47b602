package main

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// allocateFlags are the flags of allocate.
type allocateFlags struct {
	decideFlags
	backend     cli.EnumFlag[elastallocv1.Backend]
	formulation cli.EnumFlag[elastallocv1.Formulation]
	objective   cli.EnumFlag[elastallocv1.Objective]
	admission   cli.EnumFlag[elastallocv1.Admission]
	budget      time.Duration
	gap         float64
	plan        bool
}

func newAllocateCommand(env cli.LookupEnv) *cobra.Command {
	var f allocateFlags
	command := &cobra.Command{
		Use:   "allocate -f FILE",
		Short: "Decide one snapshot",
		Long: `Decide one snapshot, in this process or at a server, and print the decision.

The input is an AllocateRequest in protojson. Flags win over the options in it.

The table says what every job holds now and next, and in what time it ends if it
keeps that, its restart counted; AFTER is the share of its work done by the end of
the horizon. Nothing else is foreseen: no submissions, no later decisions.`,
		Example: `  elastalloc allocate -f request.json
  elastalloc allocate -f request.json --server localhost:50051 -o json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := f.read(cmd)
			if err != nil {
				return err
			}
			f.apply(cmd, request)
			return f.allocate(cmd, request, env)
		},
	}
	flags := command.Flags()
	f.add(command)
	cli.AddProgramFlags(flags, &f.programs)
	flags.Var(&f.backend, "backend", "backend to ask first (default exact)")
	flags.Var(&f.formulation, "formulation", "model for cbc and highs (default one-hot)")
	flags.Var(&f.objective, "objective", "what is maximised (default progress)")
	flags.Var(&f.admission, "admission", "who gets nodes when the minimums do not all fit (default fifo)")
	flags.DurationVar(&f.budget, "budget", 0, "decision budget (default that of the server, 900ms)")
	flags.Float64Var(&f.gap, "gap", 0, "stop once proven within this share of the optimum")
	flags.BoolVar(&f.plan, "plan", false, "show the plan over the horizon")
	return command
}

// apply lets the flags that were set win over the options of the request.
func (f *allocateFlags) apply(cmd *cobra.Command, request *elastallocv1.AllocateRequest) {
	if request.Options == nil {
		request.Options = new(elastallocv1.AllocateOptions)
	}
	options := request.Options
	if number := f.backend.Number(); number != 0 {
		options.Backend = number
	}
	if number := f.formulation.Number(); number != 0 {
		options.Formulation = number
	}
	if number := f.objective.Number(); number != 0 {
		options.Objective = number
	}
	if number := f.admission.Number(); number != 0 {
		options.Admission = number
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

// allocate prints the decision on the request.
func (f *allocateFlags) allocate(cmd *cobra.Command, request *elastallocv1.AllocateRequest, env cli.LookupEnv) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	allocator, closeAllocator, err := f.newAllocator(request.GetOptions())
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
		return requestError(err)
	}
	if f.output == cli.OutputJSON {
		return cli.Failed(writeJSON(out, response, emitDefaults))
	}
	return cli.Failed(writeTable(out, request, response, cli.ColorsFor(out, env)))
}
