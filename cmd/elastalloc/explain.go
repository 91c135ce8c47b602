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

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/recorded"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// analysisBudget is the default time budget of explain and forecast, the maximum of a server.
const analysisBudget = 10 * time.Second

func newExplainCommand(env cli.LookupEnv) *cobra.Command {
	var f decideFlags
	var jobs []string
	var decisionTime recorded.Flags
	var explained *recording.Entry // nil for a file
	f.read = func(cmd *cobra.Command) (*elastallocv1.AllocateRequest, error) {
		if len(decisionTime.Dirs) == 0 {
			return cli.ReadRequest(cmd, f.file)
		}
		var err error
		if explained, err = lastDecision(cmd, &decisionTime, jobs); err != nil {
			return nil, err
		}
		return requestOf(explained), nil
	}
	command := &cobra.Command{
		Use:   "explain -f FILE|--recording DIR",
		Short: "Explain why each job of one snapshot gets its nodes",
		Long: `Decide one snapshot, in this process or at a server, and explain why each job
gets its nodes: the loss of every other size, and the smallest weight, pool or
min_nodes with which it would get more. All of them are found by deciding again.

The input is an AllocateRequest in protojson, or the last decision of a
recording, at or before a time, that has the jobs and the caller. Flags
override its options. The time budget applies to the explanation, also for a
recorded decision.

SIZES are the sizes that a job can have now. The size in brackets is the one it
gets. The higher the block after a size, the larger its loss of the objective.`,
		Example: `  elastalloc explain -f request.json
  elastalloc explain -f request.json --job bert-large
  elastalloc explain --recording recordings --at 14:05 --job bert-large`,
		RunE: f.run(env, func(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (result, error) {
			if err := checkIDs(request, "job", jobs); err != nil {
				return result{}, err
			}
			response, err := allocator.Explain(cmd.Context(), &elastallocv1.ExplainRequest{
				Snapshot: request.GetSnapshot(), Options: request.GetOptions(), JobIds: jobs,
			})
			if err != nil {
				return result{}, f.requestError(cmd.Context(), err)
			}
			origin := ""
			if explained != nil {
				origin = describeDecision(explained)
				warnOfOthers(cmd, explained, response.GetDecision())
				if f.output != cli.OutputTable {
					fmt.Fprint(cmd.ErrOrStderr(), origin)
				}
			}
			l := explainList(request, response)
			return result{response, response.GetDecision().GetReport(), l, func(screen cli.Screen) (string, error) {
				return origin + explanationsText(request, response, l, len(jobs) > 0, screen), nil
			}}, nil
		}),
	}
	f.add(command)
	f.addOptions(command, analysisBudget)
	f.addList(command, explainColumns())
	decisionTime.Add(command.Flags())
	command.MarkFlagsOneRequired("file", "recording")
	command.MarkFlagsMutuallyExclusive("file", "recording")
	command.MarkFlagsMutuallyExclusive("file", "at")
	command.MarkFlagsMutuallyExclusive("file", "caller")
	f.addIDs(command, &jobs, "job", "job to explain in detail; may be given more than once (default all)")
	return command
}

// lastDecision returns the last recorded decision at or before a time that has some jobs.
func lastDecision(cmd *cobra.Command, at *recorded.Flags, jobs []string) (*recording.Entry, error) {
	what := "decision"
	if len(jobs) > 0 {
		what += fmt.Sprintf(" with the job %s", strings.Join(jobs, " and the job "))
	}
	return at.Last(cmd, what, func(e *recording.Entry) bool {
		request, isAllocate := e.Request.(*elastallocv1.AllocateRequest)
		_, succeeded := e.Response.(*elastallocv1.AllocateResponse)
		ids := idsOf(request)
		return isAllocate && succeeded && !slices.ContainsFunc(jobs, func(id string) bool { return !slices.Contains(ids, id) })
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

// describeDecision returns the time, caller and request id of a recorded decision.
func describeDecision(e *recording.Entry) string {
	return fmt.Sprintf("The decision of %s, caller %s, request id %s:\n\n",
		recorded.Time(e.Time), text.Printable(cmp.Or(e.Caller, "unknown")), text.Printable(cmp.Or(e.RequestID, "unknown")))
}

// warnOfOthers warns if the new decision differs from the recorded decision.
func warnOfOthers(cmd *cobra.Command, e *recording.Entry, again *elastallocv1.AllocateResponse) {
	nodes := make(map[string]int32)
	for _, a := range again.GetAllocations() {
		nodes[a.GetJobId()] = a.GetNodes()
	}
	others, example := 0, ""
	for _, a := range e.Response.(*elastallocv1.AllocateResponse).GetAllocations() {
		if now := nodes[a.GetJobId()]; now != a.GetNodes() {
			others++
			if others == 1 {
				example = fmt.Sprintf("%s %d instead of %d", text.Shorten(a.GetJobId()), now, a.GetNodes())
			}
		}
	}
	if others > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"%s: warning: the new decision gives other nodes to %s, such as %s; the explanation is for the new decision\n",
			cmd.CommandPath(), format.Plural(others, "job"), example)
	}
}

// explainColumns are the columns of the list of explain.
func explainColumns() []string {
	return []string{"job_id", "current_nodes", "nodes", "why", "text"}
}

func explainList(request *elastallocv1.AllocateRequest, response *elastallocv1.ExplainResponse) *list {
	current := currentNodes(request)
	return newList(explainColumns(), len(response.GetJobs()), func(i int) []string {
		job := response.GetJobs()[i]
		return []string{job.GetJobId(), number(current[job.GetJobId()]), number(job.GetNodes()), cli.EnumName(job.GetWhy()), job.GetText()}
	})
}

// currentNodes returns the current nodes of the jobs of a request, by id.
func currentNodes(request *elastallocv1.AllocateRequest) map[string]int32 {
	current := make(map[string]int32)
	for _, job := range request.GetSnapshot().GetJobs() {
		current[job.GetId()] = job.GetCurrentNodes()
	}
	return current
}

// explanationsText returns the explanations of the jobs of a list, in detail or with one line per job.
func explanationsText(
	request *elastallocv1.AllocateRequest, response *elastallocv1.ExplainResponse, l *list, detailed bool, screen cli.Screen,
) string {
	if len(response.GetJobs()) == 0 {
		return "The snapshot has no jobs.\n"
	}
	changes := make(map[string]*elastallocv1.Allocation)
	for _, a := range response.GetDecision().GetAllocations() {
		changes[a.GetJobId()] = a
	}
	if detailed {
		texts := make([]string, len(l.order))
		for n, i := range l.order {
			job := response.GetJobs()[i]
			texts[n] = explanationText(job, changes[job.GetJobId()].GetNodeType(), objectiveOf(request).Unit.Name, screen)
		}
		return strings.Join(texts, "\n") + l.note()
	}
	current := currentNodes(request)
	t := screen.NewTable()
	t.Clipped[0] = true
	t.AddRow(screen.Bold, "JOB", "NODES", "WHY", "SIZES")
	for _, i := range l.order {
		job := response.GetJobs()[i]
		t.AddRow(styleOf(changes[job.GetJobId()].GetChange(), screen), job.GetJobId(),
			fmt.Sprintf("%3d → %-3d", current[job.GetJobId()], job.GetNodes()),
			words(job.GetWhy()), sizesBar(job, changes[job.GetJobId()].GetNodeType()))
	}
	return t.String() + l.note() + "\nFor the details of a job, use --job ID.\n"
}

// maxLoss returns the largest loss of the sizes of a job.
func maxLoss(job *elastallocv1.JobExplanation) float64 {
	loss := 0.0
	for _, size := range job.GetSizes() {
		loss = max(loss, size.GetLoss())
	}
	return loss
}

func sizeOf(size *elastallocv1.SizeOption) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", size.GetNodes(), size.GetNodeType()))
}

// sizesBar returns the sizes of a job, which gets nodes of the given type, with blocks for their losses.
func sizesBar(job *elastallocv1.JobExplanation, nodeType string) string {
	largest := maxLoss(job)
	parts := make([]string, 0, len(job.GetSizes()))
	for _, size := range job.GetSizes() {
		nodes := sizeOf(size)
		if size.GetNodes() == job.GetNodes() && size.GetNodeType() == nodeType {
			parts = append(parts, "["+nodes+"]")
			continue
		}
		parts = append(parts, nodes+block("▁▂▃▄▅▆▇█", math.Sqrt(size.GetLoss()/largest)))
	}
	return strings.Join(parts, " ")
}

// explanationText returns the explanation of a job, which gets nodes of the given type, with the loss of each
// size.
func explanationText(job *elastallocv1.JobExplanation, nodeType, unit string, screen cli.Screen) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", screen.Bold.Paint(screen.Clip(job.GetJobId()+": "+words(job.GetWhy()))), screen.Wrap(job.GetText()))
	if len(job.GetSizes()) > 0 {
		const width = 40
		largest := maxLoss(job)
		t := screen.NewTable().AlignRight(0, 1)
		t.AddRow(cli.Plain, "SIZE", "COST", unit)
		for _, size := range job.GetSizes() {
			bar := ""
			if size.GetLoss() > 0 {
				bar = strings.Repeat("█", min(width, max(1, int(size.GetLoss()/largest*width))))
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

// describeRemedy describes the change of a remedy.
func describeRemedy(remedy *elastallocv1.Remedy) string {
	switch change := remedy.GetChange().(type) {
	case *elastallocv1.Remedy_Weight:
		return "weight " + strconv.FormatFloat(change.Weight, 'g', -1, 64)
	case *elastallocv1.Remedy_TotalNodes:
		what := fmt.Sprintf("a pool of %d nodes", change.TotalNodes)
		if remedy.GetNodeType() != "" {
			what = fmt.Sprintf("%d %s", change.TotalNodes, remedy.GetNodeType())
		}
		if remedy.GetMachineNodes() > 0 {
			what += fmt.Sprintf(", with more machines of %d", remedy.GetMachineNodes())
		}
		return what
	case *elastallocv1.Remedy_MinNodes:
		return fmt.Sprintf("min_nodes %d", change.MinNodes)
	default:
		return "an unknown change"
	}
}
