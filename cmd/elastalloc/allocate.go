package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

type allocateFlags struct {
	decideFlags
	plan, certificate, example bool
}

// exampleRequest is a small request with what every request needs.
//
//go:embed example.json
var exampleRequest string

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
  elastalloc allocate --example > request.json
  elastalloc allocate -f request.json --server localhost:50051 -o json`,
	}
	decide := f.asking(env, f.allocate)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if f.example {
			_, err := io.WriteString(cmd.OutOrStdout(), exampleRequest)
			return cli.Failed(err)
		}
		return decide(cmd, args)
	}
	f.add(command)
	f.addOptions(command, 0)
	command.Flags().BoolVar(&f.plan, "plan", false, "show the plan over the horizon")
	command.Flags().BoolVar(&f.certificate, "certificate", false, "return what a check by audit needs, with -o json")
	command.Flags().BoolVar(&f.example, "example", false, "print a small request to start from, and decide nothing")
	command.MarkFlagsOneRequired("file", "example")
	return command
}

func (f *allocateFlags) allocate(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (answer, error) {
	if cmd.Flags().Changed("plan") {
		request.Options.IncludePlan = f.plan
	}
	if cmd.Flags().Changed("certificate") {
		request.Options.Certificate = f.certificate
	}
	asked := proto.CloneOf(request)
	if f.output == cli.OutputTable {
		// The table shows the progress that the plan makes.
		asked.Options.IncludePlan = true
	}
	response, err := allocator.Allocate(cmd.Context(), asked)
	if err != nil {
		return answer{}, f.requestError(cmd.Context(), err)
	}
	return answer{response, response.GetReport(), func(screen cli.Screen) (string, error) {
		return decisionText(request, response, screen)
	}}, nil
}
