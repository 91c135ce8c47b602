// Package plan builds the allocation request for the state of a pool, verifies the response, and derives the
// steps that apply its targets. It has no side effects.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Request is an allocation request with the jobs that it includes and omits.
type Request struct {
	// Allocate has the included jobs, and after them the jobs that keep their nodes.
	Allocate *elastallocv1.AllocateRequest
	// Jobs are the included jobs in the order of the request.
	Jobs []*world.Job
	// Omitted are the jobs that are not decided. They keep their nodes, unless the reason is Unused.
	Omitted []Omitted
	// Kept is the number of nodes of the request that jobs keep.
	Kept int
	// Awaited is the number of nodes that an autoscaler adds for omitted jobs.
	Awaited int

	kept []*world.Job // jobs that keep their nodes, also finished ones
}

// Available returns the number of nodes for the included jobs.
func (r *Request) Available() int { return int(r.Allocate.GetSnapshot().GetTotalNodes()) - r.Kept }

// First moves some of the included jobs to the front of the request. Otherwise the order stays the same. It reports whether
// any job was moved.
func (r *Request) First(some func(*world.Job) bool) (moved bool) {
	described := r.Allocate.GetSnapshot().GetJobs()
	kept := described[len(r.Jobs):]
	var jobs []*world.Job
	var ordered []*elastallocv1.Job
	for _, chosen := range []bool{true, false} {
		for i, j := range r.Jobs {
			if some(j) == chosen {
				jobs, ordered = append(jobs, j), append(ordered, described[i])
			}
		}
	}
	moved = !slices.Equal(jobs, r.Jobs)
	r.Jobs, r.Allocate.Snapshot.Jobs = jobs, slices.Concat(ordered, kept)
	return moved
}

// availableOf returns the number of nodes of a type for the included jobs.
func (r *Request) availableOf(nodeType string) int {
	if nodeType == "" {
		return r.Available()
	}
	left := 0
	for _, t := range r.Allocate.GetSnapshot().GetNodeTypes() {
		if t.GetId() == nodeType {
			left += int(t.GetNodes())
		}
	}
	for _, j := range r.Allocate.GetSnapshot().GetJobs()[len(r.Jobs):] {
		if j.GetCurrentNodeType() == nodeType {
			left -= int(j.GetCurrentNodes())
		}
	}
	return left
}

// Omitted is a job that a request does not decide.
type Omitted struct {
	Job    *world.Job
	Reason world.Reason
}

// The reasons to omit a job that is not pinned.
const (
	Cooldown world.Reason = "Cooldown" // resized less than the pool's MinInterval ago
	NoPause  world.Reason = "NoPause"  // would be paused but must not be
	// Unused means that no size of the job is legal: its pods did not run on its nodes, its group exceeds its
	// limit, or its work is over.
	Unused world.Reason = "Unused"
	// Spared means that other jobs lost nodes and are resized first.
	Spared world.Reason = "Spared"
)

// Snapshot returns the request for a decision on the state of a pool. Pinned jobs and the jobs in frozen, which
// maps job IDs to reasons, keep their nodes.
func Snapshot(w *world.ClusterState, id string, frozen map[string]world.Reason) Request {
	r := Request{Allocate: &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{Id: id, Groups: groups(w)},
		// A job that the allocator rejects keeps its nodes and does not fail the request.
		Options: &elastallocv1.AllocateOptions{BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD},
	}}
	nodes := newTally(w)
	var keeping []*elastallocv1.Job
	// keep omits a job together with its nodes and the nodes that its pods wait for.
	keep := func(j *world.Job, reason world.Reason) {
		r.Omitted, r.kept, r.Kept = append(r.Omitted, Omitted{j, reason}), append(r.kept, j), r.Kept+j.RetainedNodes()
		keeping = append(keeping, keptJobs(w, j)...)
		nodes.keep(j, true)
		r.Awaited += j.AwaitedNodes()
	}
	for _, j := range w.Jobs {
		reason, isFrozen := frozen[j.ID]
		noSize := len(Legal(j)) == 0
		switch {
		case j.Shape.Finished:
			r.kept = append(r.kept, j)
			nodes.keep(j, false)
			continue
		case j.Pinned != "":
			keep(j, j.Pinned)
			continue
		case isFrozen:
			keep(j, reason)
			continue
		case noSize && j.Nodes() > 0 && !w.MayPause(j):
			keep(j, NoPause)
			continue
		case noSize:
			r.Omitted = append(r.Omitted, Omitted{j, Unused})
		case j.Cooling && j.Nodes() == 0:
			r.Omitted = append(r.Omitted, Omitted{j, Cooldown})
		default:
			nodes.inUse[w.Typed(j)] += j.NodesInUse()
			nodes.total[w.Typed(j)] += j.Pods.Away // Only the job itself uses these nodes.
			r.Jobs = append(r.Jobs, j)
			r.Allocate.Snapshot.Jobs = append(r.Allocate.Snapshot.Jobs, request(w, j))
		}
		// Other terminating pods are gone before another job uses their nodes.
		nodes.total[w.Typed(j)] -= j.Pods.Overdue
	}
	nodes.set(r.Allocate.Snapshot)
	r.Allocate.Snapshot.Jobs = append(r.Allocate.Snapshot.Jobs, keeping...)
	if w.Pool.CountsUnits() {
		r.setSizeLimits(w, 0)
	}
	if w.Pool.Objective == config.TotalTime {
		r.Allocate.Options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		r.Allocate.Options.Admission = elastallocv1.Admission_ADMISSION_START_FIRST
	} else {
		r.Allocate.Options.Objective = elastallocv1.Objective_OBJECTIVE_PROGRESS
		r.Allocate.Snapshot.Horizon = &elastallocv1.Horizon{Step: durationpb.New(w.Pool.Cadence)}
	}
	return r
}

// groups returns the groups of a pool. If Kueue limits its jobs, the groups are the ClusterQueues and Cohorts instead.
func groups(w *world.ClusterState) []*elastallocv1.Group {
	var all []*elastallocv1.Group
	described := w.Pool.Groups
	if len(w.Queues) > 0 {
		described = append([]config.Group{{Name: noQueue}}, w.Queues...)
	}
	for _, group := range described {
		one := &elastallocv1.Group{Id: group.Name, ParentId: group.Parent, Quota: int32(group.Quota)}
		if group.Limit != nil {
			one.Limit = new(int32(*group.Limit))
		}
		for _, nodeType := range slices.Sorted(maps.Keys(group.TypeLimits)) {
			one.TypeLimits = append(one.TypeLimits, &elastallocv1.GroupTypeLimit{NodeType: nodeType, Limit: int32(group.TypeLimits[nodeType])})
		}
		all = append(all, one)
	}
	return all
}

// noQueue is the group of the jobs without a known ClusterQueue.
const noQueue = "ClusterQueue/"

// groupOf returns the name of a job's group, "" if the job has none.
func groupOf(w *world.ClusterState, j *world.Job) string {
	if len(w.Queues) > 0 {
		return cmp.Or(w.QueueOf(j), noQueue)
	}
	if group := w.Pool.GroupOf(j.Object.GetNamespace()); group != nil {
		return group.Name
	}
	return ""
}

// keptJobs describes a job that keeps its nodes for the allocator, once for each node type of these nodes.
func keptJobs(w *world.ClusterState, j *world.Job) []*elastallocv1.Job {
	var described []*elastallocv1.Job
	retained := w.RetainedByType(j)
	for _, nodeType := range w.Pool.TypeNames() {
		if retained[nodeType] == 0 && (len(retained) > 0 || len(described) > 0) {
			continue
		}
		kept := &elastallocv1.Job{Id: j.ID, GroupId: groupOf(w, j), CurrentNodes: int32(retained[nodeType]), Keep: true}
		if kept.CurrentNodes > 0 {
			kept.CurrentNodeType = nodeType
		}
		if len(described) > 0 {
			kept.Id += " on " + nodeType // No job has a name with a space.
		}
		if w.Pool.CountsUnits() {
			kept.PieceNodes = proto.Int32(int32(j.PerPod))
		}
		described = append(described, kept)
	}
	return described
}

// tally counts the nodes of a request by node type: those that jobs may have, those in use by jobs that are decided, and
// those for which pods of other jobs wait.
type tally struct {
	state                     *world.ClusterState
	total, inUse, waits, kept map[string]int
}

func newTally(w *world.ClusterState) *tally {
	t := &tally{w, make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]int)}
	for _, nodeType := range w.Pool.TypeNames() {
		n := w.NodesOf(nodeType)
		t.total[nodeType] = n.Accepting + n.Expected
	}
	return t
}

// keep removes the nodes of a job. They are part of the request if the job is.
func (t *tally) keep(j *world.Job, described bool) {
	for nodeType, n := range t.state.RetainedByType(j) {
		t.total[nodeType] -= n
		if described {
			t.kept[nodeType] += n
		}
	}
	t.waits[t.state.Typed(j)] += j.UnplacedNodes()
}

// set sets the numbers of nodes of a snapshot.
func (t *tally) set(s *elastallocv1.Snapshot) {
	for _, nodeType := range t.state.Pool.TypeNames() {
		waits := t.waits[nodeType]
		n := int32(t.kept[nodeType] + lessWaiting(t.total[nodeType]+waits, waits, t.inUse[nodeType]))
		s.TotalNodes += n
		if nodeType != "" {
			s.NodeTypes = append(s.NodeTypes, &elastallocv1.NodeType{Id: nodeType, Nodes: n, Speed: proto.Float64(t.state.Pool.SpeedOf(nodeType))})
		}
	}
}

// request describes a job for the allocator. During the cooldown, its current size is the only legal one.
func request(w *world.ClusterState, j *world.Job) *elastallocv1.Job {
	described := &elastallocv1.Job{
		Id:           j.ID,
		RemainingEta: durationpb.New(j.RemainingWork()),
		CurrentNodes: int32(j.Nodes()),
		TrainingTime: durationpb.New(j.Trained),
		WaitingTime:  durationpb.New(j.Waited),
		RestartTime:  durationpb.New(j.Restart),
		WorkDone:     durationpb.New(j.WorkDone()),
		Weight:       proto.Float64(j.Weight),
	}
	if j.Estimate.Error > 0 {
		described.EtaError = &j.Estimate.Error
	}
	for _, since := range j.RecentRestarts() {
		described.RecentRestarts = append(described.RecentRestarts, durationpb.New(since))
	}
	described.GroupId = groupOf(w, j)
	sizes := Legal(j)
	speeds := make([]float64, len(sizes))
	for i, n := range sizes {
		described.AllowedNodes = append(described.AllowedNodes, int32(n))
		speeds[i] = j.Speed(n)
	}
	described.MinNodes, described.MaxNodes = proto.Int32(int32(sizes[0])), proto.Int32(int32(sizes[len(sizes)-1]))
	if w.Pool.CountsUnits() {
		described.PieceNodes = proto.Int32(int32(j.PerPod))
	}
	// The API's efficiency is relative to one unit, not to one pod.
	if j.Speeds != nil || j.PerPod > 1 {
		described.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: speeds}}}
	} else if j.Efficiency > 0 {
		described.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: j.Efficiency}}
	}
	if j.Nodes() > 0 {
		described.CurrentNodeType = j.Type
	}
	for _, nodeType := range j.Types {
		on := &elastallocv1.TypeSpeed{NodeType: nodeType}
		if j.TypeSpeeds != nil {
			on.Factor, on.Scaling = proto.Float64(1), speedsOn(j, sizes, nodeType)
		}
		described.Speeds = append(described.Speeds, on)
	}
	return described
}

// speedsOn returns the speeds of a job at some sizes on a node type, relative to the reference node.
func speedsOn(j *world.Job, sizes []int, nodeType string) *elastallocv1.Scaling {
	speeds := make([]float64, len(sizes))
	for i, n := range sizes {
		speeds[i] = j.SpeedOn(n, nodeType)
	}
	return &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: speeds}}}
}

// Legal returns the legal sizes of a job now, other than 0.
func Legal(j *world.Job) []int {
	sizes := j.Sizes
	switch {
	case j.Shape.Over: // The kind may not allow fewer nodes.
		sizes = slices.DeleteFunc([]int{j.Shape.Min}, func(n int) bool { return n == 0 })
	case j.Cooling && j.Nodes() > 0:
		sizes = []int{j.Nodes()}
	case j.Nodes() == 0 && j.Shape.StartSize > 0:
		sizes = []int{j.Shape.StartSize}
	case j.QueuedSizes != nil:
		sizes = j.QueuedSizes
	}
	return slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return !j.AllowsSize(n) })
}

// Response is the common part of the responses of FillIdle and Allocate.
type Response interface {
	GetSnapshotId() string
	GetAllocations() []*elastallocv1.Allocation
}

// Check verifies the response to a request, because servers are not trusted. The response must have an
// allocation for every job in order, each of a legal size or of the current one. Jobs with keep must have their
// current nodes. The sums must not exceed the nodes of the pool, the limits of groups and the size limits. The error
// joins all violations.
func Check(r Request, a Response) error {
	snapshot := r.Allocate.GetSnapshot()
	if a.GetSnapshotId() != snapshot.GetId() {
		return fmt.Errorf("snapshot_id: is %q; must be %q", a.GetSnapshotId(), snapshot.GetId())
	}
	if len(a.GetAllocations()) != len(snapshot.GetJobs()) {
		return fmt.Errorf("allocations: has %d entries; must have %d", len(a.GetAllocations()), len(snapshot.GetJobs()))
	}
	bad := slices.Concat(checkJobs(snapshot, a), checkSizes(r, a), checkTotal(r, a))
	if !frozeJobs(a) { // Jobs that the allocator froze may keep more than the limits allow.
		bad = slices.Concat(bad, checkTypes(r, a), checkTypeLimits(snapshot, a), checkSizeLimits(snapshot, a), checkGroups(r, a))
	}
	if gap := reportOf(a).GetRelativeGap(); math.IsNaN(gap) || math.IsInf(gap, 0) || gap < 0 {
		bad = append(bad, fmt.Errorf("relative_gap: is %v; must be a finite number of at least 0", gap))
	}
	return errors.Join(bad...)
}

// checkJobs returns the allocations that are of another job, or change a job that must keep its nodes.
func checkJobs(snapshot *elastallocv1.Snapshot, a Response) (bad []error) {
	for i, j := range snapshot.GetJobs() {
		switch allocation := a.GetAllocations()[i]; {
		case allocation.GetJobId() != j.GetId():
			bad = append(bad, fmt.Errorf("allocations[%d].job_id: is %q; must be %q", i, allocation.GetJobId(), j.GetId()))
		case j.GetKeep() && allocation.GetNodes() != j.GetCurrentNodes():
			bad = append(bad, fmt.Errorf("job %q: is allocated %d nodes; must keep its %d", j.GetId(), allocation.GetNodes(), j.GetCurrentNodes()))
		}
	}
	return bad
}

// checkSizes returns the allocations of a size or of a node type that the job may not have.
func checkSizes(r Request, a Response) (bad []error) {
	for i, j := range r.Jobs {
		nodes, on := int(a.GetAllocations()[i].GetNodes()), a.GetAllocations()[i].GetNodeType()
		if nodes != 0 && nodes != j.Nodes() && !slices.Contains(Legal(j), nodes) {
			bad = append(bad, fmt.Errorf("job %q: is allocated %d nodes; must be one of %v", j.ID, nodes, Legal(j)))
		}
		if !mayBeOn(j, nodes, on) {
			bad = append(bad, fmt.Errorf("job %q: is allocated %d nodes of type %q; must be one of %q", j.ID, nodes, on, j.Types))
		}
	}
	return bad
}

// mayBeOn reports whether a job may have nodes of a type. No nodes have no type.
func mayBeOn(j *world.Job, nodes int, nodeType string) bool {
	if nodes == 0 {
		return nodeType == ""
	}
	return slices.Contains(j.Types, nodeType) || nodeType == j.Type && (nodeType != "" || len(j.Types) == 0)
}

// checkTotal returns an error if the included jobs get more nodes than the pool has. If the pool shrank, jobs that the
// allocator froze may keep more.
func checkTotal(r Request, a Response) []error {
	sum, present := int64(0), int64(0)
	for i, j := range r.Jobs {
		sum += int64(a.GetAllocations()[i].GetNodes())
		present += int64(j.Nodes())
	}
	if total := int64(r.Available()); sum > total && (sum > present || !frozeJobs(a)) {
		return []error{fmt.Errorf("allocations: have %d nodes; must have at most the %d nodes of the pool", sum, total)}
	}
	return nil
}

// checkTypes returns the node types of which the included jobs get more nodes than there are.
func checkTypes(r Request, a Response) (bad []error) {
	onType := make(map[string]int)
	for i := range r.Jobs {
		onType[a.GetAllocations()[i].GetNodeType()] += int(a.GetAllocations()[i].GetNodes())
	}
	for _, t := range r.Allocate.GetSnapshot().GetNodeTypes() {
		if left := r.availableOf(t.GetId()); onType[t.GetId()] > left {
			bad = append(bad, fmt.Errorf("allocations: have %d nodes of type %q; must have at most %d", onType[t.GetId()], t.GetId(), left))
		}
	}
	return bad
}

// checkSizeLimits returns the size limits that the allocations exceed.
func checkSizeLimits(snapshot *elastallocv1.Snapshot, a Response) (bad []error) {
	for _, limit := range exceeded(snapshot, a) {
		bad = append(bad, fmt.Errorf("allocations: exceed the limit of %d units in pods of at least %d", limit.GetNodes(), limit.GetSize()))
	}
	return bad
}

// checkGroups returns the groups that get more nodes than their limits. Nodes that jobs keep do not count as violations, but
// leave less for other jobs.
func checkGroups(r Request, a Response) (bad []error) {
	snapshot := r.Allocate.GetSnapshot()
	decided, kept := make(map[string]int32), make(map[string]int32)
	for i, j := range snapshot.GetJobs() {
		if i < len(r.Jobs) {
			decided[j.GetGroupId()] += a.GetAllocations()[i].GetNodes()
		} else {
			kept[j.GetGroupId()] += j.GetCurrentNodes()
		}
	}
	for _, group := range snapshot.GetGroups() {
		if group.Limit == nil {
			continue
		}
		left := max(0, group.GetLimit()-within(snapshot, kept, group.GetId()))
		if within(snapshot, decided, group.GetId()) > left {
			bad = append(bad, fmt.Errorf("group %q: is allocated more nodes than its limit of %d", group.GetId(), group.GetLimit()))
		}
	}
	return bad
}

// checkTypeLimits returns the violations of the limits of groups on single node types. Nodes that jobs keep do not count as
// violations, but leave less for other jobs.
func checkTypeLimits(snapshot *elastallocv1.Snapshot, a Response) (bad []error) {
	for _, group := range snapshot.GetGroups() {
		for _, limit := range group.GetTypeLimits() {
			decided, kept := make(map[string]int32), make(map[string]int32)
			for i, j := range snapshot.GetJobs() {
				switch on := a.GetAllocations()[i]; {
				case j.GetKeep() && j.GetCurrentNodeType() == limit.GetNodeType():
					kept[j.GetGroupId()] += j.GetCurrentNodes()
				case !j.GetKeep() && on.GetNodeType() == limit.GetNodeType():
					decided[j.GetGroupId()] += on.GetNodes()
				}
			}
			left := max(0, limit.GetLimit()-within(snapshot, kept, group.GetId()))
			if within(snapshot, decided, group.GetId()) > left {
				bad = append(bad,
					fmt.Errorf("group %q: is allocated more nodes of type %q than its limit of %d", group.GetId(), limit.GetNodeType(), limit.GetLimit()))
			}
		}
	}
	return bad
}

// within returns the number of nodes allocated to a group and all groups within it.
func within(snapshot *elastallocv1.Snapshot, byGroup map[string]int32, id string) int32 {
	sum := byGroup[id]
	for _, group := range snapshot.GetGroups() {
		if group.GetParentId() == id {
			sum += within(snapshot, byGroup, group.GetId())
		}
	}
	return sum
}

// reportOf returns the report of an AllocateResponse, nil for a FillIdleResponse.
func reportOf(a Response) *elastallocv1.SolveReport {
	decided, _ := a.(*elastallocv1.AllocateResponse)
	return decided.GetReport()
}

// frozeJobs reports whether the allocator froze a job because its fields are invalid.
func frozeJobs(a Response) bool {
	return slices.ContainsFunc(reportOf(a).GetWarnings(), func(w *elastallocv1.Warning) bool {
		return w.GetCode() == elastallocv1.WarningCode_WARNING_CODE_BAD_JOB_HELD
	})
}

// ForbiddenPauses returns the jobs that must not be paused if the response pauses one of them, and nil
// otherwise. These are jobs in their cooldown if they fit into the pool, jobs that must not be paused, and
// during an outage all jobs with running pods. Pass them to Snapshot to request a decision without them.
func ForbiddenPauses(w *world.ClusterState, r Request, a Response, outage bool) map[string]world.Reason {
	frozen, strict := make(map[string]world.Reason), false
	free := r.Available()
	paused := false
	for i, j := range r.Jobs {
		never := !w.MayPause(j) || outage && j.Pods.Running > 0
		if j.Nodes() == 0 || !j.Cooling && !never {
			continue
		}
		// Include all of them, so that the second decision does not pause another one.
		if frozen[j.ID] = Cooldown; never {
			frozen[j.ID] = NoPause
		}
		free -= j.RetainedNodes()
		if a.GetAllocations()[i].GetNodes() == 0 {
			paused, strict = true, strict || never
		}
	}
	if !paused || free < 0 && !strict {
		return nil
	}
	return frozen
}

// Unaffected returns the running jobs that lost no nodes, if other jobs lost nodes in use, and nil otherwise.
// Pass them to Snapshot to request a decision that only resizes the affected jobs.
func Unaffected(w *world.ClusterState, r Request) map[string]world.Reason {
	if w.Missing == 0 {
		return nil
	}
	frozen, affected := make(map[string]world.Reason), false
	for _, j := range r.Jobs {
		switch {
		case j.Nodes() == 0:
		case j.LostNodes() > 0:
			affected = true
		default:
			frozen[j.ID] = Spared
		}
	}
	if !affected || len(frozen) == 0 {
		return nil
	}
	return frozen
}

// Pauses reports whether a response pauses a job with running pods.
func Pauses(r Request, a Response) bool {
	for i, j := range r.Jobs {
		if j.Nodes() > 0 && j.Pods.Running > 0 && a.GetAllocations()[i].GetNodes() == 0 {
			return true
		}
	}
	return false
}

// Outage returns an error if so many nodes stopped accepting pods that an outage is more likely than a loss
// of nodes. It compares the nodes in use that are lost or not healthy with the pool's MaxShrink, a fraction
// of all nodes in use, and with its MaxShrinkNodes.
func Outage(w *world.ClusterState, r Request) error {
	inUse, missing, onType := 0, 0, make(map[string]int)
	for _, j := range r.Jobs {
		inUse += j.NodesInUse()
		onType[w.Typed(j)] += j.NodesInUse()
	}
	for _, nodeType := range w.Pool.TypeNames() {
		missing += max(0, onType[nodeType]-r.availableOf(nodeType))
	}
	for _, omitted := range r.Omitted {
		if omitted.Reason == world.Retained {
			inUse += omitted.Job.NodesInUse()
			missing += omitted.Job.Unhealthy
		}
	}
	few := w.Pool.MaxShrinkNodes
	if w.Pool.CountsUnits() {
		few *= int(w.PerNode)
	}
	if missing > 0 && float64(missing) > w.Pool.MaxShrink*float64(inUse) && missing > min(few, inUse-1) {
		return fmt.Errorf("%d of the %d nodes in use are lost or not healthy, "+
			"more than the %.0f%% of maxShrink and the %d nodes of maxShrinkNodes",
			missing, inUse, 100*w.Pool.MaxShrink, w.Pool.MaxShrinkNodes)
	}
	return nil
}

// Scale changes a request to the nodes that are worth their price, in a pool that an autoscaler scales. It returns the
// number of nodes of the pool with these, as in Decision.Total.
func Scale(w *world.ClusterState, r Request) int {
	present := r.Available()
	total, added := WorthwhileNodes(w, r)
	r.Allocate.Snapshot.TotalNodes = int32(r.Kept + total)
	if w.Pool.CountsUnits() {
		r.setSizeLimits(w, added/w.NodeSize())
	}
	return w.Nodes.Accepting + w.Nodes.Expected + max(total-present, added) + r.Awaited
}

// WorthwhileNodes returns the number of nodes that are worth their price to the jobs of a request, in a pool
// that an autoscaler scales, and how many nodes the autoscaler adds for them. If the pool counts units, both are
// numbers of units, and those of whole nodes are added.
//
// With k nodes, a unit of a job's work takes the job 1/speed(k) hours and occupies nodes for k/speed(k)
// node-hours. If a node costs p job-hours per hour, the best size minimizes (weight + p k)/speed(k).
// Beyond that size, an additional node-hour saves less than p job-hours. A waiting job saves no node-hours,
// so every job counts with its best size. If the pool counts units, each costs its part of a node.
func WorthwhileNodes(w *world.ClusterState, r Request) (total, added int) {
	present, size := r.Available(), w.NodeSize()
	price := w.Pool.NodePrice / float64(size)
	worth, inUse, best := 0, 0, make([]int, len(r.Jobs))
	for i, j := range r.Jobs {
		inUse += j.NodesInUse()
		cost := func(nodes int) float64 { return (j.Weight + price*float64(nodes)) / j.Speed(nodes) }
		sizes := Legal(j)
		best[i] = sizes[0]
		for _, n := range sizes[1:] {
			if cost(n) < cost(best[i]) {
				best[i] = n
			}
		}
		worth += best[i]
	}
	// Pods that wait for nodes do not take nodes that are in use.
	room := w.RoomToAdd() - r.Awaited
	total = min(worth, max(present+room, min(present, inUse)))
	if w.Nodes.Existing > w.Pool.MaxNodes {
		total = min(total, w.Pool.MaxNodes*size)
	}
	if !w.Pool.CountsUnits() {
		return total, max(0, total-present)
	}
	fits := func(nodes int) bool {
		exceeded := slices.ContainsFunc(sizeLimits(w, r.kept, r.Jobs, nodes), func(limit *elastallocv1.SizeLimit) bool {
			used := 0
			for i, j := range r.Jobs {
				if j.PerPod >= int(limit.GetSize()) {
					used += best[i]
				}
			}
			return used > int(limit.GetNodes())
		})
		return total <= present+nodes*size && !exceeded
	}
	// Nodes that are not idle can have units that large pods cannot use.
	return total, size * sort.Search(max(0, room)/size, fits)
}
