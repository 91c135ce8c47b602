// Package plan turns a world into a request for a decision, checks the answer, and turns
// targets into the steps that carry them out. It is pure.
package plan

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Request is a snapshot of a world, and what was left out of it.
type Request struct {
	Allocate *elastallocv1.AllocateRequest
	// Jobs are those that the request asks about, in its order.
	Jobs []*world.Job
	// Left are the jobs that it leaves out, as they keep what they hold.
	Left []Left
}

// Left is a job that a request leaves out.
type Left struct {
	Job    *world.Job
	Reason world.Reason
}

// The reasons to leave out a job that is not pinned.
const (
	Cooldown world.Reason = "Cooldown" // changed less than the pool's MinInterval ago
	NoPause  world.Reason = "NoPause"  // would be paused, which it does not allow
	// Unused: no size of it is legal, as its pods did not run on the nodes that it had or its group
	// is over its limit.
	Unused world.Reason = "Unused"
	// Spared: nodes of other jobs are lost, and those are resized first.
	Spared world.Reason = "Spared"
)

// Snapshot asks for a decision on a world. Jobs that are pinned, and those of hold, are left
// out with their nodes.
func Snapshot(w *world.World, id string, hold map[string]world.Reason) Request {
	r := Request{Allocate: &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{Id: id, Groups: groups(w)},
		// One job that the allocator does not like keeps its nodes.
		Options: &elastallocv1.AllocateOptions{BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD},
	}}
	total, inUse, waits := w.Nodes.Accepting+w.Nodes.Expected, 0, 0
	// keep leaves out a job with the nodes that it holds, and that its pods wait for.
	keep := func(j *world.Job, reason world.Reason) {
		r.Left = append(r.Left, Left{j, reason})
		if group := groupOf(w, j); group != "" {
			client.Reserve(r.Allocate.GetSnapshot(), group, "", int32(j.Keeps()))
		}
		total -= j.Keeps()
		waits += j.Unplaced()
	}
	for _, j := range w.Jobs {
		reason, held := hold[j.ID]
		noSize := len(Legal(j)) == 0
		switch {
		case j.Shape.Finished:
			total -= j.Keeps()
			waits += j.Unplaced()
			continue
		case j.Pinned != "":
			keep(j, j.Pinned)
			continue
		case held:
			keep(j, reason)
			continue
		case noSize && j.Nodes() > 0 && !w.MayPause(j):
			keep(j, NoPause)
			continue
		case noSize:
			r.Left = append(r.Left, Left{j, Unused})
		case j.Cooling && j.Nodes() == 0:
			r.Left = append(r.Left, Left{j, Cooldown})
		default:
			inUse += j.InUse()
			r.Jobs = append(r.Jobs, j)
			r.Allocate.Snapshot.Jobs = append(r.Allocate.Snapshot.Jobs, request(w, j))
		}
		// Other pods that leave are gone before anything takes their nodes.
		total -= j.Pods.Overdue
	}
	if total < inUse {
		// Pods that wait take no node that is in use.
		total += min(waits, inUse-total)
	}
	r.Allocate.Snapshot.TotalNodes = int32(max(0, total))
	if w.Pool.Objective == config.TotalTime {
		r.Allocate.Options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		r.Allocate.Options.Admission = elastallocv1.Admission_ADMISSION_START_FIRST
	} else {
		r.Allocate.Options.Objective = elastallocv1.Objective_OBJECTIVE_PROGRESS
		r.Allocate.Snapshot.Horizon = &elastallocv1.Horizon{Step: durationpb.New(w.Pool.Cadence)}
	}
	return r
}

// groups returns the groups of a pool, or one for each quota of Kueue where its jobs have some.
func groups(w *world.World) []*elastallocv1.Group {
	var all []*elastallocv1.Group
	described := w.Pool.Groups
	if len(w.Quotas) > 0 {
		described = []config.Group{{Name: queueGroup("")}} // Of the jobs without one.
		for _, name := range slices.Sorted(maps.Keys(w.Quotas)) {
			described = append(described, config.Group{Name: queueGroup(name), Limit: new(w.Quotas[name])})
		}
	}
	for _, group := range described {
		one := &elastallocv1.Group{Id: group.Name, ParentId: group.Parent, Quota: int32(group.Quota)}
		if group.Limit != nil {
			one.Limit = new(int32(*group.Limit))
		}
		all = append(all, one)
	}
	return all
}

// queueGroup names the group of the jobs of a ClusterQueue.
func queueGroup(name string) string { return "ClusterQueue/" + name }

// groupOf returns the name of the group of a job, "" for none.
func groupOf(w *world.World, j *world.Job) string {
	if _, limited := w.Quotas[j.Queue]; limited {
		return queueGroup(j.Queue)
	}
	if len(w.Quotas) > 0 {
		return queueGroup("")
	}
	if group := w.Pool.GroupOf(j.Object.GetNamespace()); group != nil {
		return group.Name
	}
	return ""
}

// request describes a job. While it cools down its present size is the only legal one.
func request(w *world.World, j *world.Job) *elastallocv1.Job {
	described := &elastallocv1.Job{
		Id:           j.ID,
		RemainingEta: durationpb.New(max(time.Second, j.Estimate.Remaining)),
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
	described.GroupId = groupOf(w, j)
	sizes := Legal(j)
	speeds := make([]float64, len(sizes))
	for i, n := range sizes {
		described.AllowedNodes = append(described.AllowedNodes, int32(n))
		speeds[i] = j.Speed(n)
	}
	described.MinNodes, described.MaxNodes = proto.Int32(int32(sizes[0])), proto.Int32(int32(sizes[len(sizes)-1]))
	if j.Speeds != nil {
		described.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: speeds}}}
	} else if j.Efficiency > 0 {
		described.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: j.Efficiency}}
	}
	return described
}

// Legal returns the sizes that a job may be given now, beside none.
func Legal(j *world.Job) []int {
	sizes := j.Sizes
	switch {
	case j.Cooling && j.Nodes() > 0:
		sizes = []int{j.Nodes()}
	case j.Nodes() == 0 && j.Shape.StartSize > 0:
		sizes = []int{j.Shape.StartSize}
	}
	return slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return !j.May(n) })
}

// Answer is what FillIdle and Allocate answer alike.
type Answer interface {
	GetSnapshotId() string
	GetAllocations() []*elastallocv1.Allocation
}

// Check reports whether an answer fits a request: an allocation for every job, each of a legal size or
// its present one, and together no more than the pool and each group have. It trusts no server.
func Check(r Request, a Answer) error {
	snapshot := r.Allocate.GetSnapshot()
	if a.GetSnapshotId() != snapshot.GetId() {
		return fmt.Errorf("answer is to snapshot %q; want %q", a.GetSnapshotId(), snapshot.GetId())
	}
	if len(a.GetAllocations()) != len(r.Jobs) {
		return fmt.Errorf("answer has %d allocations; want %d", len(a.GetAllocations()), len(r.Jobs))
	}
	var bad []error
	var sum, present int64
	of := make(map[string]int32)
	for i, j := range r.Jobs {
		allocation := a.GetAllocations()[i]
		nodes := int(allocation.GetNodes())
		switch {
		case allocation.GetJobId() != j.ID:
			bad = append(bad, fmt.Errorf("allocation %d is for job %q; want %q", i, allocation.GetJobId(), j.ID))
		case nodes != 0 && nodes != j.Nodes() && !slices.Contains(Legal(j), nodes):
			bad = append(bad, fmt.Errorf("job %q gets %d nodes; want one of %v", j.ID, nodes, Legal(j)))
		}
		if given := snapshot.GetJobs()[i].GetGroupId(); given != "" {
			of[given] += allocation.GetNodes()
		}
		sum += int64(nodes)
		present += int64(j.Nodes())
	}
	// Where the pool shrank, jobs that the allocator holds may keep more than it has.
	if most := int64(snapshot.GetTotalNodes()); sum > most && (sum > present || !held(a)) {
		bad = append(bad, fmt.Errorf("jobs get %d nodes; the pool has %d", sum, most))
	}
	for _, group := range snapshot.GetGroups() {
		if group.Limit != nil && within(snapshot, of, group.GetId()) > group.GetLimit() && !held(a) {
			bad = append(bad, fmt.Errorf("group %q gets more than its %d nodes", group.GetId(), group.GetLimit()))
		}
	}
	if gap := reportOf(a).GetRelativeGap(); math.IsNaN(gap) || math.IsInf(gap, 0) || gap < 0 {
		bad = append(bad, fmt.Errorf("relative gap is %v", gap))
	}
	return errors.Join(bad...)
}

// within returns how many nodes a group and all that are part of it get.
func within(snapshot *elastallocv1.Snapshot, of map[string]int32, id string) int32 {
	sum := of[id]
	for _, group := range snapshot.GetGroups() {
		if group.GetParentId() == id {
			sum += within(snapshot, of, group.GetId())
		}
	}
	return sum
}

// reportOf returns the report of a decision, nil of idle nodes that were filled.
func reportOf(a Answer) *elastallocv1.SolveReport {
	decided, _ := a.(*elastallocv1.AllocateResponse)
	return decided.GetReport()
}

// held reports whether the allocator held a job because of its fields.
func held(a Answer) bool {
	return slices.ContainsFunc(reportOf(a).GetWarnings(), func(w *elastallocv1.Warning) bool {
		return w.GetCode() == elastallocv1.WarningCode_WARNING_CODE_BAD_JOB_HELD
	})
}

// Unwanted returns the jobs that an answer must not pause, if it pauses one of them: those that cool
// down, as long as they fit, those that do not allow it, and in an outage all whose pods run. A
// decision with these held may be asked for instead.
func Unwanted(w *world.World, r Request, a Answer, outage bool) map[string]world.Reason {
	hold, strict := make(map[string]world.Reason), false
	most := int(r.Allocate.GetSnapshot().GetTotalNodes())
	paused := false
	for i, j := range r.Jobs {
		never := !w.MayPause(j) || outage && j.Pods.Running > 0
		if j.Nodes() == 0 || !j.Cooling && !never {
			continue
		}
		// All of them, so that the second decision does not pause another one.
		if hold[j.ID] = Cooldown; never {
			hold[j.ID] = NoPause
		}
		most -= j.Keeps()
		if a.GetAllocations()[i].GetNodes() == 0 {
			paused, strict = true, strict || never
		}
	}
	if !paused || most < 0 && !strict {
		return nil
	}
	return hold
}

// Unaffected returns the running jobs whose pods are all there, if other jobs lost nodes that were in
// use: a decision that leaves them alone is asked for first.
func Unaffected(w *world.World, r Request) map[string]world.Reason {
	if w.Missing == 0 {
		return nil
	}
	hold, affected := make(map[string]world.Reason), false
	for _, j := range r.Jobs {
		switch {
		case j.Nodes() == 0:
		case j.Lost() > 0:
			affected = true
		default:
			hold[j.ID] = Spared
		}
	}
	if !affected || len(hold) == 0 {
		return nil
	}
	return hold
}

// Pauses reports whether an answer pauses a job whose pods run.
func Pauses(r Request, a Answer) bool {
	for i, j := range r.Jobs {
		if j.Nodes() > 0 && j.Pods.Running > 0 && a.GetAllocations()[i].GetNodes() == 0 {
			return true
		}
	}
	return false
}

// Outage reports that more nodes stopped accepting pods than is believable: the nodes that jobs would
// have to give up, and those that retain their pods though they are not healthy, are more than the
// pool's MaxShrink of the nodes in use.
func Outage(w *world.World, r Request) error {
	held := 0
	for _, j := range r.Jobs {
		held += j.InUse()
	}
	missing := max(0, held-int(r.Allocate.GetSnapshot().GetTotalNodes()))
	for _, left := range r.Left {
		if left.Reason == world.Retained {
			held += left.Job.InUse()
			missing += left.Job.Unhealthy
		}
	}
	if missing > 0 && float64(missing) > w.Pool.MaxShrink*float64(held) {
		return fmt.Errorf("%d of the %d nodes in use are lost or not healthy, more than the %.0f%% of maxShrink",
			missing, held, 100*w.Pool.MaxShrink)
	}
	return nil
}

// Worth returns how many nodes are worth their price to the jobs of a request, in a pool that an
// autoscaler makes larger and smaller.
//
// With k nodes a unit of a job's work takes 1/speed(k) of its time and k/speed(k) of the nodes'.
// Where nodes cost p job-hours an hour, the size that costs least is that of the least
// (1 + p k)/speed(k): beyond it, an hour of one more node saves less than p. Waiting saves no node any
// time, so a job gets at least the size that uses its nodes best.
func Worth(w *world.World, r Request) int {
	present := int(r.Allocate.GetSnapshot().GetTotalNodes())
	worth := 0
	for _, j := range r.Jobs {
		cost := func(nodes int) float64 { return (j.Weight + w.Pool.NodePrice*float64(nodes)) / j.Speed(nodes) }
		sizes := Legal(j)
		best := sizes[0]
		for _, n := range sizes[1:] {
			if cost(n) < cost(best) {
				best = n
			}
		}
		worth += best
	}
	return min(worth, w.Pool.MaxNodes, present+w.Coming(w.Pool.MaxNodes))
}
