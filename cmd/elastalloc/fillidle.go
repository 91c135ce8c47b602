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
			if err != nil {
				return result{}, f.requestError(cmd.Context(), err)
			}
			l, err := fillList(snapshot, response)
			if err != nil {
				return result{}, cli.Failed(err)
			}
			return result{message: response, list: l, format: func(screen cli.Screen) (string, error) {
				return fillText(snapshot, response, l, screen), nil
			}}, nil
		}),
	}
	f.add(command)
	f.addList(command, changeColumns())
	cli.MarkRequired(command, "file")
	return command
}

// fillList returns the list of fill-idle. It returns an error if the jobs of a request and its response differ.
func fillList(snapshot *elastallocv1.Snapshot, response *elastallocv1.FillIdleResponse) (*list, error) {
	jobs, allocations := snapshot.GetJobs(), response.GetAllocations()
	if err := checkCount(snapshot, allocations); err != nil {
		return nil, err
	}
	return newList(changeColumns(), len(allocations), func(i int) []string { return allocationValues(jobs[i], allocations[i]) }), nil
}
