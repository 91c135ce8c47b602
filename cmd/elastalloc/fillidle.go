package main

import (
	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func newFillIdleCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	command := &cobra.Command{
		Use:   "fill-idle -f FILE",
		Short: "Give the idle nodes of one snapshot to its queue",
		Long: `Apply the paper's rule for regular times, between two decisions, in this process
or at a server: running jobs keep their nodes, and each queued job in order
takes its largest legal size that the idle nodes allow, stopping at the first
that does not fit now. Running jobs lose nodes only where they hold more than
the pool has, or than the limit of their group.

The input is a FillIdleRequest in protojson. It may be an AllocateRequest, whose
options are then ignored.`,
		Example: `  elastalloc fill-idle -f request.json`,
		RunE: f.asking(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (answer, error) {
			snapshot := request.GetSnapshot()
			response, err := allocator.FillIdle(cmd.Context(), &elastallocv1.FillIdleRequest{Snapshot: snapshot})
			return answer{message: response, show: func(screen cli.Screen) (string, error) {
				return fillText(snapshot, response, screen)
			}}, f.requestError(cmd.Context(), err)
		}),
	}
	f.add(command)
	cli.MarkRequired(command, "file")
	return command
}
