package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// optionFlags are the flags that say how to decide.
type optionFlags struct {
	programs    cli.Programs
	backend     cli.EnumFlag[elastallocv1.Backend]
	formulation cli.EnumFlag[elastallocv1.Formulation]
	objective   cli.EnumFlag[elastallocv1.Objective]
	admission   cli.EnumFlag[elastallocv1.Admission]
	budget      time.Duration
	gap         float64
}

// addOptions adds the flags that say how to decide to a command, with a default budget of
// its own unless that is 0.
func (d *decideFlags) addOptions(command *cobra.Command, budget time.Duration) {
	f := new(optionFlags)
	d.options = f
	cli.AddProgramFlags(command.Flags(), &f.programs)
	cli.Group(command.Flags(), cli.Solvers, func(flags *pflag.FlagSet) {
		flags.Var(&f.formulation, "formulation", "model for cbc and highs (default one-hot)")
	})
	cli.Group(command.Flags(), "Decision", func(flags *pflag.FlagSet) {
		flags.Var(&f.backend, "backend", "backend to ask first (default exact)")
		flags.Var(&f.objective, "objective", "what is maximised (default progress)")
		flags.Var(&f.admission, "admission", "who gets nodes when the minimums do not all fit (default fifo)")
		usage := "decision budget (default that of the server, 900ms)"
		if budget > 0 {
			usage = "time budget of the whole answer"
		}
		flags.DurationVar(&f.budget, "budget", budget, usage)
		flags.Float64Var(&f.gap, "gap", 0, "stop once proven within this share of the optimum")
	})
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

// warnOfBackend warns a person who asked for a backend that another one has decided. The
// programs of a server know it from the attempts.
func warnOfBackend(cmd *cobra.Command, options *elastallocv1.AllocateOptions, report *elastallocv1.SolveReport) {
	asked := options.GetBackend()
	if asked == elastallocv1.Backend_BACKEND_UNSPECIFIED || asked == report.GetBackend() {
		return
	}
	for _, attempt := range report.GetAttempts() {
		if attempt.GetBackend() == asked {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: decided by %s, not by %s: %s\n", cmd.CommandPath(),
				cli.EnumName(report.GetBackend()), cli.EnumName(asked), text.Printable(cmp.Or(attempt.GetDetail(), words(attempt.GetOutcome()))))
		}
	}
}
