package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// whatIfFlags are the flags of whatif.
type whatIfFlags struct {
	decideFlags
	optionFlags
	nodes     []int
	put       string
	remove    []string
	scenarios string
}

func newWhatIfCommand(env cli.LookupEnv) *cobra.Command {
	var f whatIfFlags
	command := &cobra.Command{
		Use:   "whatif -f FILE --nodes N,…|--put FILE|--remove ID|--scenarios FILE",
		Short: "Decide one snapshot and variations of it",
		Long: `Decide one snapshot and variations of it, in this process or at a server, and set the
decisions side by side: what a larger pool, another job or another weight would
change.

The input is an AllocateRequest in protojson. Each number of --nodes is a scenario;
--put and --remove apply to every one, or make one of their own. --put names a file
with a Job in protojson, or a list of them, each in the place of the job of the same
id or else at the end of the queue. --scenarios names a file with the scenarios of
a WhatIfRequest: {"scenarios": [{"name": …, "totalNodes": …, "putJobs": […]}]}.`,
		Example: `  elastalloc whatif -f request.json --nodes 90,100,110,120
  elastalloc whatif -f request.json --remove llama-7b
  elastalloc whatif -f request.json --put job.json -o json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, allocator, closeAllocator, err := f.prepare(cmd, &f.optionFlags)
			if err != nil {
				return err
			}
			defer closeAllocator()
			if err := checkIDs(request, "remove", f.remove); err != nil {
				return err
			}
			asked := &elastallocv1.WhatIfRequest{Snapshot: request.GetSnapshot(), Options: request.GetOptions()}
			if asked.Scenarios, err = f.readScenarios(cmd); err != nil {
				return err
			}
			response, err := allocator.WhatIf(cmd.Context(), asked)
			if err != nil {
				return f.requestError(cmd.Context(), err)
			}
			for i, result := range response.GetResults() {
				// In a file one scenario does not spoil the others; flags are one question.
				if refused := result.GetError(); refused != nil && f.scenarios == "" {
					return fmt.Errorf("%s: %s", asked.GetScenarios()[i].GetName(), refused.GetMessage())
				}
			}
			warnOfBackend(cmd, request.GetOptions(), response.GetBase().GetReport())
			out := cmd.OutOrStdout()
			if f.output == cli.OutputJSON {
				return cli.Failed(writeJSON(out, response, emitDefaults))
			}
			return cli.Failed(writeWhatIf(out, asked, response, cli.ScreenFor(out, env)))
		},
	}
	f.add(command)
	f.addOptions(command, 0)
	flags := command.Flags()
	flags.IntSliceVar(&f.nodes, "nodes", nil, "sizes of the pool, a scenario each")
	flags.StringVar(&f.put, "put", "", "file of a job, or of a list of jobs, to put in")
	f.addIDs(command, &f.remove, "remove", "job to take out; may be given more than once")
	flags.StringVar(&f.scenarios, "scenarios", "", "file of scenarios")
	cli.CompleteFiles(command, "json", "put", "scenarios")
	command.MarkFlagsOneRequired("nodes", "put", "remove", "scenarios")
	for _, name := range []string{"nodes", "put", "remove"} {
		command.MarkFlagsMutuallyExclusive("scenarios", name)
	}
	return command
}

// readScenarios returns the scenarios that the flags describe.
func (f *whatIfFlags) readScenarios(cmd *cobra.Command) ([]*elastallocv1.Scenario, error) {
	if f.scenarios != "" {
		request := new(elastallocv1.WhatIfRequest)
		if err := cli.ReadMessage(cmd, f.scenarios, request); err != nil {
			return nil, err
		}
		if request.GetSnapshot() != nil || request.GetOptions() != nil || len(request.GetScenarios()) == 0 {
			return nil, fmt.Errorf("%s: want scenarios alone", f.scenarios)
		}
		return request.GetScenarios(), nil
	}
	var put []*elastallocv1.Job
	if f.put != "" {
		var err error
		if put, err = readJobs(cmd, f.put); err != nil {
			return nil, err
		}
	}
	var parts []string
	for _, job := range put {
		parts = append(parts, "put "+job.GetId())
	}
	for _, id := range f.remove {
		parts = append(parts, "without "+id)
	}
	if len(f.nodes) == 0 {
		return []*elastallocv1.Scenario{{Name: strings.Join(parts, ", "), PutJobs: put, RemoveJobIds: f.remove}}, nil
	}
	var scenarios []*elastallocv1.Scenario
	for _, nodes := range f.nodes {
		if nodes < math.MinInt32 || nodes > math.MaxInt32 {
			return nil, fmt.Errorf("--nodes is %d; want at most %d", nodes, math.MaxInt32)
		}
		scenarios = append(scenarios, &elastallocv1.Scenario{
			Name:       strings.Join(append([]string{fmt.Sprintf("%d nodes", nodes)}, parts...), ", "),
			TotalNodes: new(int32(nodes)), PutJobs: put, RemoveJobIds: f.remove,
		})
	}
	return scenarios, nil
}

// readJobs reads a job in protojson, or a list of jobs.
func readJobs(cmd *cobra.Command, name string) ([]*elastallocv1.Job, error) {
	input, err := cli.OpenInput(cmd, name)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		list = []json.RawMessage{text}
	}
	var jobs []*elastallocv1.Job
	for n, one := range list {
		job := new(elastallocv1.Job)
		if err := cli.ParseMessage(one, job); err != nil {
			return nil, fmt.Errorf("parse job %d of %s: %w", n+1, name, err)
		}
		jobs = append(jobs, job)
	}
	if len(jobs) == 0 {
		return nil, errors.New(name + " has no job")
	}
	return jobs, nil
}

// mostColumns is how many scenarios are set side by side job by job: more do not fit in 80
// columns.
const mostColumns = 4

// writeWhatIf writes for a person what each scenario changes as a whole, and the jobs that
// differ.
func writeWhatIf(w io.Writer, request *elastallocv1.WhatIfRequest, response *elastallocv1.WhatIfResponse, screen cli.Screen) error {
	t := screen.NewTable().AlignRight(1, 7)
	t.Clipped[0] = true
	t.AddRow(screen.Bold, "SCENARIO", "POOL", "RUN", "START", "WAIT", "IDLE", "END IN 1H", "DIFFER")
	row := func(name string, snapshot *elastallocv1.Snapshot, d *elastallocv1.AllocateResponse, differ string) {
		running, starting, waiting := 0, 0, 0
		for _, a := range d.GetAllocations() {
			switch {
			case a.GetNodes() == 0:
				waiting++
			case a.GetChange() == elastallocv1.Change_CHANGE_START:
				starting++
				running++
			default:
				running++
			}
		}
		o := newOutlook(&elastallocv1.AllocateRequest{Snapshot: snapshot}, d.GetAllocations())
		ends := 0
		for _, e := range o.then {
			if e.ends && e.in <= soon {
				ends++
			}
		}
		t.AddRow(cli.Plain, format.Printable(name), strconv.Itoa(int(snapshot.GetTotalNodes())), strconv.Itoa(running), strconv.Itoa(starting),
			strconv.Itoa(waiting), strconv.Itoa(int(d.GetReport().GetIdleNodes())), strconv.Itoa(ends), differ)
	}
	row("as it is", request.GetSnapshot(), response.GetBase(), "")
	var failures []string
	for n, result := range response.GetResults() {
		if result.GetError() != nil {
			failures = append(failures, fmt.Sprintf("%s: %s", format.Printable(result.GetName()), result.GetError().GetMessage()))
			continue
		}
		row(result.GetName(), varied(request.GetSnapshot(), request.GetScenarios()[n]), result.GetDecision(),
			strconv.Itoa(len(result.GetChangedJobIds())))
	}
	text := t.String()
	if differing := differingJobs(response, screen); differing != nil {
		text += "\n" + differing.String()
	}
	for _, failure := range failures {
		text += "\n" + screen.Red.Paint(screen.Wrap(failure)) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// differingJobs lays out the nodes of the jobs that any scenario changes, nil where there are
// none or too many scenarios.
func differingJobs(response *elastallocv1.WhatIfResponse, screen cli.Screen) *cli.Table {
	changed := make(map[string]bool)
	header := []string{"JOB", "AS IT IS"}
	decisions := []*elastallocv1.AllocateResponse{response.GetBase()}
	for _, result := range response.GetResults() {
		if result.GetError() != nil {
			continue
		}
		for _, id := range result.GetChangedJobIds() {
			changed[id] = true
		}
		header, decisions = append(header, screen.Clip(format.Printable(result.GetName()), 9)), append(decisions, result.GetDecision())
	}
	if len(changed) == 0 || len(header) > mostColumns+2 {
		return nil
	}
	t := screen.NewTable()
	t.Clipped[0] = true
	var order []string
	nodes := make([]map[string]int32, len(decisions))
	for n, d := range decisions {
		t.RightAligned[n+1] = true
		nodes[n] = make(map[string]int32)
		for _, a := range d.GetAllocations() {
			nodes[n][a.GetJobId()] = a.GetNodes()
			if changed[a.GetJobId()] {
				order = append(order, a.GetJobId())
				delete(changed, a.GetJobId())
			}
		}
	}
	t.AddRow(screen.Bold, header...)
	for _, id := range order {
		cells := []string{format.Printable(id)}
		for n := range decisions {
			cell := "–" // The scenario does not have the job.
			if k, has := nodes[n][id]; has {
				cell = strconv.Itoa(int(k))
			}
			cells = append(cells, cell)
		}
		t.AddRow(cli.Plain, cells...)
	}
	return t
}

// varied returns the snapshot of a scenario that has been decided.
func varied(s *elastallocv1.Snapshot, scenario *elastallocv1.Scenario) *elastallocv1.Snapshot {
	v := &elastallocv1.Snapshot{TotalNodes: s.GetTotalNodes(), Horizon: s.GetHorizon()}
	if scenario.TotalNodes != nil {
		v.TotalNodes = scenario.GetTotalNodes()
	}
	removed := make(map[string]bool)
	for _, id := range scenario.GetRemoveJobIds() {
		removed[id] = true
	}
	put := make(map[string]*elastallocv1.Job)
	for _, job := range scenario.GetPutJobs() {
		put[job.GetId()] = job
	}
	for _, job := range s.GetJobs() {
		if removed[job.GetId()] {
			continue
		}
		if other := put[job.GetId()]; other != nil {
			job = other
			delete(put, job.GetId())
		}
		v.Jobs = append(v.Jobs, job)
	}
	for _, job := range scenario.GetPutJobs() {
		if put[job.GetId()] != nil {
			v.Jobs = append(v.Jobs, job)
		}
	}
	return v
}
