package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

type whatIfFlags struct {
	decideFlags
	nodes     []int
	types     []string
	machines  []string
	put       string
	remove    []string
	scenarios string
}

func newWhatIfCommand(env cli.LookupEnv) *cobra.Command {
	var f whatIfFlags
	command := &cobra.Command{
		Use:   "whatif -f FILE --nodes N|--machines FILE|--put FILE|--remove ID|…",
		Short: "Decide one snapshot and variations of it",
		Long: `Decide one snapshot and variations of it, in this process or at a server, and
compare the decisions, for example with a larger pool, another job or another
weight.

The input is an AllocateRequest in protojson. Each number of --nodes is a
scenario, and so is each --node-type, the number of nodes of one type or, with
commas, of several types. If a node is a unit of a machine, such as a GPU, each
--machines is a scenario: a file with a list of machines, such as
[{"units": 8, "count": 4}, {"units": 8, "free": 5, "block": "rack-2"}]. It sets
the number of nodes and the size limits that the machines imply. --put and
--remove apply to every scenario. Without --nodes, --node-type and --machines,
they are one scenario. --put names a file with a Job in
protojson, or with a list of jobs. Each job replaces the job with the same id,
or is added at the end of the queue. --scenarios names a file with the scenarios
of a WhatIfRequest: {"scenarios": [{"name": "more", "totalNodes": 130}]}.`,
		Example: `  elastalloc whatif -f request.json --nodes 90,100,110,120
  elastalloc whatif -f request.json --node-type a100=24 --node-type t4=40
  elastalloc whatif -f request.json --remove llama-7b
  elastalloc whatif -f request.json --put job.json -o json`,
		RunE: f.run(env, f.whatIf),
	}
	f.add(command)
	f.addOptions(command, 0)
	cli.MarkRequired(command, "file")
	flags := command.Flags()
	flags.IntSliceVar(&f.nodes, "nodes", nil, "numbers of nodes of the pool, each a scenario")
	flags.StringArrayVar(&f.types, "node-type", nil, "`ID=N`: number of nodes of a node type; each flag is a scenario")
	flags.StringArrayVar(&f.machines, "machines", nil, "file with the machines of a pool; each flag is a scenario")
	flags.StringVar(&f.put, "put", "", "file with a job or a list of jobs to add")
	f.addIDs(command, &f.remove, "remove", "job to remove; may be given more than once")
	flags.StringVar(&f.scenarios, "scenarios", "", "file with scenarios")
	cli.CompleteFiles(command, "json", "machines", "put", "scenarios")
	command.MarkFlagsOneRequired("nodes", "node-type", "machines", "put", "remove", "scenarios")
	for _, name := range []string{"nodes", "node-type", "machines", "put", "remove"} {
		command.MarkFlagsMutuallyExclusive("scenarios", name)
	}
	return command
}

func (f *whatIfFlags) whatIf(cmd *cobra.Command, request *elastallocv1.AllocateRequest, allocator allocator) (result, error) {
	if err := checkIDs(request, "remove", f.remove); err != nil {
		return result{}, err
	}
	scenarios, err := f.readScenarios(cmd, request.GetSnapshot())
	if err != nil {
		return result{}, err
	}
	sent := &elastallocv1.WhatIfRequest{Snapshot: request.GetSnapshot(), Options: request.GetOptions(), Scenarios: scenarios}
	response, err := allocator.WhatIf(cmd.Context(), sent)
	if err != nil {
		return result{}, f.requestError(cmd.Context(), err)
	}
	if len(response.GetResults()) != len(scenarios) {
		return result{}, cli.Failed(fmt.Errorf("the response has %d results; must have %d", len(response.GetResults()), len(scenarios)))
	}
	for i, scenario := range response.GetResults() {
		// Scenarios of a file may fail one by one. Scenarios of flags fail together.
		if refused := scenario.GetError(); refused != nil && f.scenarios == "" {
			return result{}, fmt.Errorf("%s: %s", scenarios[i].GetName(), refused.GetMessage())
		}
	}
	return result{response, response.GetBase().GetReport(), func(screen cli.Screen) (string, error) {
		return whatIfText(sent, response, screen), nil
	}}, nil
}

func (f *whatIfFlags) readScenarios(cmd *cobra.Command, snapshot *elastallocv1.Snapshot) ([]*elastallocv1.Scenario, error) {
	if f.scenarios != "" {
		request := new(elastallocv1.WhatIfRequest)
		if err := cli.ReadMessage(cmd, f.scenarios, request); err != nil {
			return nil, err
		}
		if request.GetSnapshot() != nil || request.GetOptions() != nil || len(request.GetScenarios()) == 0 {
			return nil, fmt.Errorf("%s: must have scenarios and no other fields", f.scenarios)
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
	var scenarios []*elastallocv1.Scenario
	add := func(parts ...string) *elastallocv1.Scenario {
		for _, job := range put {
			parts = append(parts, "put "+job.GetId())
		}
		for _, id := range f.remove {
			parts = append(parts, "without "+id)
		}
		scenario := &elastallocv1.Scenario{Name: strings.Join(parts, ", "), PutJobs: put, RemoveJobIds: f.remove}
		scenarios = append(scenarios, scenario)
		return scenario
	}
	for _, nodes := range f.nodes {
		if nodes < math.MinInt32 || nodes > math.MaxInt32 {
			return nil, fmt.Errorf("--nodes: is %d; must be at most %d", nodes, math.MaxInt32)
		}
		add(format.InUnits(fmt.Sprintf("%d nodes", nodes), f.unit)).TotalNodes = new(int32(nodes))
	}
	for _, text := range f.types {
		types, err := parseNodeTypes(text, snapshot.GetNodeTypes())
		if err != nil {
			return nil, err
		}
		add(text).PutNodeTypes = types
	}
	for _, name := range f.machines {
		nodes, err := readMachines(cmd, name)
		if err != nil {
			return nil, err
		}
		if err := putMachines(add(filepath.Base(name)), nodes, snapshot); err != nil {
			return nil, err
		}
	}
	if len(scenarios) == 0 {
		add()
	}
	return scenarios, nil
}

// parseNodeTypes parses ID=N,ID=N, known node types with other numbers of nodes.
func parseNodeTypes(text string, known []*elastallocv1.NodeType) ([]*elastallocv1.NodeType, error) {
	var types []*elastallocv1.NodeType
	for part := range strings.SplitSeq(text, ",") {
		id, number, _ := strings.Cut(part, "=")
		nodes, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--node-type: is %q; must be ID=N, such as a100=24", text)
		}
		at := slices.IndexFunc(known, func(t *elastallocv1.NodeType) bool { return t.GetId() == id })
		if at < 0 {
			return nil, fmt.Errorf("--node-type: is %q; must be a node type of the snapshot, which has no %q", text, id)
		}
		types = append(types, &elastallocv1.NodeType{Id: id, Nodes: int32(nodes), Speed: known[at].Speed})
	}
	return types, nil
}

func readJobs(cmd *cobra.Command, name string) ([]*elastallocv1.Job, error) {
	text, err := cli.ReadFile(cmd, name, io.ReadAll)
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

// scenarioView is the data shown for the decision on the snapshot or on a variation of it.
type scenarioView struct {
	name     string
	snapshot *solver.Snapshot
	decision *elastallocv1.AllocateResponse
	outlook  outlook
	// jobs is the allocations of the jobs as texts, by id.
	jobs map[string]string
}

func newScenarioView(name string, snapshot *solver.Snapshot, d *elastallocv1.AllocateResponse) *scenarioView {
	v := &scenarioView{
		name: name, snapshot: snapshot, decision: d, jobs: make(map[string]string),
		outlook: newOutlook(snapshot, d.GetAllocations()),
	}
	for i, a := range d.GetAllocations() {
		v.jobs[a.GetJobId()] = describeAllocation(a, v.outlook.then[i])
	}
	return v
}

// describeAllocation formats an allocation in about 12 characters: its nodes, with + if the job starts, and the
// time to its completion.
func describeAllocation(a *elastallocv1.Allocation, end ending) string {
	nodes := strconv.Itoa(int(a.GetNodes()))
	if a.GetNodeType() != "" {
		nodes += " " + a.GetNodeType()
	}
	switch a.GetChange() {
	case elastallocv1.Change_CHANGE_WAIT:
		return "waits"
	case elastallocv1.Change_CHANGE_PREEMPT:
		return "paused"
	case elastallocv1.Change_CHANGE_START:
		return fmt.Sprintf("+%s %6s", nodes, end)
	default:
		return fmt.Sprintf("%s %6s", nodes, end)
	}
}

// addTo adds a row to the table of scenarios.
func (v *scenarioView) addTo(t *cli.Table, differ string) {
	running, starting, waiting, ending := 0, 0, 0, 0
	for i, a := range v.decision.GetAllocations() {
		if a.GetNodes() == 0 {
			waiting++
			continue
		}
		running++
		if a.GetChange() == elastallocv1.Change_CHANGE_START {
			starting++
		}
		if e := v.outlook.then[i]; e.ends && e.in <= soon {
			ending++
		}
	}
	cells := []string{v.name, strconv.Itoa(v.snapshot.TotalNodes)}
	for _, n := range []int{running, starting, waiting, int(v.decision.GetReport().GetIdleNodes()), ending} {
		cells = append(cells, strconv.Itoa(n))
	}
	t.AddRow(cli.Plain, append(cells, differ)...)
}

// whatIfText returns a table of the scenarios, and tables of the jobs whose allocations differ.
func whatIfText(request *elastallocv1.WhatIfRequest, response *elastallocv1.WhatIfResponse, screen cli.Screen) string {
	t := screen.NewTable().AlignRight(1, 7)
	t.Clipped[0] = true
	t.AddRow(screen.Bold, "SCENARIO", "POOL", "RUN", "START", "WAIT", "IDLE", "END IN 1H", "DIFFER")
	snapshot := inCore(request.GetSnapshot())
	base := newScenarioView("as it is", snapshot, response.GetBase())
	base.addTo(t, "")
	var failures []string
	var views []*scenarioView
	for n, result := range response.GetResults() {
		if result.GetError() != nil {
			failures = append(failures, fmt.Sprintf("%s: %s", result.GetName(), result.GetError().GetMessage()))
			continue
		}
		view := newScenarioView(result.GetName(), varied(snapshot, request.GetScenarios()[n]), result.GetDecision())
		view.addTo(t, strconv.Itoa(len(result.GetChangedJobIds())))
		views = append(views, view)
	}
	text := t.String() + differingJobs(base, views, screen)
	for _, failure := range failures {
		text += "\n" + screen.Red.Paint(screen.Wrap(failure)) + "\n"
	}
	return text
}

// differingJobs returns tables of the jobs whose allocations differ in any scenario, each with as many scenarios
// as fit on the screen.
func differingJobs(base *scenarioView, views []*scenarioView, screen cli.Screen) string {
	const longestID = 26
	idWidth, cellWidth := len("JOB"), len(base.name)
	for _, v := range append([]*scenarioView{base}, views...) {
		for id, cell := range v.jobs {
			idWidth = max(idWidth, utf8.RuneCountInString(cli.Clip(id, longestID)))
			cellWidth = max(cellWidth, utf8.RuneCountInString(cell))
		}
	}
	fit := max(1, (cli.Width-idWidth)/(cellWidth+2)-1)
	text := ""
	for block := range slices.Chunk(views, fit) {
		t := screen.NewTable()
		t.Clipped[0] = true
		header := []string{"JOB", strings.ToUpper(base.name)}
		for _, v := range block {
			header = append(header, cli.Clip(v.name, max(cellWidth, (cli.Width-idWidth)/(len(block)+1)-2)))
		}
		t.AlignRight(1, len(block)+1).AddRow(screen.Bold, header...)
		differing := differingIn(base, block)
		for _, id := range differing {
			cells := []string{id, cmp.Or(base.jobs[id], "–")}
			for _, v := range block {
				cell := cmp.Or(v.jobs[id], "–") // The scenario does not have the job.
				if cell == cells[1] {
					cell = "="
				}
				cells = append(cells, cell)
			}
			t.AddRow(cli.Plain, cells...)
		}
		if len(differing) > 0 {
			text += "\n" + t.String()
		}
	}
	if text != "" {
		text += screen.InUnits("\nNodes, + if the job starts, and the time to its completion. =: as it is.\n")
	}
	return text
}

// differingIn returns the jobs whose allocations differ in any of some scenarios, in the order of the snapshot.
func differingIn(base *scenarioView, views []*scenarioView) []string {
	var ids []string
	listed := make(map[string]bool)
	for _, v := range append([]*scenarioView{base}, views...) {
		for _, a := range v.decision.GetAllocations() {
			id := a.GetJobId()
			differs := func(v *scenarioView) bool { return v.jobs[id] != base.jobs[id] }
			if !listed[id] && slices.ContainsFunc(views, differs) {
				ids = append(ids, id)
				listed[id] = true
			}
		}
	}
	return ids
}

// varied applies a decided scenario to a snapshot.
func varied(s *solver.Snapshot, scenario *elastallocv1.Scenario) *solver.Snapshot {
	put := inCore(&elastallocv1.Snapshot{Jobs: scenario.GetPutJobs(), NodeTypes: scenario.GetPutNodeTypes(), SizeLimits: scenario.GetPutSizeLimits()})
	change := solver.Scenario{RemoveJobIDs: scenario.GetRemoveJobIds(), PutJobs: put.Jobs, PutNodeTypes: put.NodeTypes, PutSizeLimits: put.SizeLimits}
	if scenario.TotalNodes != nil {
		change.TotalNodes = new(int(scenario.GetTotalNodes()))
	}
	v, err := change.Apply(s)
	if err != nil {
		return new(solver.Snapshot)
	}
	return v.WithDefaults()
}
