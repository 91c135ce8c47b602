package main

import (
	"cmp"
	"context"
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

	"github.com/elastalloc/elastalloc/internal/apiconv"
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
	limitJobs int
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
	flags.Var((*limitFlag)(&f.limitJobs), "limit", "maximum number of jobs that differ to list, 0 for all")
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
	w := newWhatIfView(sent, response)
	if f.output == cli.OutputTable {
		w.explainStopped(cmd.Context(), allocator)
	}
	return result{response, response.GetBase().GetReport(), w.list(), func(screen cli.Screen) (string, error) {
		return w.text(screen, f.limitJobs), nil
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

// whatIfView is the decisions on a snapshot and on variations of it, and what is shown of them.
type whatIfView struct {
	base  *scenarioView
	views []*scenarioView
	// failures are the errors of scenarios without a decision.
	failures []string
	unit     string // of the objective
}

func newWhatIfView(request *elastallocv1.WhatIfRequest, response *elastallocv1.WhatIfResponse) *whatIfView {
	snapshot := inCore(request.GetSnapshot())
	w := &whatIfView{
		base: newScenarioView("as it is", snapshot, response.GetBase()),
		unit: objectiveOf(&elastallocv1.AllocateRequest{Options: request.GetOptions()}).Unit.Name,
	}
	w.base.options = request.GetOptions()
	for n, result := range response.GetResults() {
		if result.GetError() != nil {
			w.failures = append(w.failures, fmt.Sprintf("%s: %s", result.GetName(), result.GetError().GetMessage()))
			continue
		}
		scenario := request.GetScenarios()[n]
		view := newScenarioView(result.GetName(), varied(snapshot, scenario), result.GetDecision())
		view.differ, view.result = len(result.GetChangedJobIds()), result
		view.options = cmp.Or(scenario.GetOptions(), request.GetOptions())
		w.views = append(w.views, view)
	}
	return w
}

// list returns the scenarios, the first of which is the snapshot as it is.
func (w *whatIfView) list() *list {
	views := append([]*scenarioView{w.base}, w.views...)
	names := []string{
		"scenario", "total_nodes", "running", "starting", "waiting", "paused", "idle_nodes", "complete_in_1h", "differ",
		"benefit", "benefit_per_node", "stopped",
	}
	return newList(names, len(views), func(i int) []string {
		v := views[i]
		row := append([]string{v.name}, v.counts()...)
		value := func(x *float64) string {
			if x == nil {
				return ""
			}
			return strconv.FormatFloat(*x, 'g', -1, 64)
		}
		benefit, perNode := v.benefit(w.base)
		return append(row, strconv.Itoa(v.differ), value(benefit), value(perNode), strings.Join(v.stopped(w.base), " "))
	})
}

// maxExplained is the maximum number of jobs per scenario for which explainStopped explains why they stop.
const maxExplained = 3

// explainStopped explains why jobs stop in scenarios, and by how little. Jobs that cannot be explained in time have
// no explanation.
func (w *whatIfView) explainStopped(ctx context.Context, allocator allocator) {
	for _, v := range w.views {
		ids := v.stopped(w.base)
		if len(ids) == 0 {
			continue
		}
		ids = ids[:min(maxExplained, len(ids))]
		response, err := allocator.Explain(ctx, &elastallocv1.ExplainRequest{
			Snapshot: apiconv.ToSnapshot(v.snapshot), Options: v.options, JobIds: ids,
		})
		if err == nil {
			v.explained = response.GetJobs()
		}
	}
}

// keptLimitsText returns the warning of the scenarios that change the nodes and keep the size limits, "" if there are none.
func (w *whatIfView) keptLimitsText(screen cli.Screen) string {
	var names []string
	message := ""
	for _, v := range w.views {
		for _, warning := range v.decision.GetReport().GetWarnings() {
			if warning.GetCode() == elastallocv1.WarningCode_WARNING_CODE_SIZE_LIMITS_KEPT {
				names, message = append(names, v.name), warning.GetMessage()
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return screen.Yellow.Paint(screen.Wrap(strings.Join(names, ", ")+": "+screen.InUnits(message)+". --machines sets them.")) + "\n"
}

// stoppedText returns a line per job that stops in a scenario, with the loss of the objective if it kept nodes.
func (w *whatIfView) stoppedText(screen cli.Screen) string {
	text := ""
	for _, v := range w.views {
		for _, job := range v.explained {
			if job.GetNodes() > 0 {
				continue // With the time budget of the explanation it keeps nodes.
			}
			line := fmt.Sprintf("%s: %s stops. ", v.name, job.GetJobId())
			var closest *elastallocv1.SizeOption
			for _, size := range job.GetSizes() {
				if size.GetNodes() > 0 && (closest == nil || size.GetLoss() < closest.GetLoss()) {
					closest = size
				}
			}
			if closest != nil {
				line += fmt.Sprintf("With %s, the plan would be worth %.3g %s less. ",
					screen.InUnits(format.Plural(int(closest.GetNodes()), "node")), closest.GetLoss(), w.unit)
			}
			text += screen.Wrap(line+job.GetText()) + "\n"
		}
		if more := len(v.stopped(w.base)) - len(v.explained); more > 0 {
			text += screen.Wrap(fmt.Sprintf("%s: %s not explained here.", v.name, format.Plural(more, "stopped job"))) + "\n"
		}
	}
	if text == "" {
		return ""
	}
	return "\n" + text
}

// scenarioView is the data shown for the decision on the snapshot or on a variation of it.
type scenarioView struct {
	name     string
	snapshot *solver.Snapshot
	decision *elastallocv1.AllocateResponse
	outlook  outlook
	options  *elastallocv1.AllocateOptions
	// jobs is the allocations of the jobs as texts, by id.
	jobs map[string]string
	// differ is the number of jobs whose nodes differ, and result the result, nil for the unchanged snapshot.
	differ int
	result *elastallocv1.ScenarioResult
	// explained are explanations of jobs that stop.
	explained []*elastallocv1.JobExplanation
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

// counts returns the number of nodes of the pool, of jobs that run, start, wait and pause, of idle nodes, and of jobs
// that complete soon.
func (v *scenarioView) counts() []string {
	running, starting, waiting, paused, ending := 0, 0, 0, 0, 0
	for i, a := range v.decision.GetAllocations() {
		switch a.GetChange() {
		case elastallocv1.Change_CHANGE_PREEMPT:
			paused++
		case elastallocv1.Change_CHANGE_START:
			starting++
		}
		if a.GetNodes() == 0 {
			waiting++
			continue
		}
		running++
		if e := v.outlook.then[i]; e.ends && e.in <= soon {
			ending++
		}
	}
	var counts []string
	for _, n := range []int{v.snapshot.TotalNodes, running, starting, waiting, paused, int(v.decision.GetReport().GetIdleNodes()), ending} {
		counts = append(counts, strconv.Itoa(n))
	}
	return counts
}

// benefit returns the benefit of a scenario, and the benefit per node by which its pool differs from the pool of
// another one. They are nil if they are not known.
func (v *scenarioView) benefit(base *scenarioView) (all, perNode *float64) {
	if v.result == nil || v.result.Benefit == nil {
		return nil, nil
	}
	if nodes := v.snapshot.TotalNodes - base.snapshot.TotalNodes; nodes != 0 {
		perNode = new(v.result.GetBenefit() / float64(nodes))
	}
	return v.result.Benefit, perNode
}

// stopped returns the running jobs that get no nodes in a scenario, and some in another one.
func (v *scenarioView) stopped(base *scenarioView) []string {
	paused := make(map[string]bool)
	for _, a := range base.decision.GetAllocations() {
		paused[a.GetJobId()] = a.GetNodes() == 0
	}
	var ids []string
	for _, a := range v.decision.GetAllocations() {
		if was, known := paused[a.GetJobId()]; known && !was && a.GetChange() == elastallocv1.Change_CHANGE_PREEMPT {
			ids = append(ids, a.GetJobId())
		}
	}
	return ids
}

// benefitCells returns the cells of benefit, "" for the unchanged snapshot.
func (v *scenarioView) benefitCells(base *scenarioView) []string {
	if v.result == nil {
		return []string{"", ""}
	}
	cell := func(value *float64) string {
		if value == nil {
			return format.None
		}
		return fmt.Sprintf("%+.3f", *value)
	}
	all, perNode := v.benefit(base)
	return []string{cell(all), cell(perNode)}
}

// text returns a table of the scenarios, the jobs that stop, and tables of the jobs whose allocations differ, of at
// most limit jobs unless it is 0.
func (w *whatIfView) text(screen cli.Screen, limit int) string {
	t := screen.NewTable().AlignRight(1, 9)
	t.Clipped[0] = true
	t.AddRow(screen.Bold, "SCENARIO", "POOL", "RUN", "START", "WAIT", "STOP", "IDLE", "DIFFER", "BENEFIT", "PER NODE")
	for _, v := range append([]*scenarioView{w.base}, w.views...) {
		differ := ""
		if v.result != nil {
			differ = strconv.Itoa(v.differ)
		}
		t.AddRow(cli.Plain, append(append(append([]string{v.name}, v.counts()[:6]...), differ), v.benefitCells(w.base)...)...)
	}
	text := t.String() + screen.Wrap(fmt.Sprintf("BENEFIT: %s, to the jobs of both. STOP: running jobs that pause.", w.unit)) + "\n"
	text += w.keptLimitsText(screen) + w.stoppedText(screen) + differingJobs(w.base, w.views, screen, limit)
	for _, failure := range w.failures {
		text += "\n" + screen.Red.Paint(screen.Wrap(failure)) + "\n"
	}
	return text
}

// differingJobs returns tables of the jobs whose allocations differ in any scenario, each with as many scenarios
// as fit on the screen, and with at most limit jobs unless it is 0.
func differingJobs(base *scenarioView, views []*scenarioView, screen cli.Screen, limit int) string {
	const longestID = 26
	idWidth, cellWidth := len("JOB"), len(base.name)
	for _, v := range append([]*scenarioView{base}, views...) {
		for id, cell := range v.jobs {
			idWidth = max(idWidth, utf8.RuneCountInString(cli.Clip(id, longestID)))
			cellWidth = max(cellWidth, utf8.RuneCountInString(cell))
		}
	}
	width, fit := screen.Width, max(1, len(views))
	if width > 0 {
		fit = max(1, (width-idWidth)/(cellWidth+2)-1)
	}
	text := ""
	for block := range slices.Chunk(views, fit) {
		t := screen.NewTable()
		t.Clipped[0] = true
		header := []string{"JOB", strings.ToUpper(base.name)}
		for _, v := range block {
			name := v.name
			if width > 0 {
				name = cli.Clip(name, max(cellWidth, (width-idWidth)/(len(block)+1)-2))
			}
			header = append(header, name)
		}
		t.AlignRight(1, len(block)+1).AddRow(screen.Bold, header...)
		differing := differingIn(base, block)
		more := 0
		if limit > 0 && limit < len(differing) {
			differing, more = differing[:limit], len(differing)-limit
		}
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
			text += "\n" + t.String() + (&list{more: more}).note()
		}
	}
	if text != "" {
		text += "\n" + screen.Wrap("Nodes, + if the job starts, and the time to its completion. =: as it is.") + "\n"
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
	put := inCore(&elastallocv1.Snapshot{
		Jobs: scenario.GetPutJobs(), NodeTypes: scenario.GetPutNodeTypes(), SizeLimits: scenario.GetPutSizeLimits(),
	})
	change := solver.Scenario{
		RemoveJobIDs: scenario.GetRemoveJobIds(), PutJobs: put.Jobs, PutNodeTypes: put.NodeTypes, PutSizeLimits: put.SizeLimits,
	}
	if scenario.TotalNodes != nil {
		change.TotalNodes = new(int(scenario.GetTotalNodes()))
	}
	v, err := change.Apply(s)
	if err != nil {
		return new(solver.Snapshot)
	}
	return v.WithDefaults()
}
