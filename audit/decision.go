package audit

import (
	"cmp"
	"context"
	"math"
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// decision is a response together with the model of its request.
type decision struct {
	*model
	allocations []*elastallocv1.Allocation
	report      *elastallocv1.SolveReport
	heuristic   bool // made without a search
	// plan contains the nodes of every member by row. It is nil if the response has no plan and
	// the horizon has more than one step.
	plan [][]int
}

// budget limits the work and the memory of a check.
type budget struct {
	ctx     context.Context
	work    int // operations left
	polled  int // work when ctx was last polled
	numbers int // numbers that may still be stored
}

func newBudget(ctx context.Context, o Options) *budget {
	work := cmp.Or(max(0, o.Work), DefaultWork)
	return &budget{ctx: ctx, work: work, polled: work + 1<<21, numbers: cmp.Or(max(0, o.Numbers), DefaultNumbers)} // Poll ctx at once.
}

// aborted is the panic value of a check that cannot decide. Function check recovers it.
type aborted struct{ reason string }

// spend counts operations. It panics if none are left.
func (b *budget) spend(work int) {
	if b.work -= work; b.work < 0 {
		panic(aborted{"the count of work is used up"})
	}
	if b.polled-b.work > 1<<20 {
		b.polled = b.work
		if b.ctx.Err() != nil {
			panic(aborted{"the check was canceled"})
		}
	}
}

// store counts numbers that stay in memory. It panics if there are too many.
func (b *budget) store(numbers int) {
	b.spend(numbers)
	if b.numbers -= numbers; b.numbers < 0 {
		panic(aborted{"the candidate plans exceed the memory limit"})
	}
}

// check returns the reason of a confirmation, or a verdictError.
func check(
	ctx context.Context, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse, o Options,
) (reason string, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case aborted:
			err = leaveOpen("no error was found, but %s", cause.reason)
		default:
			panic(cause)
		}
	}()
	if err := cmp.Or(checkUnknownFields(request), checkUnknownFields(response)); err != nil {
		return "", err
	}
	s, invalid := parseRequest(request)
	if invalid != nil {
		return "", refute("the request is invalid and must be refused: %w", invalid)
	}
	if response.GetSnapshotId() != request.GetSnapshot().GetId() {
		return "", refute("snapshot_id is %q; must be %q, as in the request", response.GetSnapshotId(), request.GetSnapshot().GetId())
	}
	b := newBudget(ctx, o)
	d := &decision{
		allocations: response.GetAllocations(), report: response.GetReport(),
		heuristic: response.GetReport().GetReason() == elastallocv1.Reason_REASON_HEURISTIC,
	}
	if err := d.checkClaims(s.relativeGap); err != nil {
		return "", err
	}
	claim := toleranceScale(d.report.GetObjective(), d.report.GetBound())
	if d.model, err = newModel(s, claim, d.report, b); err != nil {
		return "", err
	}
	if err := d.readPlan(); err != nil {
		return "", err
	}
	if err := d.checkPlan(); err != nil {
		return "", err
	}
	return d.prove(b)
}

// checkClaims checks that the claims of the report are consistent. The request allows
// requestedGap as the relative gap.
func (d *decision) checkClaims(requestedGap float64) error {
	reason, limit, objective, bound := d.report.GetReason(), d.report.GetLimit(), d.report.GetObjective(), d.report.GetBound()
	largest := toleranceScale(objective, bound)
	gap, optimal := max(0, bound-objective)/largest, reason == elastallocv1.Reason_REASON_OPTIMAL
	switch {
	case reason < elastallocv1.Reason_REASON_OPTIMAL || reason > elastallocv1.Reason_REASON_HEURISTIC:
		return refute("the reason is %v", reason)
	case !(largest <= math.MaxFloat64):
		return refute("objective %v and bound %v must be finite", objective, bound)
	case bound < objective-Tolerance*largest:
		return refute("the bound %v is below the objective %v", bound, objective)
	case !(math.Abs(gap-d.report.GetRelativeGap()) <= Tolerance/10):
		return refute("relative_gap is %v; must be %v, from bound and objective", d.report.GetRelativeGap(), gap)
	case optimal && gap > Tolerance*(1+1e-6):
		return refute("the reason is OPTIMAL with a gap of %v", gap)
	case limit < elastallocv1.Limit_LIMIT_NONE || limit > elastallocv1.Limit_LIMIT_WORK,
		optimal && (limit == elastallocv1.Limit_LIMIT_GAP || limit == elastallocv1.Limit_LIMIT_WORK),
		limit == elastallocv1.Limit_LIMIT_GAP && gap > requestedGap,
		d.heuristic && limit != elastallocv1.Limit_LIMIT_NONE && limit != elastallocv1.Limit_LIMIT_TIME:
		return refute("the limit is %v; the reason is %v with a gap of %v", limit, reason, gap)
	case d.heuristic != (d.report.GetBackend() == elastallocv1.Backend_BACKEND_GREEDY):
		return refute("the reason is %v, and the backend is %v", reason, d.report.GetBackend())
	}
	return nil
}

// readPlan reads the plan and checks that it is legal and that idle_nodes follows from it.
func (d *decision) readPlan() error {
	if len(d.allocations) != len(d.jobs) {
		return refute("the response has %d allocations; the request has %d jobs", len(d.allocations), len(d.jobs))
	}
	planned := d.hasPlan()
	plan, idle := [][]int{}, slices.Clone(d.nodes)
	for i, got := range d.allocations {
		isMember := len(plan) < len(d.members) && d.members[len(plan)].index == i
		of, err := d.readAllocation(&d.jobs[i], got, planned && isMember && d.steps > 1)
		if err != nil {
			return err
		}
		if !of.job.frozen {
			idle[of.nodeType] -= of.nodes
		}
		switch {
		case !isMember:
			if err := of.checkWithoutMember(got.GetPlannedProgress()); err != nil {
				return err
			}
		case d.coupled():
			plan = append(plan, d.usageByRow(of.job, of.nodeType, of.nodes))
		default:
			plan = append(plan, of.steps)
		}
	}
	rows := 1
	if planned {
		d.plan, rows = plan, len(d.capacity)
	}
	if err := d.checkLegal(plan, rows, d.heuristic); err != nil {
		return refute("%w", err)
	}
	return cmp.Or(d.checkIdle(idle), d.checkSizeLimits())
}

// hasPlan reports whether the response has the nodes of every member in every step.
func (d *decision) hasPlan() bool {
	return d.steps == 1 || len(d.members) == 0 ||
		slices.ContainsFunc(d.allocations, func(got *elastallocv1.Allocation) bool { return len(got.GetPlannedNodes()) > 0 })
}

// allocated is what a response allocates to a job.
type allocated struct {
	job             *job
	nodeType, nodes int   // nodeType is 0 if the job has no nodes
	steps           []int // nodes in every step, or only in the first one if the response has no more
}

// readAllocation reads an allocation and checks that it is possible for the job. The planned nodes are
// optional unless requiresSteps is set.
func (d *decision) readAllocation(j *job, got *elastallocv1.Allocation, requiresSteps bool) (allocated, error) {
	nodes, nodeType := int(got.GetNodes()), d.typeIndex(got.GetNodeType())
	if got.GetJobId() != j.id {
		return allocated{}, refute("an allocation is for job %q; must be for %q", got.GetJobId(), j.id)
	}
	// A frozen job may name a type that the request does not have.
	hasType := nodes > 0 && (!j.frozen || j.nodeType >= 0)
	if hasType && (nodeType < 0 || j.frozen && nodeType != j.nodeType) || !hasType && got.GetNodeType() != "" {
		return allocated{}, refute("job %q has %d nodes of type %q", j.id, nodes, got.GetNodeType())
	}
	nodeType = max(0, nodeType)
	if change := j.changeTo(nodes, nodeType); got.GetChange() != change {
		return allocated{}, refute("job %q changes from %d to %d nodes: the change is %v; must be %v",
			j.id, j.currentNodes, nodes, got.GetChange(), change)
	}
	of := allocated{job: j, nodeType: nodeType, nodes: nodes, steps: []int{nodes}}
	if planned := got.GetPlannedNodes(); len(planned) > 0 || requiresSteps {
		if len(planned) != d.steps || int(planned[0]) != nodes {
			return allocated{}, refute("job %q has %d nodes and the plan %v over %d steps", j.id, nodes, planned, d.steps)
		}
		for _, k := range planned[1:] {
			of.steps = append(of.steps, int(k))
		}
	}
	return of, nil
}

// checkWithoutMember checks the allocation of a job that is not a member of the model. It keeps its nodes
// in every step if it is frozen, otherwise it has none. In both cases it has no progress.
func (of *allocated) checkWithoutMember(progress []float64) error {
	keeps := 0
	if of.job.frozen {
		keeps = of.job.currentNodes
	}
	if slices.ContainsFunc(of.steps, func(k int) bool { return k != keeps }) {
		return refute("job %q has %v nodes; must have %d, because it is frozen or not admitted", of.job.id, of.steps, keeps)
	}
	if slices.ContainsFunc(progress, func(share float64) bool { return share != 0 }) {
		return refute("job %q has progress %v; must have none, because it is frozen or not admitted", of.job.id, progress)
	}
	return nil
}

// checkIdle checks the reported idle nodes, in total and of each type.
func (d *decision) checkIdle(idle []int) error {
	total := 0
	for _, nodes := range idle {
		total += nodes
	}
	if got := int(d.report.GetIdleNodes()); got != total {
		return refute("idle_nodes is %d; must be %d, from the allocations", got, total)
	}
	types := d.types
	if types[0].id == "" {
		types = nil
	}
	if len(d.report.GetNodeTypes()) != len(types) {
		return refute("the report has %d node types; the request has %d", len(d.report.GetNodeTypes()), len(types))
	}
	for n, got := range d.report.GetNodeTypes() {
		if want := types[n]; got.GetId() != want.id || int(got.GetNodes()) != want.nodes || int(got.GetIdleNodes()) != idle[n] {
			return refute("type %q has %d nodes, %d of them idle; the report has %d and %d for type %q",
				want.id, want.nodes, idle[n], got.GetNodes(), got.GetIdleNodes(), got.GetId())
		}
	}
	return nil
}

// changeTo returns the change of a job that gets nodes of a type.
func (j *job) changeTo(nodes, nodeType int) elastallocv1.Change {
	switch {
	case j.currentNodes == 0 && nodes == 0:
		return elastallocv1.Change_CHANGE_WAIT
	case j.currentNodes == 0:
		return elastallocv1.Change_CHANGE_START
	case nodes == 0:
		return elastallocv1.Change_CHANGE_PREEMPT
	case nodeType != j.nodeType && !j.frozen:
		return elastallocv1.Change_CHANGE_MOVE
	case nodes > j.currentNodes:
		return elastallocv1.Change_CHANGE_SCALE_UP
	case nodes < j.currentNodes:
		return elastallocv1.Change_CHANGE_SCALE_DOWN
	}
	return elastallocv1.Change_CHANGE_KEEP
}

// checkPlan checks the reported effects of the plan: the progress of every job, the objective, and
// the nodes and shortages of groups. With groups, there is one step.
func (d *decision) checkPlan() error {
	if d.plan == nil {
		return nil
	}
	for i, row := range d.plan {
		got := d.allocations[d.members[i].index]
		_, _, want := d.value(&d.members[i], row)
		progress := got.GetPlannedProgress()
		if len(progress)+len(got.GetPlannedNodes()) > 0 &&
			!slices.EqualFunc(progress, want, func(a, b float64) bool { return math.Abs(a-b) <= Tolerance }) {
			return refute("job %q has progress %v; must be %v", got.GetJobId(), progress, want)
		}
	}
	upper, lower := d.objective(d.plan)
	if objective := d.report.GetObjective(); !(lower <= objective && objective <= upper) {
		return refute("the objective is %v; the plan is worth %v", objective, (upper+lower)/2)
	}
	if len(d.report.GetGroups()) != len(d.groups) {
		return refute("the report has %d groups; the request has %d", len(d.report.GetGroups()), len(d.groups))
	}
	occupied := make([]int, len(d.groups)) // including the nodes of frozen jobs
	for i, got := range d.allocations {
		for g := range d.withAncestors(d.jobs[i].group) {
			occupied[g] += int(got.GetNodes())
		}
	}
	for g, nodes := range d.groupNodes(d.plan) {
		if err := d.checkTypesOf(g); err != nil {
			return err
		}
		got, nodes, short := d.report.GetGroups()[g], min(occupied[g], math.MaxInt32), d.shortage(g, nodes)
		if got.GetId() != d.groups[g].id || int(got.GetNodes()) != nodes || int(got.GetShort()) != short {
			return refute("group %q occupies %d nodes and its shortage is %d; the report has %d and %d for group %q",
				d.groups[g].id, nodes, short, got.GetNodes(), got.GetShort(), got.GetId())
		}
	}
	return nil
}

// checkTypesOf checks the reported nodes of a group on the types with a limit.
func (d *decision) checkTypesOf(g int) error {
	of, reports := &d.groups[g], d.report.GetGroups()[g].GetTypes()
	if len(reports) != len(of.typeLimits) {
		return refute("the report of group %q has %d types; the request has %d", of.id, len(reports), len(of.typeLimits))
	}
	for n, l := range of.typeLimits {
		id, nodes := d.types[l.nodeType].id, 0
		for i, a := range d.allocations {
			if a.GetNodeType() == id && slices.Contains(slices.Collect(d.withAncestors(d.jobs[i].group)), g) {
				nodes += int(a.GetNodes())
			}
		}
		nodes = min(nodes, math.MaxInt32)
		if got := reports[n]; got.GetNodeType() != id || int(got.GetNodes()) != nodes || int(got.GetLimit()) != l.limit {
			return refute("group %q occupies %d nodes of type %q with a limit of %d; the report has %d and %d for type %q",
				of.id, nodes, id, l.limit, got.GetNodes(), got.GetLimit(), got.GetNodeType())
		}
	}
	return nil
}
