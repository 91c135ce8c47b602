package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/apiconv"
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
		Long: `Print, as JSON for allocate, the decision that a pool would have faced at a
moment of a trace: the jobs submitted by then and, by the trace's own durations,
not yet finished, each with the remaining share of its demand and, if given, the
time that a change of its nodes costs it. In submission order they hold the
nodes they asked for while the pool lasts; the first that does not fit and all
after it are queued.

A trace is CSV with a header and the columns job_id, submit_s, duration_s (in
seconds from the first submission) and gpus; min_nodes, max_nodes,
doubling_efficiency and weight are used where they are there.`,
		Example: `  elastalloc snapshot --trace t.csv --nodes 9 --at 9h | elastalloc allocate -f -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case nodes < 1:
				return fmt.Errorf("--nodes is %d; want at least 1", nodes)
			case at < 0:
				return fmt.Errorf("--at is %v; want at least 0", at)
			case gpusPerNode < 1:
				return fmt.Errorf("--gpus-per-node is %d; want at least 1", gpusPerNode)
			case restart < 0:
				return fmt.Errorf("--restart-time is %v; want at least 0", restart)
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
				return fmt.Errorf("--at is %s; the trace ends at %s, by its own durations", format.Short(at), format.Short(end))
			}
			snapshot := sim.SnapshotAt(trace, int(nodes), at, gpusPerNode)
			snapshot.ID = snapshotID(file, at)
			for i := range snapshot.Jobs {
				snapshot.Jobs[i].RestartTime = restart
			}
			request := &elastallocv1.AllocateRequest{Snapshot: apiconv.ToSnapshot(snapshot)}
			return cli.Failed(writeJSON(cmd.OutOrStdout(), request, protojson.MarshalOptions{}))
		},
	}
	flags := command.Flags()
	flags.StringVar(&file, "trace", "", "trace in CSV, - for standard input")
	flags.Int32Var(&nodes, "nodes", 0, "nodes in the pool")
	flags.DurationVar(&at, "at", 0, "moment of the snapshot, from the first submission, such as 26h")
	flags.IntVar(&gpusPerNode, "gpus-per-node", sim.DefaultGPUsPerNode, "GPUs of one node")
	flags.DurationVar(&restart, "restart-time", 0, "time without progress after every change of a job's nodes, such as 2m")
	cli.MarkRequired(command, "trace", "nodes", "at")
	cli.CompleteFiles(command, "csv", "trace")
	return command
}

// snapshotID names a snapshot after its trace and moment.
func snapshotID(file string, at time.Duration) string {
	if file == cli.StandardInput {
		file = "trace"
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return fmt.Sprintf("%s@%s", name, format.Short(at))
}
