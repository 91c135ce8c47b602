package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// decisionView is a decision and what is shown of it.
type decisionView struct {
	request  *elastallocv1.AllocateRequest // with one job per allocation
	response *elastallocv1.AllocateResponse
	outlook  outlook
	list     *list
}

// newDecisionView returns a decision on a request. It returns an error if their jobs differ.
func newDecisionView(request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse) (*decisionView, error) {
	ends := newOutlook(inCore(request.GetSnapshot()), response.GetAllocations())
	request = &elastallocv1.AllocateRequest{Snapshot: withUniqueJobs(request.GetSnapshot()), Options: request.GetOptions()}
	jobs, allocations := request.GetSnapshot().GetJobs(), response.GetAllocations()
	if err := checkCount(request.GetSnapshot(), allocations); err != nil {
		return nil, err
	}
	d := &decisionView{request: request, response: response, outlook: ends}
	d.list = newList(decisionColumns(), len(allocations), func(i int) []string {
		return append(allocationValues(jobs[i], allocations[i]), d.outlook.now[i].seconds(), d.outlook.then[i].seconds())
	})
	return d, nil
}

// text formats the decision: one line per job of the list, the groups, and the report.
func (d *decisionView) text(screen cli.Screen) string {
	objective := objectiveOf(d.request)
	text := reportTable(d.request, d.response, objective, d.outlook, screen).String()
	if n := len(d.request.GetSnapshot().GetGroups()); n > 0 && n == len(d.response.GetReport().GetGroups()) {
		text = groupTable(d.request.GetSnapshot(), d.response, screen).String() + "\n" + text
	}
	if len(d.list.order) > 0 {
		text = jobTable(d, objective, screen).String() + d.list.note() + "\n" + text
	}
	return text
}

// withUniqueJobs returns a snapshot with the jobs that have allocations (BAD_JOBS_HOLD). It returns s if all ids
// differ.
func withUniqueJobs(s *elastallocv1.Snapshot) *elastallocv1.Snapshot {
	_, frozen := inCore(s).Freeze(true)
	if n := len(frozen.Snapshot().Jobs); n == 0 || n == len(s.GetJobs()) {
		return s
	}
	return apiconv.ToSnapshot(frozen.Snapshot())
}

// checkCount returns an error if a response does not have as many jobs as its request.
func checkCount(snapshot *elastallocv1.Snapshot, allocations []*elastallocv1.Allocation) error {
	if got, want := len(allocations), len(snapshot.GetJobs()); got != want {
		return fmt.Errorf("the response has %d jobs; the request has %d", got, want)
	}
	return nil
}

// fillText formats the jobs of a list, and the pool.
func fillText(snapshot *elastallocv1.Snapshot, response *elastallocv1.FillIdleResponse, l *list, screen cli.Screen) string {
	jobs, allocations := snapshot.GetJobs(), response.GetAllocations()
	width := nodesWidth(jobs, allocations)
	t := screen.NewTable()
	t.Clipped[0], t.Clipped[2] = true, true
	header := []string{"JOB", "NODES", "CHANGE"}
	if len(snapshot.GetNodeTypes()) > 0 {
		header = append(header, "TYPE")
	}
	t.AddRow(screen.Bold, header...)
	for _, i := range l.order {
		a := allocations[i]
		row := []string{a.GetJobId(), nodesChange(jobs[i], a, width), describeChange(a), typeChange(jobs[i], a)}
		t.AddRow(styleOf(a.GetChange(), screen), row[:len(header)]...)
	}
	summary := screen.NewTable()
	summary.AddRow(cli.Plain, "jobs", countChanges(allocations))
	summary.AddRow(cli.Plain, "pool", fmt.Sprintf("%d nodes, %d idle", poolOf(snapshot), response.GetIdleNodes()))
	return t.String() + l.note() + "\n" + summary.String()
}

func poolOf(s *elastallocv1.Snapshot) int32 {
	total := s.GetTotalNodes()
	if total == 0 {
		for _, t := range s.GetNodeTypes() {
			total += t.GetNodes()
		}
	}
	return total
}

func nodesChange(job *elastallocv1.Job, a *elastallocv1.Allocation, width int) string {
	return fmt.Sprintf("%*d → %-*d", width, job.GetCurrentNodes(), width, a.GetNodes())
}

func typeChange(job *elastallocv1.Job, a *elastallocv1.Allocation) string {
	before, after := cmp.Or(job.GetCurrentNodeType(), format.None), cmp.Or(a.GetNodeType(), format.None)
	if job.GetCurrentNodes() == 0 {
		before = format.None
	}
	if before == after {
		return after
	}
	return before + " → " + after
}

// jobTable returns the table of jobs: their current and next nodes, the times to their completion and, for
// objectives with a horizon, their progress at the end of the horizon.
func jobTable(d *decisionView, objective solver.ObjectiveSpec, screen cli.Screen) *cli.Table {
	request, allocations := d.request, d.response.GetAllocations()
	t := screen.NewTable()
	t.Clipped[0], t.Clipped[2] = true, true // A change may name the job that it waits for.
	jobs, plan := request.GetSnapshot().GetJobs(), request.GetOptions().GetIncludePlan()
	progress := !objective.OneStep
	header := []string{"JOB", "NODES", "CHANGE", "ENDS IN"}
	typed := len(request.GetSnapshot().GetNodeTypes()) > 0
	if typed {
		header = append(header, "TYPE")
	}
	if progress {
		header = append(header, "AFTER "+horizonOf(request.GetSnapshot()))
	}
	if plan {
		header = append(header, "PLAN")
	}
	t.AddRow(screen.Bold, header...)

	width := nodesWidth(jobs, allocations)
	for _, i := range d.list.order {
		a := allocations[i]
		row := []string{a.GetJobId(), nodesChange(jobs[i], a, width), describeChange(a), d.outlook.describe(i)}
		if typed {
			row = append(row, typeChange(jobs[i], a))
		}
		if progress {
			row = append(row, describeProgress(a.GetPlannedProgress(), !plan))
		}
		if plan {
			row = append(row, describePlan(a.GetPlannedNodes(), width))
		}
		t.AddRow(styleOf(a.GetChange(), screen), row...)
	}
	return t
}

// groupTable returns the table of groups, as a tree: their jobs, waiting jobs, current and next nodes, quota,
// nodes missing to the quota, limit, and the value of one additional node of the limit.
func groupTable(snapshot *elastallocv1.Snapshot, response *elastallocv1.AllocateResponse, screen cli.Screen) *cli.Table {
	t := screen.NewTable()
	t.Clipped[0] = true
	t.AddRow(screen.Bold, "GROUP", "JOBS", "WAIT", "NODES", "QUOTA", "SHORT", "LIMIT", "PRICE")
	groups, reports := snapshot.GetGroups(), response.GetReport().GetGroups()
	jobs, waiting, now, position := make([]int, len(groups)), make([]int, len(groups)), make([]int, len(groups)), make(map[string]int)
	children := make(map[string][]int)
	for i, group := range groups {
		position[group.GetId()] = i
		children[group.GetParentId()] = append(children[group.GetParentId()], i)
	}
	for i, job := range snapshot.GetJobs() {
		for id := job.GetGroupId(); id != ""; id = groups[position[id]].GetParentId() {
			at := position[id]
			jobs[at]++
			now[at] += int(job.GetCurrentNodes())
			if response.GetAllocations()[i].GetNodes() == 0 {
				waiting[at]++
			}
		}
	}
	var add func(parent, indent string)
	add = func(parent, indent string) {
		for _, i := range children[parent] {
			group, report := groups[i], reports[i]
			limit, price := format.None, format.None
			if group.Limit != nil {
				limit, price = strconv.Itoa(int(group.GetLimit())), fmt.Sprintf("%.3f", report.GetPrice())
			}
			style := cli.Plain
			if report.GetShort() > 0 {
				style = screen.Yellow
			}
			t.AddRow(style, indent+group.GetId(), strconv.Itoa(jobs[i]), strconv.Itoa(waiting[i]),
				fmt.Sprintf("%d → %d", now[i], report.GetNodes()), strconv.Itoa(int(group.GetQuota())),
				strconv.Itoa(int(report.GetShort())), limit, price)
			add(group.GetId(), indent+"  ")
		}
	}
	add("", "")
	return t
}

func styleOf(change elastallocv1.Change, screen cli.Screen) cli.Style {
	switch change {
	case elastallocv1.Change_CHANGE_START:
		return screen.Green
	case elastallocv1.Change_CHANGE_SCALE_UP, elastallocv1.Change_CHANGE_MOVE:
		return screen.Cyan
	case elastallocv1.Change_CHANGE_SCALE_DOWN:
		return screen.Yellow
	case elastallocv1.Change_CHANGE_WAIT:
		return screen.Dim
	case elastallocv1.Change_CHANGE_PREEMPT:
		return screen.Red
	default:
		return cli.Plain
	}
}

func nodesWidth(jobs []*elastallocv1.Job, allocations []*elastallocv1.Allocation) int {
	largest := int32(0)
	for i, a := range allocations {
		largest = max(largest, jobs[i].GetCurrentNodes(), a.GetNodes())
		for _, nodes := range a.GetPlannedNodes() {
			largest = max(largest, nodes)
		}
	}
	return len(strconv.Itoa(int(largest)))
}

func reportTable(
	request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse,
	objective solver.ObjectiveSpec, o outlook, screen cli.Screen,
) *cli.Table {
	t := screen.NewTable()
	add := func(name, layout string, args ...any) { t.AddRow(cli.Plain, name, fmt.Sprintf(layout, args...)) }
	report := response.GetReport()
	if id := response.GetSnapshotId(); id != "" {
		add("snapshot", "%s", id)
	}
	add("jobs", "%s", countChanges(response.GetAllocations()))
	add("pool", "%d nodes, %d idle%s", poolOf(request.GetSnapshot()), report.GetIdleNodes(), describeCapped(request, response))
	list := func(name string, lines []string) {
		for _, line := range lines {
			add(name, "%s", line)
			name = ""
		}
	}
	var types, attempts, warnings []string
	for _, of := range report.GetNodeTypes() {
		types = append(types, fmt.Sprintf("%s: %d, %d idle, value of one more %.4g", of.GetId(), of.GetNodes(), of.GetIdleNodes(), of.GetPrice()))
	}
	list("node types", types)
	if len(response.GetAllocations()) > 0 {
		for _, row := range o.rows() {
			add(row[0], "%s", row[1])
		}
	}
	add("objective", "%.6f %s", report.GetObjective(), objective.Unit.Name)
	add("bound", "%.6f", report.GetBound())
	add("gap", "%s", describeGap(report))
	add("greedy", "%s", describeGain(report))
	if note := describeStart(request, response); note != "" {
		add("admission", "%s", note)
	}
	add("decided by", "%s in %s", cli.EnumName(report.GetBackend()), format.Duration(report.GetSolveTime().AsDuration()))
	for _, attempt := range report.GetAttempts() {
		attempts = append(attempts, describeAttempt(attempt))
	}
	if len(attempts) > 1 {
		list("attempts", attempts)
	}
	for _, warning := range report.GetWarnings() {
		warnings = append(warnings, warning.GetMessage())
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings], fmt.Sprintf("and %d more", more))
	}
	list("warnings", warnings)
	return t
}

// describeCapped reports how many jobs get no more of the idle nodes because their max_nodes is unset. It
// returns "" if there are none.
func describeCapped(request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse) string {
	capped := 0
	for i, job := range request.GetSnapshot().GetJobs() {
		if job.MaxNodes == nil && len(job.GetAllowedNodes()) == 0 && response.GetAllocations()[i].GetNodes() == solver.DefaultMaxNodes {
			capped++
		}
	}
	if capped == 0 || response.GetReport().GetIdleNodes() == 0 {
		return ""
	}
	return fmt.Sprintf("; %s at %d, the maximum without max_nodes", format.Plural(capped, "job"), solver.DefaultMaxNodes)
}

// maxWarnings is the maximum number of warnings in the table. JSON has all warnings.
const maxWarnings = 10

// optionsOf returns the objective and the admission of a request, with their defaults.
func optionsOf(request *elastallocv1.AllocateRequest) solver.Options {
	return solver.Options{
		Objective: solver.Objective(apiconv.Name(request.GetOptions().GetObjective())),
		Admission: solver.Admission(apiconv.Name(request.GetOptions().GetAdmission())),
	}.WithDefaults()
}

func objectiveOf(request *elastallocv1.AllocateRequest) solver.ObjectiveSpec {
	o := optionsOf(request)
	return o.Spec()
}

// describeChange describes the change of a job and, if it waits, the reason.
func describeChange(a *elastallocv1.Allocation) string {
	text := words(a.GetChange())
	switch a.GetWaitReason() {
	case elastallocv1.WaitReason_WAIT_REASON_UNSPECIFIED:
		return text
	case elastallocv1.WaitReason_WAIT_REASON_BEHIND:
		return text + ": behind " + a.GetBehindJobId()
	default:
		return text + ": " + words(a.GetWaitReason())
	}
}

// countChanges returns the number of jobs and the numbers of their changes.
func countChanges(allocations []*elastallocv1.Allocation) string {
	counts := make(map[elastallocv1.Change]int)
	for _, a := range allocations {
		counts[a.GetChange()]++
	}
	text := strconv.Itoa(len(allocations))
	separator := ": "
	for change := range elastallocv1.Change(len(elastallocv1.Change_name)) {
		if counts[change] > 0 {
			text += fmt.Sprintf("%s%d %s", separator, counts[change], words(change))
			separator = ", "
		}
	}
	return text
}

// describeGap describes the relative gap of a decision.
func describeGap(report *elastallocv1.SolveReport) string {
	text := format.Gap(report.GetRelativeGap())
	if report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL {
		if behindGreedy(report) {
			return text + ": proven optimal, no plan that the admission allows is better"
		}
		return text + ": proven optimal, no plan is better"
	}
	text += ": no plan is better by more"
	if limit := format.Limit(solver.Limit(apiconv.Name(report.GetLimit()))); limit != "" {
		return text + "; " + limit
	}
	if report.GetReason() == elastallocv1.Reason_REASON_HEURISTIC {
		text += "; no search was made"
	}
	return text
}

// describeGain returns the objective of the greedy baseline and the improvement over it.
func describeGain(report *elastallocv1.SolveReport) string {
	text := fmt.Sprintf("%.6f", report.GetGreedyObjective())
	if report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL && behindGreedy(report) {
		return text + ", by leaving jobs waiting that the admission starts"
	}
	if gain := format.Improvement(report.GetObjective(), report.GetGreedyObjective()); gain != format.None {
		text += ", improvement over greedy " + gain
	}
	return text
}

// describeStart names the job that the admission starts although other jobs pause for it. It returns ""
// if the objective is not below the objective of the greedy baseline.
func describeStart(request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse) string {
	report, paused := response.GetReport(), 0
	if optionsOf(request).Admission != solver.AdmissionStartFirst ||
		report.GetReason() != elastallocv1.Reason_REASON_OPTIMAL || !behindGreedy(report) {
		return ""
	}
	var largest *elastallocv1.Allocation
	for _, a := range response.GetAllocations() {
		switch {
		case a.GetChange() == elastallocv1.Change_CHANGE_PREEMPT:
			paused++
		case a.GetChange() == elastallocv1.Change_CHANGE_START && a.GetNodes() > largest.GetNodes():
			largest = a
		}
	}
	if largest == nil || paused == 0 {
		return ""
	}
	return fmt.Sprintf("start-first starts %s on %s at any price, here the nodes of %s; optimized may let it wait",
		largest.GetJobId(), format.Plural(int(largest.GetNodes()), "node"), format.Plural(paused, "running job"))
}

// behindGreedy reports whether the greedy baseline has a larger objective, beyond rounding errors. It
// may leave jobs waiting that an admission such as start-first starts.
func behindGreedy(report *elastallocv1.SolveReport) bool {
	greedy := report.GetGreedyObjective()
	return greedy-report.GetObjective() > 1e-9*math.Abs(greedy)
}

// describeAttempt returns the outcome of a backend's attempt and, if it failed, the reason.
func describeAttempt(attempt *elastallocv1.Attempt) string {
	text := fmt.Sprintf("%s: %s after %s", cli.EnumName(attempt.GetBackend()),
		words(attempt.GetOutcome()), format.Duration(attempt.GetDuration().AsDuration()))
	if attempt.GetOutcome() != elastallocv1.Outcome_OUTCOME_ANSWERED && attempt.GetDetail() != "" {
		text += " (" + attempt.GetDetail() + ")"
	}
	return text
}

// maxSteps is the maximum number of steps that are shown one by one. More do not fit on a screen.
const maxSteps = 12

// describePlan formats the nodes per step, each with the given width. For a long horizon it groups
// equal steps: 8×3 is 8 8 8.
func describePlan(nodes []int32, width int) string {
	var steps []string
	var end int
	for first := 0; first < len(nodes); first = end {
		end = first + 1
		if len(nodes) <= maxSteps {
			steps = append(steps, fmt.Sprintf("%*d", width, nodes[first]))
			continue
		}
		for end < len(nodes) && nodes[end] == nodes[first] {
			end++
		}
		text := strconv.Itoa(int(nodes[first]))
		if end-first > 1 {
			text += fmt.Sprintf("×%d", end-first)
		}
		steps = append(steps, text)
	}
	return strings.Join(steps, " ")
}

// describeProgress formats the cumulative progress at the end of the last step. It rounds down, so that
// only a complete job has 100%. With withSparkline it adds the progress of each step, if the steps fit.
func describeProgress(progress []float64, withSparkline bool) string {
	if len(progress) == 0 {
		return ""
	}
	text := fmt.Sprintf("%5.1f%%", math.Floor(1000*progress[len(progress)-1])/10)
	if withSparkline && len(progress) <= maxSteps {
		text = sparkline(progress) + " " + text
	}
	return text
}

// sparkline returns blocks for the cumulative progress at the end of each step, 0 to 1: a dot for 0 and
// the full block for 1.
func sparkline(progress []float64) string {
	var line strings.Builder
	for _, share := range progress {
		switch {
		case share <= 0:
			line.WriteRune('·')
		case share >= 1:
			line.WriteRune('█')
		default:
			line.WriteString(block("▁▂▃▄▅▆▇", share))
		}
	}
	return line.String()
}

// block returns the block for a fraction, out of blocks from the lowest to the highest. NaN is the
// lowest block.
func block(blocks string, share float64) string {
	levels := []rune(blocks)
	return string(levels[max(0, min(len(levels)-1, int(share*float64(len(levels)))))])
}

// words returns the name of an enum's value as words.
func words(value protoreflect.Enum) string {
	return format.Readable(cli.EnumName(value))
}
