package audit

import (
	"context"
	"fmt"
	"math"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// answer is an answer whose allocations are those of a model's jobs.
type answer struct {
	*model
	response  *elastallocv1.AllocateResponse
	report    *elastallocv1.SolveReport
	standings []standing
	heuristic bool
	// plan is nil where the answer has none and the horizon has more than one step; rows are
	// the nodes of every job of the model.
	plan [][]int
}

// check returns what confirms an answer, or a refuted or open error.
func check(
	ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options,
) (string, error) {
	if err := known(request, response); err != nil {
		return "", err
	}
	s, bad := read(request)
	if bad != nil {
		return "", refute("the request has to be refused, and has an answer: %w", bad)
	}
	standings := s.admit()
	heuristic := response.GetReport().GetReason() == elastallocv1.Reason_REASON_HEURISTIC
	m, err := newModel(s, standings, heuristic)
	if err != nil {
		return "", leaveOpen("%w", err)
	}
	a := &answer{model: m, response: response, report: response.GetReport(), standings: standings, heuristic: heuristic}
	if response.GetSnapshotId() != request.GetSnapshot().GetId() {
		return "", refute("snapshot_id is %q; the request has %q", response.GetSnapshotId(), request.GetSnapshot().GetId())
	}
	if err := a.allocations(); err != nil {
		return "", err
	}
	if err := a.reported(request.GetSnapshot()); err != nil {
		return "", err
	}
	return a.prove(ctx, o)
}

// allocations checks the nodes of every job and reads the plan.
func (a *answer) allocations() error {
	list := a.response.GetAllocations()
	if len(list) != len(a.snapshot.jobs) {
		return refute("the answer has %d allocations; the request has %d jobs", len(list), len(a.snapshot.jobs))
	}
	planned := a.steps == 1 || len(a.jobs) == 0
	for _, got := range list {
		planned = planned || len(got.GetPlannedNodes()) > 0
	}
	if planned {
		a.plan = make([][]int, 0, len(a.jobs))
	}
	now := make([][]int, 0, len(a.jobs)) // the first step alone
	idle := a.pool
	for i, got := range list {
		j := &a.snapshot.jobs[i]
		row, err := a.row(j, got, planned)
		if err != nil {
			return err
		}
		switch {
		case j.held || a.standings[i] == out:
			if err := apart(j, got, row); err != nil {
				return err
			}
			if j.held {
				continue
			}
		default:
			now = append(now, row[:1])
			if planned {
				a.plan = append(a.plan, row)
			}
		}
		idle -= row[0]
	}
	if planned {
		now = a.plan
	}
	if err := a.legal(now, a.heuristic); err != nil {
		return refute("%w", err)
	}
	if got := int(a.report.GetIdleNodes()); got != idle {
		return refute("idle_nodes is %d; the jobs leave %d", got, idle)
	}
	return a.progress()
}

// row checks what is said of one job and returns its nodes per step.
func (a *answer) row(j *job, got *elastallocv1.Allocation, planned bool) ([]int, error) {
	nodes, current := int(got.GetNodes()), max(0, j.current)
	if got.GetJobId() != j.id {
		return nil, refute("an allocation is for job %q (want %q)", got.GetJobId(), j.id)
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
		return nil, refute("job %q goes from %d to %d nodes, which is %v and not %v", j.id, current, nodes, change, got.GetChange())
	}
	waits, behind := got.GetWaitReason(), got.GetBehindJobId()
	never := !j.held && j.sizes[0] > a.wholePool
	switch {
	case (waits != 0) != (nodes == 0 && !j.held):
		return nil, refute("job %q has %d nodes and the wait reason %v", j.id, nodes, waits)
	case nodes == 0 && never != (waits == elastallocv1.WaitReason_WAIT_REASON_NEVER_FITS):
		return nil, refute("job %q waits with %v; its smallest size is %d of a pool of %d", j.id, waits, j.sizes[0], a.wholePool)
	case (behind != "") != (waits == elastallocv1.WaitReason_WAIT_REASON_BEHIND):
		return nil, refute("job %q waits with %v behind %q", j.id, waits, behind)
	}
	row := []int{nodes}
	if planned && a.steps > 1 && len(a.jobs) > 0 || len(got.GetPlannedNodes()) > 0 {
		if len(got.GetPlannedNodes()) != a.steps || int(got.GetPlannedNodes()[0]) != nodes {
			return nil, refute("job %q has %d nodes and the plan %v over %d steps", j.id, nodes, got.GetPlannedNodes(), a.steps)
		}
		row = row[:0]
		for _, k := range got.GetPlannedNodes() {
			row = append(row, int(k))
		}
	}
	return row, nil
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

// progress checks the progress that the plan says the jobs make.
func (a *answer) progress() error {
	if a.plan == nil {
		return nil
	}
	for i := range a.jobs {
		j := &a.jobs[i]
		got := a.response.GetAllocations()[j.index].GetPlannedProgress()
		if len(got) == 0 && len(a.response.GetAllocations()[j.index].GetPlannedNodes()) == 0 {
			continue
		}
		_, _, want := j.value(a.plan[i])
		if len(got) != len(want) {
			return refute("job %q has %d shares of progress; the horizon has %d steps", j.id, len(got), a.steps)
		}
		for t := range want {
			if !(math.Abs(got[t]-want[t]) <= Tolerance) {
				return refute("job %q has done %v of its work by the end of step %d; the answer says %v", j.id, want[t], t+1, got[t])
			}
		}
	}
	return nil
}

// reported checks the report against the plan.
func (a *answer) reported(s *elastallocv1.Snapshot) error {
	r := a.report
	if r.GetReason() < elastallocv1.Reason_REASON_OPTIMAL || r.GetReason() > elastallocv1.Reason_REASON_HEURISTIC {
		return refute("the reason is %v", r.GetReason())
	}
	objective, bound := r.GetObjective(), r.GetBound()
	if math.IsNaN(objective) || math.IsInf(objective, 0) || math.IsNaN(bound) || math.IsInf(bound, 0) {
		return refute("objective %v and bound %v are no numbers", objective, bound)
	}
	largest := max(math.Abs(objective), math.Abs(bound), 1e-12)
	if bound < objective-Tolerance*largest {
		return refute("the bound %v is below the objective %v", bound, objective)
	}
	gap := max(0, bound-objective) / largest
	if !(math.Abs(gap-r.GetRelativeGap()) <= Tolerance/10) {
		return refute("relative_gap is %v; bound and objective make it %v", r.GetRelativeGap(), gap)
	}
	if r.GetReason() == elastallocv1.Reason_REASON_OPTIMAL && gap > Tolerance*(1+1e-6) {
		return refute("the answer is called optimal with a gap of %v", gap)
	}
	switch limit, optimal := r.GetLimit(), r.GetReason() == elastallocv1.Reason_REASON_OPTIMAL; {
	case limit < elastallocv1.Limit_LIMIT_NONE || limit > elastallocv1.Limit_LIMIT_WORK,
		optimal && (limit == elastallocv1.Limit_LIMIT_GAP || limit == elastallocv1.Limit_LIMIT_WORK),
		limit == elastallocv1.Limit_LIMIT_GAP && gap > a.options.GetRelativeGap():
		return refute("the limit is %v; the reason is %v with a gap of %v", limit, r.GetReason(), gap)
	}
	if a.plan != nil {
		worth, magnitude := a.objective(a.plan)
		if !(math.Abs(objective-worth) <= slack*magnitude+leastWorth) {
			return refute("the objective is %v; the plan is worth %v", objective, worth)
		}
	}
	return a.groupsAndWarnings(s)
}

// groupsAndWarnings checks the nodes of groups and the warnings that name jobs.
func (a *answer) groupsAndWarnings(s *elastallocv1.Snapshot) error {
	r := a.report
	if len(r.GetGroups()) != len(a.groups) {
		return refute("the report has %d groups; the request has %d", len(r.GetGroups()), len(a.groups))
	}
	nodes, held := a.groupNodes(a.plan, 0), make([]int, len(a.groups)) // groups have one step
	ids := make(map[string]int, len(a.groups))
	for g, of := range s.GetGroups() {
		ids[of.GetId()] = g + 1
	}
	for i := range a.snapshot.jobs {
		if a.snapshot.jobs[i].held {
			// Its group may be one that it cannot belong to.
			for g := ids[s.GetJobs()[i].GetGroupId()] - 1; g >= 0; g = a.groups[g].parent {
				held[g] += max(0, a.snapshot.jobs[i].current)
			}
		}
	}
	for g, got := range r.GetGroups() {
		short := max(0, a.floor[g]-nodes[g])
		if got.GetId() != s.GetGroups()[g].GetId() || int(got.GetNodes()) != nodes[g]+held[g] || int(got.GetShort()) != short {
			return refute("group %q holds %d nodes and is short of %d; the answer says %d and %d of %q",
				s.GetGroups()[g].GetId(), nodes[g]+held[g], short, got.GetNodes(), got.GetShort(), got.GetId())
		}
	}
	said := make(map[string]bool)
	for _, w := range r.GetWarnings() {
		said[fmt.Sprint(w.GetCode(), " ", w.GetJobId())] = true
	}
	anyHeld := make(map[string]bool)
	for i := range a.snapshot.jobs {
		if j := &a.snapshot.jobs[i]; j.held {
			anyHeld[j.id] = true
		}
	}
	for i := range a.snapshot.jobs {
		j := &a.snapshot.jobs[i]
		if says := said[fmt.Sprint(elastallocv1.WarningCode_WARNING_CODE_BAD_JOB_HELD, " ", j.id)]; says != anyHeld[j.id] {
			return refute("job %q is held: %v; the warnings say %v", j.id, j.held, says)
		}
		never := !j.held && j.sizes[0] > a.wholePool && a.pool > 0 // An empty pool says it of all.
		if says := said[fmt.Sprint(elastallocv1.WarningCode_WARNING_CODE_NEVER_FITS, " ", j.id)]; says != never && !anyHeld[j.id] {
			return refute("job %q never fits: %v; the warnings say %v", j.id, never, says)
		}
	}
	return nil
}

// real returns a value in units as a number.
func (m *model) real(v int64) float64 { return math.Ldexp(float64(v), -m.unit) }
