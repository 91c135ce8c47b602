package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
)

func newSnapshotCommand() *cobra.Command {
	var (
		file        string
		nodes       int32
		at          time.Duration
		gpusPerNode int
		restart     time.Duration
	)
	command := &cobra.Command{
		Use:   "snapshot --trace FILE --nodes N --at DURATION",
		Short: "Cut an AllocateRequest out of a trace",
		Long: `Print the snapshot of a pool at a time of a trace, as JSON for allocate. It has
the jobs that are submitted before this time and, according to the durations in
the trace, not complete. Each job has its remaining demand and its restart time,
which is restart_s of the trace or --restart-time. In the order of submission,
jobs have the nodes that they requested, until the first job that does not fit.
This job and all later jobs are queued.

A trace is CSV with a header and the columns job_id, submit_s, duration_s (in
seconds from the first submission) and gpus. The columns min_nodes, max_nodes,
doubling_efficiency, weight and restart_s are optional.`,
		Example: `  elastalloc snapshot --trace t.csv --nodes 9 --at 9h | elastalloc allocate -f -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case nodes < 1:
				return fmt.Errorf("--nodes: is %d; must be at least 1", nodes)
			case at < 0:
				return fmt.Errorf("--at: is %v; must be at least 0", at)
			case gpusPerNode < 1:
				return fmt.Errorf("--gpus-per-node: is %d; must be at least 1", gpusPerNode)
			case restart < 0:
				return fmt.Errorf("--restart-time: is %v; must be at least 0", restart)
			}
			trace, err := cli.ReadTrace(cmd, file)
			if err != nil {
				return err
			}
			var end time.Duration
			for _, job := range trace {
				end = max(end, job.Submit+job.Duration)
			}
			if at > end {
				return fmt.Errorf("--at: is %s; must be at most %s, the end of the trace", format.ShortDuration(at), format.ShortDuration(end))
			}
			snapshot := sim.SnapshotAt(trace, int(nodes), at, gpusPerNode)
			snapshot.ID = snapshotID(file, at)
			for i := range snapshot.Jobs {
				snapshot.Jobs[i].RestartTime = cmp.Or(snapshot.Jobs[i].RestartTime, restart)
			}
			request := &elastallocv1.AllocateRequest{Snapshot: apiconv.ToSnapshot(snapshot)}
			return cli.Failed(writeJSON(cmd.OutOrStdout(), request, protojson.MarshalOptions{}))
		},
	}
	flags := command.Flags()
	flags.StringVar(&file, "trace", "", "trace in CSV, - for standard input")
	flags.Int32Var(&nodes, "nodes", 0, "nodes in the pool")
	flags.DurationVar(&at, "at", 0, "time of the snapshot, from the first submission, such as 26h")
	flags.IntVar(&gpusPerNode, "gpus-per-node", sim.DefaultGPUsPerNode, "GPUs of one node")
	flags.DurationVar(&restart, "restart-time", 0, "time without progress after every resize of a job, such as 2m")
	cli.MarkRequired(command, "trace", "nodes", "at")
	cli.CompleteFiles(command, "csv", "trace")
	return command
}

// snapshotID returns the id of a snapshot, from its trace and time.
func snapshotID(file string, at time.Duration) string {
	if file == cli.StandardInput {
		file = "trace"
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return fmt.Sprintf("%s@%s", name, format.ShortDuration(at))
}
