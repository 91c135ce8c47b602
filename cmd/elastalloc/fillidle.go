package main

import (
	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func newFillIdleCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	command := &cobra.Command{
		Use:   "fill-idle -f FILE",
		Short: "Allocate the idle nodes of one snapshot to queued jobs",
		Long: `Apply the paper's rule for the time between two decisions, in this process or at
a server. Running jobs keep their nodes. Each queued job, in order, gets the
largest legal size that the idle nodes allow, until the first job that does not
fit. Running jobs lose nodes only if they occupy more nodes than the pool has or
than the limit of their group.

The input is a FillIdleRequest in protojson. It may also be an AllocateRequest,
whose options are ignored.`,
		Example: `  elastalloc fill-idle -f request.json`,
		RunE: f.run(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (result, error) {
			snapshot := request.GetSnapshot()
			response, err := allocator.FillIdle(cmd.Context(), &elastallocv1.FillIdleRequest{Snapshot: snapshot})
			return result{message: response, format: func(screen cli.Screen) (string, error) {
				return fillText(snapshot, response, screen)
			}}, f.requestError(cmd.Context(), err)
		}),
	}
	f.add(command)
	cli.MarkRequired(command, "file")
	return command
}
