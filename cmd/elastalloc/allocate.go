package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/cli"
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

The input is an AllocateRequest in protojson. Flags override its options.

The table lists the current and the next nodes of every job, and the time to its
completion on them, including a restart. AFTER is the progress at the end of the
horizon. New submissions and later decisions are not considered.`,
		Example: `  elastalloc allocate -f request.json
  elastalloc allocate --example > request.json
  elastalloc allocate -f request.json --server localhost:50051 -o json`,
	}
	decide := f.run(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (result, error) {
		if cmd.Flags().Changed("plan") {
			request.Options.IncludePlan = plan
		}
		if cmd.Flags().Changed("certificate") {
			request.Options.Certificate = certificate
		}
		sent := proto.CloneOf(request)
		if f.output == cli.OutputTable {
			// The table shows the progress under the plan.
			sent.Options.IncludePlan = true
		}
		response, err := allocator.Allocate(cmd.Context(), sent)
		if err != nil {
			return result{}, f.requestError(cmd.Context(), err)
		}
		d, err := newDecisionView(request, response)
		if err != nil {
			return result{}, cli.Failed(err)
		}
		return result{response, response.GetReport(), d.list, func(screen cli.Screen) (string, error) { return d.text(screen), nil }}, nil
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
	f.addList(command, decisionColumns())
	command.Flags().BoolVar(&plan, "plan", false, "show the plan over the horizon")
	command.Flags().BoolVar(&certificate, "certificate", false, "return the certificate for elastalloc audit, with -o json")
	command.Flags().BoolVar(&example, "example", false, "print a small example request and exit")
	command.MarkFlagsOneRequired("file", "example")
	return command
}
