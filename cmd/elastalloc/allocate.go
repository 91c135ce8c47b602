package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

//go:embed example.json
var exampleRequest string

func newAllocateCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	var plan, certificate, example bool
	command := &cobra.Command{
		Use:   "allocate -f FILE",
		Short: "Decide one snapshot",
		Long: `Decide one snapshot, in this process or at a server, and print the decision.

The input is an AllocateRequest in protojson. Flags win over the options in it.

The table says what every job holds now and next, and in what time it ends if it
keeps that, its restart counted; AFTER is the share of its work done by the end
of the horizon. Nothing else is foreseen: no submissions, no later decisions.`,
		Example: `  elastalloc allocate -f request.json
  elastalloc allocate --example > request.json
  elastalloc allocate -f request.json --server localhost:50051 -o json`,
	}
	decide := f.asking(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (answer, error) {
		if cmd.Flags().Changed("plan") {
			request.Options.IncludePlan = plan
		}
		if cmd.Flags().Changed("certificate") {
			request.Options.Certificate = certificate
		}
		asked := proto.CloneOf(request)
		if f.output == cli.OutputTable {
			// The table shows the progress that the plan makes.
			asked.Options.IncludePlan = true
		}
		response, err := allocator.Allocate(cmd.Context(), asked)
		return answer{response, response.GetReport(), func(screen cli.Screen) (string, error) {
			return decisionText(request, response, screen)
		}}, f.requestError(cmd.Context(), err)
	})
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if example {
			_, err := io.WriteString(cmd.OutOrStdout(), exampleRequest)
			return cli.Failed(err)
		}
		return decide(cmd, args)
	}
	f.add(command)
	f.addOptions(command, 0)
	command.Flags().BoolVar(&plan, "plan", false, "show the plan over the horizon")
	command.Flags().BoolVar(&certificate, "certificate", false, "return what a check by audit needs, with -o json")
	command.Flags().BoolVar(&example, "example", false, "print a small request to start from, and decide nothing")
	command.MarkFlagsOneRequired("file", "example")
	return command
}
