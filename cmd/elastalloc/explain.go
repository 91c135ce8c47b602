package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/recorded"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// wholeBudget is the default time budget of many decisions: the most that a server gives.
const wholeBudget = 10 * time.Second

func newExplainCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	var jobs []string
	var moment recorded.Flags
	var explained *recording.Entry // nil for a file
	f.read = func(cmd *cobra.Command) (*elastallocv1.AllocateRequest, error) {
		if len(moment.Dirs) == 0 {
			return cli.ReadRequest(cmd, f.file)
		}
		var err error
		if explained, err = lastDecision(cmd, &moment, jobs); err != nil {
			return nil, err
		}
		return requestOf(explained), nil
	}
	command := &cobra.Command{
		Use:   "explain -f FILE|--recording DIR",
		Short: "Say why each job of one snapshot gets its nodes",
		Long: `Decide one snapshot, in this process or at a server, and say why each job gets
its nodes: what every other size would cost, and the smallest weight, pool or
min_nodes that would give it more. All of it is found by deciding again.

The input is an AllocateRequest in protojson, or the last decision of a
recording at or before a time that has the jobs. Flags win over the options in
it. The time budget is that of the explanation, not that of a recorded decision.

SIZES are those that a job could hold now, in brackets the one that it gets; the
higher the block after a size, the more of the objective it would cost.`,
		Example: `  elastalloc explain -f request.json
  elastalloc explain -f request.json --job bert-large
  elastalloc explain --recording recordings --at 14:05 --job bert-large`,
		RunE: f.asking(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (answer, error) {
			if err := checkIDs(request, "job", jobs); err != nil {
				return answer{}, err
			}
			response, err := allocator.Explain(cmd.Context(), &elastallocv1.ExplainRequest{
				Snapshot: request.GetSnapshot(), Options: request.GetOptions(), JobIds: jobs,
			})
			if err != nil {
				return answer{}, f.requestError(cmd.Context(), err)
			}
			origin := ""
			if explained != nil {
				origin = describeDecision(explained)
				warnOfOthers(cmd, explained, response.GetDecision())
				if f.output == cli.OutputJSON {
					fmt.Fprint(cmd.ErrOrStderr(), origin)
				}
			}
			return answer{response, response.GetDecision().GetReport(), func(screen cli.Screen) (string, error) {
				return origin + explanationsText(request, response, len(jobs) > 0, screen), nil
			}}, nil
		}),
	}
	f.add(command)
	f.addOptions(command, wholeBudget)
	moment.Add(command.Flags())
	command.MarkFlagsOneRequired("file", "recording")
	command.MarkFlagsMutuallyExclusive("file", "recording")
	command.MarkFlagsMutuallyExclusive("file", "at")
	f.addIDs(command, &jobs, "job", "job to explain in detail; may be given more than once (default all)")
	return command
}

// lastDecision returns the last decision of a moment in a recording that has some jobs.
func lastDecision(cmd *cobra.Command, moment *recorded.Flags, jobs []string) (*recording.Entry, error) {
	what := "decision"
	if len(jobs) > 0 {
		what += fmt.Sprintf(" with the job %s", strings.Join(jobs, " and the job "))
	}
	return moment.Last(cmd, what, func(e *recording.Entry) bool {
		request, asked := e.Request.(*elastallocv1.AllocateRequest)
		_, answered := e.Response.(*elastallocv1.AllocateResponse)
		ids := idsOf(request)
		return asked && answered && !slices.ContainsFunc(jobs, func(id string) bool { return !slices.Contains(ids, id) })
	})
}

// requestOf returns the request of a recorded decision without its time budget, which is too
// short for an explanation.
func requestOf(e *recording.Entry) *elastallocv1.AllocateRequest {
	request := e.Request.(*elastallocv1.AllocateRequest)
	if request.GetOptions() != nil {
		request.Options.TimeBudget = nil
	}
	return request
}

// describeDecision says which recorded decision is explained.
func describeDecision(e *recording.Entry) string {
	return fmt.Sprintf("The decision of %s, caller %s, request id %s:\n\n",
		recorded.Time(e.Time), text.Printable(cmp.Or(e.Caller, "unknown")), text.Printable(cmp.Or(e.RequestID, "unknown")))
}

// warnOfOthers warns if deciding again gives other nodes than a recorded decision.
func warnOfOthers(cmd *cobra.Command, e *recording.Entry, again *elastallocv1.AllocateResponse) {
	nodes := make(map[string]int32)
	for _, a := range again.GetAllocations() {
		nodes[a.GetJobId()] = a.GetNodes()
	}
	others, example := 0, ""
	for _, a := range e.Response.(*elastallocv1.AllocateResponse).GetAllocations() {
		if now := nodes[a.GetJobId()]; now != a.GetNodes() {
			if others++; others == 1 {
				example = fmt.Sprintf("%s %d instead of %d", text.Shorten(a.GetJobId()), now, a.GetNodes())
			}
		}
	}
	if others > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: deciding again gives other nodes to %s, such as %s; the explanation is of the new decision\n",
			cmd.CommandPath(), format.Count(others, "job"), example)
	}
}

// explanationsText says why jobs get their nodes: in detail, or a line each.
func explanationsText(request *elastallocv1.AllocateRequest, response *elastallocv1.ExplainResponse, detailed bool, screen cli.Screen) string {
	if len(response.GetJobs()) == 0 {
		return "The snapshot has no jobs.\n"
	}
	changes := make(map[string]*elastallocv1.Allocation)
	for _, a := range response.GetDecision().GetAllocations() {
		changes[a.GetJobId()] = a
	}
	if detailed {
		texts := make([]string, len(response.GetJobs()))
		for i, job := range response.GetJobs() {
			texts[i] = explanationText(job, changes[job.GetJobId()].GetNodeType(), objectiveOf(request).Unit.Name, screen)
		}
		return strings.Join(texts, "\n")
	}
	current := make(map[string]int32)
	for _, job := range request.GetSnapshot().GetJobs() {
		current[job.GetId()] = job.GetCurrentNodes()
	}
	t := screen.NewTable()
	t.Clipped[0] = true
	t.AddRow(screen.Bold, "JOB", "NODES", "WHY", "SIZES")
	for _, job := range response.GetJobs() {
		t.AddRow(styleOf(changes[job.GetJobId()].GetChange(), screen), job.GetJobId(),
			fmt.Sprintf("%3d → %-3d", current[job.GetJobId()], job.GetNodes()), words(job.GetWhy()), sizesBar(job, changes[job.GetJobId()].GetNodeType()))
	}
	return t.String() + "\n--job ID says more about one.\n"
}

// dearest returns what the dearest size of a job would cost.
func dearest(job *elastallocv1.JobExplanation) float64 {
	most := 0.0
	for _, size := range job.GetSizes() {
		most = max(most, size.GetLoss())
	}
	return most
}

func sizeOf(size *elastallocv1.SizeOption) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", size.GetNodes(), size.GetNodeType()))
}

// sizesBar draws the sizes of a job, which gets nodes of the given type, with what each costs.
func sizesBar(job *elastallocv1.JobExplanation, nodeType string) string {
	most := dearest(job)
	parts := make([]string, 0, len(job.GetSizes()))
	for _, size := range job.GetSizes() {
		nodes := sizeOf(size)
		if size.GetNodes() == job.GetNodes() && size.GetNodeType() == nodeType {
			parts = append(parts, "["+nodes+"]")
			continue
		}
		parts = append(parts, nodes+block("▁▂▃▄▅▆▇█", math.Sqrt(size.GetLoss()/most)))
	}
	return strings.Join(parts, " ")
}

// explanationText says why one job gets its nodes, of the given type, and what each size costs.
func explanationText(job *elastallocv1.JobExplanation, nodeType, unit string, screen cli.Screen) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", screen.Bold.Paint(cli.Clip(job.GetJobId(), 60)+": "+words(job.GetWhy())), screen.Wrap(job.GetText()))
	if len(job.GetSizes()) > 0 {
		const width = 40
		most := dearest(job)
		t := screen.NewTable().AlignRight(0, 1)
		t.AddRow(cli.Plain, "SIZE", "COST", unit)
		for _, size := range job.GetSizes() {
			bar := ""
			if size.GetLoss() > 0 {
				bar = strings.Repeat("█", min(width, max(1, int(size.GetLoss()/most*width))))
			}
			if size.GetNodes() == job.GetNodes() && size.GetNodeType() == nodeType {
				bar = "◀ what it gets"
			} else if !size.GetProven() {
				bar += " estimated"
			}
			t.AddRow(cli.Plain, sizeOf(size), strconv.FormatFloat(size.GetLoss(), 'f', 6, 64), bar)
		}
		fmt.Fprintf(&b, "\n%s", t)
	}
	if len(job.GetRemedies()) > 0 {
		t := screen.NewTable()
		t.AddRow(cli.Plain, "WITH", "IT GETS")
		for _, remedy := range job.GetRemedies() {
			t.AddRow(cli.Plain, describeRemedy(remedy), strings.TrimSpace(fmt.Sprintf("%d %s", remedy.GetNodes(), remedy.GetNodesType())))
		}
		fmt.Fprintf(&b, "\n%s", t)
	}
	return b.String()
}

// describeRemedy returns what to change.
func describeRemedy(remedy *elastallocv1.Remedy) string {
	switch change := remedy.GetChange().(type) {
	case *elastallocv1.Remedy_Weight:
		return "weight " + strconv.FormatFloat(change.Weight, 'g', -1, 64)
	case *elastallocv1.Remedy_TotalNodes:
		if remedy.GetNodeType() != "" {
			return fmt.Sprintf("%d %s", change.TotalNodes, remedy.GetNodeType())
		}
		return fmt.Sprintf("a pool of %d nodes", change.TotalNodes)
	case *elastallocv1.Remedy_MinNodes:
		return fmt.Sprintf("min_nodes %d", change.MinNodes)
	default:
		return "an unknown change"
	}
}
