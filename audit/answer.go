package audit

import (
	"cmp"
	"context"
	"math"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// answer is an answer to the request of a model.
type answer struct {
	*model
	allocations []*elastallocv1.Allocation
	report      *elastallocv1.SolveReport
	heuristic   bool
	// plan has the nodes of every member; nil where the answer has none and the horizon has
	// more than one step.
	plan [][]int
}

// effort counts the work of a check.
type effort struct {
	ctx     context.Context
	work    int // left
	polled  int // work at the last look at ctx
	numbers int // that may still be kept
}

func newEffort(ctx context.Context, o Options) *effort {
	work := cmp.Or(max(0, o.Work), DefaultWork)
	return &effort{ctx: ctx, work: work, polled: work + 1<<21, numbers: cmp.Or(max(0, o.Numbers), DefaultNumbers)} // Look at once.
}

// stopped ends a check that could not decide, by a panic that check recovers.
type stopped struct{ why string }

// spend counts work.
func (e *effort) spend(work int) {
	if e.work -= work; e.work < 0 {
		panic(stopped{"the count of work is used up"})
	}
	if e.polled-e.work > 1<<20 {
		e.polled = e.work
		if e.ctx.Err() != nil {
			panic(stopped{"the check was cancelled"})
		}
	}
}

// keep counts numbers that are kept.
func (e *effort) keep(numbers int) {
	e.spend(numbers)
	if e.numbers -= numbers; e.numbers < 0 {
		panic(stopped{"what may be part of a better plan is too much to keep"})
	}
}

// check returns what confirms an answer, or an error that is an ending.
func check(
	ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options,
) (reason string, err error) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case stopped:
			err = leaveOpen("nothing wrong was found, but %s", end.why)
		default:
			panic(end)
		}
	}()
	if err := cmp.Or(known(request), known(response)); err != nil {
		return "", err
	}
	s, bad := read(request)
	if bad != nil {
		return "", refute("the request has to be refused, and has an answer: %w", bad)
	}
	if response.GetSnapshotId() != request.GetSnapshot().GetId() {
		return "", refute("snapshot_id is %q; the request has %q", response.GetSnapshotId(), request.GetSnapshot().GetId())
	}
	e := newEffort(ctx, o)
	a := &answer{
		allocations: response.GetAllocations(), report: response.GetReport(),
		heuristic: response.GetReport().GetReason() == elastallocv1.Reason_REASON_HEURISTIC,
	}
	if err := a.checkClaims(s.gap); err != nil {
		return "", err
	}
	claim := scale(a.report.GetObjective(), a.report.GetBound())
	if a.model, err = newModel(s, claim, a.report.GetNodePrices(), e); err != nil {
		return "", err
	}
	if err := a.readPlan(); err != nil {
		return "", err
	}
	if err := a.checkPlan(); err != nil {
		return "", err
	}
	return a.prove(e)
}

// checkClaims checks what the report claims against itself.
func (a *answer) checkClaims(asked float64) error {
	reason, limit, objective, bound := a.report.GetReason(), a.report.GetLimit(), a.report.GetObjective(), a.report.GetBound()
	largest := scale(objective, bound)
	gap, optimal := max(0, bound-objective)/largest, reason == elastallocv1.Reason_REASON_OPTIMAL
	switch {
	case reason < elastallocv1.Reason_REASON_OPTIMAL || reason > elastallocv1.Reason_REASON_HEURISTIC:
		return refute("the reason is %v", reason)
	case !(largest <= math.MaxFloat64):
		return refute("objective %v and bound %v are no numbers", objective, bound)
	case bound < objective-Tolerance*largest:
		return refute("the bound %v is below the objective %v", bound, objective)
	case !(math.Abs(gap-a.report.GetRelativeGap()) <= Tolerance/10):
		return refute("relative_gap is %v; bound and objective make it %v", a.report.GetRelativeGap(), gap)
	case optimal && gap > Tolerance*(1+1e-6):
		return refute("the answer is called optimal with a gap of %v", gap)
	case limit < elastallocv1.Limit_LIMIT_NONE || limit > elastallocv1.Limit_LIMIT_WORK,
		optimal && (limit == elastallocv1.Limit_LIMIT_GAP || limit == elastallocv1.Limit_LIMIT_WORK),
		limit == elastallocv1.Limit_LIMIT_GAP && gap > asked,
		a.heuristic && limit != elastallocv1.Limit_LIMIT_NONE && limit != elastallocv1.Limit_LIMIT_TIME:
		return refute("the limit is %v; the reason is %v with a gap of %v", limit, reason, gap)
	case a.heuristic != (a.report.GetBackend() == elastallocv1.Backend_BACKEND_GREEDY):
		return refute("the reason is %v of an answer of %v", reason, a.report.GetBackend())
	}
	return nil
}

// readPlan reads the plan, and checks that it is legal and leaves the idle nodes. A job that
// is no part of the model keeps its nodes over the whole horizon if it is held, else it has
// none, and no progress is told of it.
func (a *answer) readPlan() error {
	if len(a.allocations) != len(a.jobs) {
		return refute("the answer has %d allocations; the request has %d jobs", len(a.allocations), len(a.jobs))
	}
	rows, plan, idle := 1, [][]int{}, slices.Clone(a.nodes)
	planned := a.steps == 1 || len(a.members) == 0 ||
		slices.ContainsFunc(a.allocations, func(got *elastallocv1.Allocation) bool { return len(got.GetPlannedNodes()) > 0 })
	if planned {
		rows = len(a.capacity)
	}
	for i, got := range a.allocations {
		j, nodes, on, told := &a.jobs[i], int(got.GetNodes()), a.typeOf(got.GetNodeType()), got.GetPlannedNodes()
		inModel := len(plan) < len(a.members) && a.members[len(plan)].index == i
		if got.GetJobId() != j.id {
			return refute("an allocation is for job %q (want %q)", got.GetJobId(), j.id)
		}
		// A held job may name a type that the request does not have.
		named := nodes > 0 && (!j.held || j.on >= 0)
		if named && (on < 0 || j.held && on != j.on) || !named && got.GetNodeType() != "" {
			return refute("job %q has %d nodes of type %q", j.id, nodes, got.GetNodeType())
		}
		on = max(0, on)
		if change := j.changeTo(nodes, on); got.GetChange() != change {
			return refute("job %q goes from %d to %d nodes, which is %v and not %v", j.id, j.current, nodes, change, got.GetChange())
		}
		row := []int{nodes}
		if len(told) > 0 || planned && inModel && a.steps > 1 {
			if len(told) != a.steps || int(told[0]) != nodes {
				return refute("job %q has %d nodes and the plan %v over %d steps", j.id, nodes, told, a.steps)
			}
			for _, k := range told[1:] {
				row = append(row, int(k))
			}
		}
		if !j.held {
			idle[on] -= nodes
		}
		if inModel {
			if a.several() {
				row = make([]int, rows)
				row[on] = nodes
			}
			plan = append(plan, row)
			continue
		}
		keeps := 0
		if j.held {
			keeps = j.current
		}
		if slices.ContainsFunc(row, func(k int) bool { return k != keeps }) {
			return refute("job %q has %v nodes; it is held or not admitted with %d", j.id, row, keeps)
		}
		if slices.ContainsFunc(got.GetPlannedProgress(), func(share float64) bool { return share != 0 }) {
			return refute("job %q makes progress %v; it is held or not admitted", j.id, got.GetPlannedProgress())
		}
	}
	if planned {
		a.plan = plan
	}
	if err := a.legal(plan, rows, a.heuristic); err != nil {
		return refute("%w", err)
	}
	return a.checkIdle(idle)
}

// checkIdle checks what is said of the nodes that are idle, and of each type.
func (a *answer) checkIdle(idle []int) error {
	total := 0
	for _, nodes := range idle {
		total += nodes
	}
	if got := int(a.report.GetIdleNodes()); got != total {
		return refute("idle_nodes is %d; the jobs leave %d", got, total)
	}
	types := a.types
	if types[0].id == "" {
		types = nil
	}
	if len(a.report.GetNodeTypes()) != len(types) {
		return refute("the report has %d node types; the request has %d", len(a.report.GetNodeTypes()), len(types))
	}
	for on, got := range a.report.GetNodeTypes() {
		if of := types[on]; got.GetId() != of.id || int(got.GetNodes()) != of.nodes || int(got.GetIdleNodes()) != idle[on] {
			return refute("type %q has %d nodes, %d idle; the answer says %d and %d of %q",
				of.id, of.nodes, idle[on], got.GetNodes(), got.GetIdleNodes(), got.GetId())
		}
	}
	return nil
}

// changeTo returns what it is called that a job gets nodes of a type.
func (j *job) changeTo(nodes, on int) elastallocv1.Change {
	switch {
	case j.current == 0 && nodes == 0:
		return elastallocv1.Change_CHANGE_WAIT
	case j.current == 0:
		return elastallocv1.Change_CHANGE_START
	case nodes == 0:
		return elastallocv1.Change_CHANGE_PREEMPT
	case on != j.on && !j.held:
		return elastallocv1.Change_CHANGE_MOVE
	case nodes > j.current:
		return elastallocv1.Change_CHANGE_SCALE_UP
	case nodes < j.current:
		return elastallocv1.Change_CHANGE_SCALE_DOWN
	}
	return elastallocv1.Change_CHANGE_KEEP
}

// checkPlan checks what the plan is said to bring: the progress of every job, the objective,
// and the nodes and shortages of groups, with which there is one step.
func (a *answer) checkPlan() error {
	if a.plan == nil {
		return nil
	}
	for i, row := range a.plan {
		got := a.allocations[a.members[i].index]
		_, _, want := a.value(&a.members[i], row)
		told := got.GetPlannedProgress()
		if len(told)+len(got.GetPlannedNodes()) > 0 &&
			!slices.EqualFunc(told, want, func(a, b float64) bool { return math.Abs(a-b) <= Tolerance }) {
			return refute("job %q makes progress %v; the answer says %v", got.GetJobId(), want, told)
		}
	}
	most, least := a.objective(a.plan)
	if objective := a.report.GetObjective(); !(least <= objective && objective <= most) {
		return refute("the objective is %v; the plan is worth %v", objective, (most+least)/2)
	}
	if len(a.report.GetGroups()) != len(a.groups) {
		return refute("the report has %d groups; the request has %d", len(a.report.GetGroups()), len(a.groups))
	}
	all := make([]int, len(a.groups)) // with held jobs
	for i, got := range a.allocations {
		for g := range a.above(a.jobs[i].group) {
			all[g] += int(got.GetNodes())
		}
	}
	for g, nodes := range a.groupNodes(a.plan, 0) {
		got, all, short := a.report.GetGroups()[g], min(all[g], math.MaxInt32), a.shortage(g, nodes)
		if got.GetId() != a.groups[g].id || int(got.GetNodes()) != all || int(got.GetShort()) != short {
			return refute("group %q holds %d nodes and is short of %d; the answer says %d and %d of %q",
				a.groups[g].id, all, short, got.GetNodes(), got.GetShort(), got.GetId())
		}
	}
	return nil
}
