package audit

import (
	"context"
	"maps"
	"math"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// answer is an answer to the request of a model.
type answer struct {
	*model
	allocations []*elastallocv1.Allocation
	report      *elastallocv1.SolveReport
	// plan has the nodes of every member; nil where the answer has none and the horizon has
	// more than one step.
	plan [][]int
}

// check returns what confirms an answer, or an error that is an ending.
func check(
	ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options,
) (string, error) {
	if err := known(request.ProtoReflect()); err != nil {
		return "", err
	}
	if err := known(response.ProtoReflect()); err != nil {
		return "", err
	}
	s, bad := read(request)
	if bad != nil {
		return "", refute("the request has to be refused, and has an answer: %w", bad)
	}
	if response.GetSnapshotId() != request.GetSnapshot().GetId() {
		return "", refute("snapshot_id is %q; the request has %q", response.GetSnapshotId(), request.GetSnapshot().GetId())
	}
	a := &answer{allocations: response.GetAllocations(), report: response.GetReport()}
	if err := a.claims(s.gap); err != nil {
		return "", err
	}
	m, err := newModel(s, s.admit(), max(math.Abs(a.report.GetObjective()), math.Abs(a.report.GetBound())))
	if err != nil {
		return "", err
	}
	a.model = m
	for _, step := range []func() error{a.readPlan, a.checkPlan, a.checkGroups, a.checkWarnings} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return a.prove(ctx, o)
}

// claims checks what the report claims against itself.
func (a *answer) claims(asked float64) error {
	r := a.report
	if r.GetReason() < elastallocv1.Reason_REASON_OPTIMAL || r.GetReason() > elastallocv1.Reason_REASON_HEURISTIC {
		return refute("the reason is %v", r.GetReason())
	}
	objective, bound := r.GetObjective(), r.GetBound()
	largest := max(math.Abs(objective), math.Abs(bound), 1e-12)
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return refute("objective %v and bound %v are no numbers", objective, bound)
	}
	if bound < objective-Tolerance*largest {
		return refute("the bound %v is below the objective %v", bound, objective)
	}
	gap, optimal := max(0, bound-objective)/largest, r.GetReason() == elastallocv1.Reason_REASON_OPTIMAL
	if !(math.Abs(gap-r.GetRelativeGap()) <= Tolerance/10) {
		return refute("relative_gap is %v; bound and objective make it %v", r.GetRelativeGap(), gap)
	}
	if optimal && gap > Tolerance*(1+1e-6) {
		return refute("the answer is called optimal with a gap of %v", gap)
	}
	limit := r.GetLimit()
	if limit < elastallocv1.Limit_LIMIT_NONE || limit > elastallocv1.Limit_LIMIT_WORK ||
		optimal && (limit == elastallocv1.Limit_LIMIT_GAP || limit == elastallocv1.Limit_LIMIT_WORK) ||
		limit == elastallocv1.Limit_LIMIT_GAP && gap > asked {
		return refute("the limit is %v; the reason is %v with a gap of %v", limit, r.GetReason(), gap)
	}
	return nil
}

// readPlan checks what is said of every job by itself, and reads the plan.
func (a *answer) readPlan() error {
	if len(a.allocations) != len(a.jobs) {
		return refute("the answer has %d allocations; the request has %d jobs", len(a.allocations), len(a.jobs))
	}
	planned := a.steps == 1 || len(a.members) == 0 ||
		slices.ContainsFunc(a.allocations, func(got *elastallocv1.Allocation) bool { return len(got.GetPlannedNodes()) > 0 })
	plan, idle, n := make([][]int, len(a.members)), a.pool, 0
	for i, got := range a.allocations {
		j, row, inModel := &a.jobs[i], []int{int(got.GetNodes())}, n < len(a.members) && a.members[n].index == i
		if err := a.checkJob(j, got); err != nil {
			return err
		}
		if many := len(got.GetPlannedNodes()); many > 0 || planned && inModel && a.steps > 1 {
			if many != a.steps || got.GetPlannedNodes()[0] != got.GetNodes() {
				return refute("job %q has %d nodes and the plan %v over %d steps", j.id, got.GetNodes(), got.GetPlannedNodes(), a.steps)
			}
			row = nil
			for _, k := range got.GetPlannedNodes() {
				row = append(row, int(k))
			}
		}
		if inModel {
			plan[n] = row
			n++
		} else if err := apart(j, got, row); err != nil {
			return err
		}
		if !j.held {
			idle -= row[0]
		}
	}
	if got := int(a.report.GetIdleNodes()); got != idle {
		return refute("idle_nodes is %d; the jobs leave %d", got, idle)
	}
	if err := a.legal(plan, a.report.GetReason() == elastallocv1.Reason_REASON_HEURISTIC); err != nil {
		return refute("%w", err)
	}
	if planned {
		a.plan = plan
	}
	return nil
}

// checkJob checks the words on one job.
func (a *answer) checkJob(j *job, got *elastallocv1.Allocation) error {
	nodes, current := int(got.GetNodes()), max(0, j.current)
	if got.GetJobId() != j.id {
		return refute("an allocation is for job %q (want %q)", got.GetJobId(), j.id)
	}
	change := elastallocv1.Change_CHANGE_KEEP
	switch {
	case current == 0 && nodes == 0:
		change = elastallocv1.Change_CHANGE_WAIT
	case current == 0:
		change = elastallocv1.Change_CHANGE_START
	case nodes == 0:
		change = elastallocv1.Change_CHANGE_PREEMPT
	case nodes > current:
		change = elastallocv1.Change_CHANGE_SCALE_UP
	case nodes < current:
		change = elastallocv1.Change_CHANGE_SCALE_DOWN
	}
	if got.GetChange() != change {
		return refute("job %q goes from %d to %d nodes, which is %v and not %v", j.id, current, nodes, change, got.GetChange())
	}
	waits := got.GetWaitReason()
	switch {
	case (waits != 0) != (nodes == 0 && !j.held):
		return refute("job %q has %d nodes and the wait reason %v", j.id, nodes, waits)
	case waits != 0 && (j.sizes[0] > a.wholePool) != (waits == elastallocv1.WaitReason_WAIT_REASON_NEVER_FITS):
		return refute("job %q waits with %v; its smallest size is %d of a pool of %d", j.id, waits, j.sizes[0], a.wholePool)
	case (got.GetBehindJobId() != "") != (waits == elastallocv1.WaitReason_WAIT_REASON_BEHIND):
		return refute("job %q waits with %v behind %q", j.id, waits, got.GetBehindJobId())
	}
	return nil
}

// apart checks a job that is no part of the model: over the whole horizon it keeps its nodes
// if it is held, else it has none, and no progress is told of it.
func apart(j *job, got *elastallocv1.Allocation, row []int) error {
	want, why := 0, "the admission leaves it out"
	if j.held {
		want, why = max(0, j.current), "it is held"
	}
	for t, k := range row {
		if k != want {
			return refute("job %q has %d nodes in step %d; %s with %d", j.id, k, t+1, why, want)
		}
	}
	progress := got.GetPlannedProgress()
	if n := len(progress); n != 0 && n != len(row) || slices.ContainsFunc(progress, func(share float64) bool { return share != 0 }) {
		return refute("job %q makes progress %v; %s", j.id, progress, why)
	}
	return nil
}

// checkPlan checks what the plan is said to bring: the progress of every job, and the
// objective.
func (a *answer) checkPlan() error {
	for i, row := range a.plan {
		got := a.allocations[a.members[i].index]
		_, _, want := a.members[i].value(row)
		if len(got.GetPlannedProgress()) == 0 && len(got.GetPlannedNodes()) == 0 {
			continue
		}
		if !slices.EqualFunc(got.GetPlannedProgress(), want, func(a, b float64) bool { return math.Abs(a-b) <= Tolerance }) {
			return refute("job %q makes progress %v; the answer says %v", got.GetJobId(), want, got.GetPlannedProgress())
		}
	}
	if a.plan == nil {
		return nil
	}
	most, least := a.objective(a.plan)
	if objective := a.report.GetObjective(); !(least <= objective && objective <= most) {
		return refute("the objective is %v; the plan is worth %v", objective, (most+least)/2)
	}
	return nil
}

// checkGroups checks the nodes and shortages of groups. A decision with groups has one step.
func (a *answer) checkGroups() error {
	if len(a.report.GetGroups()) != len(a.groups) {
		return refute("the report has %d groups; the request has %d", len(a.report.GetGroups()), len(a.groups))
	}
	held := make([]int, len(a.groups))
	for i := range a.jobs {
		if j := &a.jobs[i]; j.held {
			for g := range a.above(j.group) {
				held[g] += max(0, j.current)
			}
		}
	}
	for g, nodes := range a.groupNodes(a.plan, 0) {
		got, short := a.report.GetGroups()[g], max(0, a.floors[g]-nodes)
		if got.GetId() != a.groups[g].id || int(got.GetNodes()) != nodes+held[g] || int(got.GetShort()) != short {
			return refute("group %q holds %d nodes and is short of %d; the answer says %d and %d of %q",
				a.groups[g].id, nodes+held[g], short, got.GetNodes(), got.GetShort(), got.GetId())
		}
	}
	return nil
}

// checkWarnings checks that the jobs which are held or never fit are warned of, and no
// others. An empty pool says it of all at once.
func (a *answer) checkWarnings() error {
	held, never := make(map[string]bool), make(map[string]bool)
	for i := range a.jobs {
		if j := &a.jobs[i]; j.held {
			held[j.id] = true
		} else if j.sizes[0] > a.wholePool && a.pool > 0 {
			never[j.id] = true
		}
	}
	saysHeld, saysNever := make(map[string]bool), make(map[string]bool)
	for _, w := range a.report.GetWarnings() {
		switch w.GetCode() {
		case elastallocv1.WarningCode_WARNING_CODE_BAD_JOB_HELD:
			saysHeld[w.GetJobId()] = true
		case elastallocv1.WarningCode_WARNING_CODE_NEVER_FITS:
			saysNever[w.GetJobId()] = true
		}
	}
	if !maps.Equal(held, saysHeld) || !maps.Equal(never, saysNever) {
		return refute("jobs are held or never fit (%v, %v); the warnings say %v, %v", held, never, saysHeld, saysNever)
	}
	return nil
}
