package world

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// Input contains the objects and earlier observations from which Observe derives the state of a pool.
type Input struct {
	Now   time.Time
	Pool  config.Pool
	Apply bool
	Nodes []*corev1.Node                  // of the cluster; not modified
	Pods  []*corev1.Pod                   // of the cluster; not modified
	Jobs  []Object                        // of the pool
	Kueue *Kueue                          // nil if Kueue admits no jobs
	Query map[types.NamespacedName]Sample // results of the pool's query by job
	Usage map[types.UID]Usage             // observed usage of nodes by job
	ETAs  *eta.Estimator                  // work of completed jobs
	Pins  map[types.UID]Pin               // jobs that are not resized for now
	// NodeHistory is the NodeHistory of the last state, by node name; nil after the start.
	NodeHistory map[string]NodeHistory
	// TypesFixed is true if the API server has refused to change the node selector of a job that ran before.
	TypesFixed bool
}

// Object is a job as stored by the API server, with its child or its parent if its kind has one.
type Object struct {
	Kind          kinds.Kind
	Job           *unstructured.Unstructured
	Child, Parent *unstructured.Unstructured
}

// Sample is a result of a pool's query for one job.
type Sample struct {
	Value float64
	Time  time.Time
}

// Pin is the reason why a job is not resized. The first decision after Until removes it.
type Pin struct {
	Reason  Reason
	Message string
	Until   time.Time
}

// staleAfter is the maximum age of a report of the remaining time, in cadences.
const staleAfter = 2

// Observe derives the state of a pool.
func Observe(in Input) *ClusterState {
	w := &ClusterState{
		Now: in.Now, Pool: in.Pool, Apply: in.Apply, NodeHistory: make(map[string]NodeHistory, len(in.Nodes)),
		TypeNodes: make(map[string]NodeCounts), typeOfNode: make(map[string]string),
	}
	o := &observer{
		Input: in, world: w, counted: make(map[string]bool),
		foreign: make(map[string]int64), requested: make(map[string]int64), inUse: make(map[string]int),
		elsewhere: make(map[string]bool), statuses: make(map[string]NodeStatus),
		owners: make(map[types.UID]bool), podsOn: make(map[string][]*corev1.Pod),
		jobOf: make(map[types.UID]*Job), tolerated: make(map[string]bool),
	}
	for _, object := range in.Jobs {
		o.owners[object.Job.GetUID()] = true
		if object.Child != nil {
			o.owners[object.Child.GetUID()] = true
		}
	}
	o.queues = in.Kueue.read(&in.Pool, o.owners)
	for _, object := range in.Jobs {
		w.Jobs = append(w.Jobs, o.identify(object))
	}
	slices.SortFunc(w.Jobs, func(a, b *Job) int {
		if c := a.Object.GetCreationTimestamp().Compare(b.Object.GetCreationTimestamp().Time); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	o.assignPods()
	o.countNodes()
	for _, j := range w.Jobs {
		o.countPods(j)
		o.countSchedulable(j)
		o.judge(j)
		o.setTypes(j)
	}
	w.unpin()
	o.queue()
	if w.Missing = w.missing(); w.Missing > 0 || slices.ContainsFunc(w.Jobs, (*Job).Returning) {
		// Nodes were lost or are returned. Shrinking a job during its cooldown is better than pausing one.
		for _, j := range w.Jobs {
			j.Cooling = j.Cooling && j.Nodes() == 0
		}
	}
	w.keepTypes()
	return w
}

// observer derives a ClusterState.
type observer struct {
	Input
	world  *ClusterState
	queues *queues
	owners map[types.UID]bool // the jobs of the pool and their children
	// podsOf maps jobs to their pods, and jobOf maps the UIDs of pods to their jobs.
	podsOf map[*Job][]*corev1.Pod
	jobOf  map[types.UID]*Job
	// nodes are the pool's nodes, statuses their states by name, and elsewhere the names of all other nodes.
	nodes     []*corev1.Node
	statuses  map[string]NodeStatus
	elsewhere map[string]bool
	// requested is how much of the unit the active pods on a node request, by its name, and foreign the part of
	// it that belongs to no job of the pool.
	requested, foreign map[string]int64
	// podsOn lists the active pods of the pool's jobs by node name, without terminating pods, and inUse is the
	// number of units in which they count.
	podsOn map[string][]*corev1.Pod
	inUse  map[string]int
	// tolerated caches whether all pods in podsOn tolerate a taint.
	tolerated map[string]bool
	// counted contains the names of accepting nodes whose pod is already counted. minAllocatable and
	// allocatable are the smallest and largest allocatable amounts of the unit on accepting nodes.
	counted                     map[string]bool
	minAllocatable, allocatable int64
	largest                     int // largest size of a node, in any state
}

// identify creates a job from an object: its identity, shape, annotations and record.
func (o *observer) identify(object Object) *Job {
	j := &Job{
		ID:  object.Kind.Name + "/" + object.Job.GetNamespace() + "/" + object.Job.GetName(),
		UID: object.Job.GetUID(), Kind: object.Kind, Object: object.Job, Child: object.Child, Usage: o.Usage[object.Job.GetUID()],
		Kept: make(map[string]int), Leaving: make(map[string]int),
	}
	annotations := object.Job.GetAnnotations()
	var notElastic error
	j.Shape, notElastic = object.Kind.Read(object.Job, cmp.Or(object.Child, object.Parent), corev1.ResourceName(o.Pool.Unit))
	var bad error
	j.JobAnnotations, bad = ParseAnnotations(annotations, j.Shape.Min, j.Shape.Max, j.Shape.Multiple)
	if o.Pool.CountsUnits() {
		var tooLarge error
		if j.Shape, tooLarge = j.Shape.InUnits(); notElastic == nil {
			notElastic = tooLarge
		}
	}
	j.inUnits(j.Shape.PerPod)
	j.Type, j.SpeedOfType = o.Pool.TypeOf(j.Shape.Pod.NodeSelector), o.speedsOfTypes()
	j.TypeFixed = o.TypesFixed && !j.Shape.Started.IsZero()
	if _, set := annotations[RestartAnnotation]; !set {
		j.Restart = o.Pool.Restart
	}
	j.Record = parseRecord(j.UID, annotations, o.Now)
	if target, err := strconv.Atoi(annotations[TargetAnnotation]); err == nil && target >= 0 && j.Record != nil {
		j.Target, j.HasTarget = target*j.PerPod, true
		j.TargetType = o.targetType(annotations)
		j.HasTarget = j.Target == 0 || (j.TargetType != "") == (len(o.Pool.NodeTypes) > 0)
	}
	group := o.Pool.GroupOf(object.Job.GetNamespace())
	if group != nil && group.MaxWeight > 0 {
		j.Weight = min(j.Weight, group.MaxWeight)
	}
	switch owner := kinds.Owner(object.Job); {
	case o.partOfJob(object.Job):
		// Its pods are those of its owner.
		j.Shape.Selector, j.Shape.Suspended = nil, true
		j.pin(Owned, "it belongs to a "+owner+", which has the label as well and is decided instead")
	case object.Job.GetDeletionTimestamp() != nil:
		j.pin(Deleting, "it is being deleted")
	case j.Shape.Finished:
	case o.Pool.Namespaces != nil && !slices.Contains(o.Pool.Namespaces, object.Job.GetNamespace()), group == nil && o.Pool.Groups != nil:
		j.pin(NotAllowed, "jobs in its namespace are not allowed to use the pool")
	case bad != nil:
		j.pin(BadAnnotations, bad.Error())
	case j.Paused:
		j.pin(Paused, "its annotation "+PausedAnnotation+" is true")
	case owner != "":
		j.pin(Owned, "it belongs to a "+owner+", which must have the label instead")
	case notElastic != nil:
		j.pin(NotElastic, notElastic.Error())
	case (o.Apply || o.queues != nil) && object.Job.GetLabels()[kueueLabel] != "":
		if why := o.kueueOwned(j); why != "" {
			j.pin(KueueOwned, why)
		}
	}
	return j
}

// partOfJob reports whether another job of the pool, or its child, owns a job.
func (o *observer) partOfJob(job *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(job)
	return owner != nil && o.owners[owner.UID]
}

func (j *Job) pin(reason Reason, why string) {
	if j.Pinned == "" {
		j.Pinned, j.Message = reason, why
	}
}

// assignPods assigns the pods to their jobs. A pod belongs to the job that owns it, otherwise to the oldest job with
// its labels.
func (o *observer) assignPods() {
	type label struct{ namespace, key, value string }
	byLabel := make(map[label][]int) // indexes of the jobs
	for i, j := range o.world.Jobs {
		for _, key := range slices.Sorted(maps.Keys(j.Shape.Selector)) {
			// The label with the job's name is the most selective one.
			if name := j.Object.GetName(); j.Shape.Selector[key] == name {
				l := label{j.Object.GetNamespace(), key, name}
				byLabel[l] = append(byLabel[l], i)
				break
			}
		}
	}
	o.podsOf = make(map[*Job][]*corev1.Pod)
	for _, pod := range o.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			continue // A pod without an owner is an orphan of an earlier job with the same name.
		}
		of := -1
		for key, value := range pod.Labels {
			for _, i := range byLabel[label{pod.Namespace, key, value}] {
				if of < 0 || o.world.Jobs[i].UID == owner.UID || i < of && o.world.Jobs[of].UID != owner.UID {
					of = i
				}
			}
		}
		if of >= 0 {
			o.assign(pod, o.world.Jobs[of])
		}
	}
}

// assign assigns a pod to its job, if the job's size counts the pod.
func (o *observer) assign(pod *corev1.Pod, j *Job) {
	live, failed := pod.DeletionTimestamp == nil, pod.Status.Phase == corev1.PodFailed
	switch counted := labels.SelectorFromSet(j.Shape.Selector).Matches(labels.Set(pod.Labels)); {
	case !counted && live && pod.Status.Phase == corev1.PodRunning:
		j.Pods.Others++
	case !counted:
	case failed && (live || !j.Shape.FillsGaps):
		if at := failedAt(pod); at.After(j.Pods.Failed) {
			j.Pods.Failed = at
		}
	default:
		o.podsOf[j] = append(o.podsOf[j], pod)
		o.jobOf[pod.UID] = j
	}
}

// failedAt returns the time at which a pod failed, as far as it is known.
func failedAt(pod *corev1.Pod) time.Time {
	var at time.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			at = c.LastTransitionTime.Time
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil && end.FinishedAt.After(at) {
			at = end.FinishedAt.Time
		}
	}
	return at
}

// maxPodBackOff is the maximum time for which the Job controller delays new pods after failures of pods.
const maxPodBackOff = 10 * time.Minute

// awaits returns why the controller of a job's kind creates no pods yet, "" if it should create them.
func (o *observer) awaits(j *Job) string {
	switch {
	case j.Pods.Seen >= j.Nodes()-j.Done():
		return ""
	case j.Shape.Awaits != "":
		return j.Shape.Awaits
	case o.Now.Sub(j.Pods.Failed) < maxPodBackOff:
		return fmt.Sprintf("its controller delays new pods by up to %v after failures of pods", maxPodBackOff)
	}
	return ""
}

// lends returns why other jobs may use the nodes of a job that its pods do not use, "" if they must not. The job
// keeps its size, because a smaller one would stop pods that run.
func (o *observer) lends(j *Job) string {
	since := j.Since()
	if j.Pods.Failed.After(since) {
		since = j.Pods.Failed
	}
	switch {
	case j.Awaits != "" && o.Now.Sub(since) >= o.Pool.SettleTimeout:
		return "its other pods do not exist yet, and other jobs may use their nodes: " + j.Awaits
	case j.Capped() && j.Pods.Running+j.Pods.Others > 0 && j.LacksPods() && !slices.ContainsFunc(j.Sizes, j.withinCap):
		return fmt.Sprintf("%d of its %d pods run, and other jobs may use the other nodes; no smaller size keeps these pods",
			j.PodsOf(j.Pods.Running), j.PodsOf(j.Nodes()))
	}
	return ""
}

// judge sets the estimate of the remaining work, and pins the job if it must not be resized.
func (o *observer) judge(j *Job) {
	created := j.Object.GetCreationTimestamp().Time
	j.history = newHistory(&j.JobAnnotations, j.Record, o.Now, j.Shape.Started, created, j.Nodes(), j.Type)
	j.history.idle = j.Usage.Idle
	if j.Shape.Finished {
		return
	}
	o.setTimes(j, created)
	o.setEstimate(j)
	o.setPin(j)
	o.retain(j)
}

// setTimes sets what depends on the times of a job and of its last resize.
func (o *observer) setTimes(j *Job, created time.Time) {
	j.Trained = j.history.trainedFor()
	j.Waited = max(0, o.Now.Sub(created)-j.Trained)
	j.Cooling = j.Record != nil && j.Record.Changed != nil && o.Now.Sub(*j.Record.Changed) < o.Pool.MinInterval && !j.Moving()
	// Resizing a job again while its pods terminate frees no nodes.
	j.Cooling = j.Cooling || j.Pods.Terminating > 0 && j.Nodes() > 0
	j.Cooling = j.Cooling && (!j.Capped() || j.Nodes() <= j.Usage.Cap)
	j.Growing = j.Record != nil && j.Record.Changed != nil && o.Now.Sub(*j.Record.Changed) < o.Pool.SettleTimeout && j.Pods.Seen < j.Nodes()
	j.Awaits = o.awaits(j)
}

// setEstimate sets the remaining time of a job.
func (o *observer) setEstimate(j *Job) {
	estimate, unknownErr := j.history.estimate(o.reports(j), staleAfter*o.Pool.Cadence)
	if unknownErr != nil {
		fallback := o.ETAs.Estimate(eta.Job{WorkDone: j.WorkDone()})
		estimate, j.FallbackReason = Estimate{Remaining: fallback.ETA, Source: SourceCompleted, Error: fallback.Error}, unknownErr.Error()
	}
	j.Estimate = estimate
}

// setPin pins a job that must keep its size, with the first of the reasons that apply.
func (o *observer) setPin(j *Job) {
	pin, pinned := o.Pins[j.UID]
	if j.Done() > 0 && j.Nodes() == 0 {
		j.Shape.StartSize = j.Shape.Size // Resuming at another size would repeat the work of the pods that are done.
	}
	conflict := o.Now.Before(j.Usage.ConflictUntil)
	if j.Nodes() == 0 && (pinned && pin.Reason == Gang || conflict && !j.Usage.Stopped) {
		j.Shape.StartSize, pinned, conflict = j.Shape.Size, false, false // A suspended job may be started at its size.
	}
	switch unit, lends := j.Shape.Unit, o.lends(j); {
	case j.Done() > 0 && j.Nodes() > 0:
		j.pin(Completing,
			fmt.Sprintf("%d of its %d pods have succeeded or failed for good; it gets no new ones", j.PodsOf(j.Done()), j.PodsOf(j.Nodes())))
	case o.Pool.CountsUnits() && len(o.nodes) > 0 && j.PerPod > o.largest:
		j.pin(NotElastic, fmt.Sprintf("its pods request %d %s; must request at most %d, which the largest node of the pool has",
			unit, o.Pool.Unit, o.largest))
	case !o.Pool.CountsUnits() && o.world.Nodes.Accepting > 0 && (unit > o.minAllocatable || 2*unit <= o.allocatable):
		j.pin(NotWholeNodes, fmt.Sprintf("its pods request %d %s; must request a whole node of %d",
			unit, o.Pool.Unit, o.minAllocatable))
	case j.Pods.Overdue > 0:
		j.pin(Stuck, fmt.Sprintf("%d of its pods did not terminate within their grace period and %v",
			j.PodsOf(j.Pods.Overdue), o.Pool.SettleTimeout))
	case conflict:
		j.pin(Conflict, fmt.Sprintf("another writer reverted %d resizes; it is not resized until %s",
			j.Usage.Reverted, j.Usage.ConflictUntil.UTC().Format(time.RFC3339)))
	case pinned:
		j.pin(pin.Reason, pin.Message)
	case lends != "":
		j.pin(Lending, lends)
	case j.Estimate.Remaining <= 0 && j.Nodes() > 0 && !j.LacksPods(): // Other jobs past their end need nodes.
		j.pin(PastItsEnd, fmt.Sprintf("by its %s it should have completed %v ago",
			j.Estimate.Source, (-j.Estimate.Remaining).Round(time.Second)))
	}
}

// maxNamed is the maximum number of nodes that a message names.
const maxNamed = 3

// retain pins a job that has pods on nodes that are not accepting. Its size does not change while these
// pods run. If the drains of all these nodes are blocked, the job may grow on other nodes.
func (o *observer) retain(j *Job) {
	if len(j.retainedOn) == 0 {
		return
	}
	var names []string
	j.Transient = true
	blocked := !o.Pool.CountsUnits() && o.Pool.MaxNodes == 0
	nodes := make(map[string]bool)
	for i := range j.retainedOn {
		s := &j.retainedOn[i]
		j.Transient = j.Transient && s.Transient
		blocked = blocked && o.drainBlocked(s)
		if s.Reason == NotReady || s.Reason == Unallocatable {
			j.Unhealthy += j.PerPod
		}
		if len(names) < maxNamed && !nodes[s.Node.Name] {
			names = append(names, s.String())
		}
		nodes[s.Node.Name] = true
	}
	if more := len(nodes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	why := fmt.Sprintf("%d of its pods run on nodes that accept no new pods (%s)", j.PodsOf(j.Pods.Away), strings.Join(names, ", "))
	if j.GrowsOnly = blocked && j.Pinned == ""; j.GrowsOnly {
		j.Message = why
		return
	}
	j.pin(Retained, why)
}

// unpin removes pins that users caused from jobs of groups that exceed their limits, the newest jobs first.
func (w *ClusterState) unpin() {
	for _, g := range w.Pool.Groups {
		if g.Limit == nil {
			continue
		}
		over := -*g.Limit
		for _, j := range w.Jobs {
			if j.Pinned != "" && slices.Contains(w.Pool.Within(j.Object.GetNamespace()), g.Name) {
				over += j.claims()
			}
		}
		for _, j := range slices.Backward(w.Jobs) {
			byUser := j.Pinned == Paused || j.Pinned == PastItsEnd || j.Pinned == BadAnnotations
			if over > 0 && byUser && j.claims() > 0 && slices.Contains(w.Pool.Within(j.Object.GetNamespace()), g.Name) {
				over -= j.claims()
				j.Pinned, j.Message = "", ""
			}
		}
	}
}

// reports returns the reports of a job's remaining time in order of preference.
func (o *observer) reports(j *Job) []report {
	var reports []report
	present := j.SpeedOn(j.Shape.Size, j.Type)
	if status := j.Shape.Report; status != nil {
		r := report{source: SourceStatus, at: status.Time, progress: status.Progress, atSize: true}
		if status.Remaining != nil {
			r.remaining = new(times(*status.Remaining, present))
		}
		reports = append(reports, r)
	}
	if j.Remaining > 0 {
		reports = append(reports, report{source: SourceRemaining, at: written(j.Object, RemainingAnnotation), remaining: &j.Remaining})
	}
	if j.Progress != nil {
		reports = append(reports, report{source: SourceProgress, at: written(j.Object, ProgressAnnotation), progress: j.Progress})
	}
	name := types.NamespacedName{Namespace: j.Object.GetNamespace(), Name: j.Object.GetName()}
	// An older sample belongs to an earlier job with the same name.
	if s, found := o.Query[name]; found && !s.Time.Before(j.Object.GetCreationTimestamp().Time) {
		r := report{source: SourceQuery, at: s.Time, atSize: true}
		if o.Pool.RemainingIn == config.Ratio {
			r.progress = &s.Value
		} else {
			r.remaining = new(times(time.Second, s.Value*present))
		}
		reports = append(reports, r)
	}
	return reports
}

// written returns when an annotation was last written, according to the managed fields.
func written(job *unstructured.Unstructured, annotation string) time.Time {
	last := job.GetCreationTimestamp().Time
	field := []byte(`"f:` + annotation + `"`)
	for _, entry := range job.GetManagedFields() {
		if entry.Time != nil && entry.FieldsV1 != nil && entry.Time.After(last) && bytes.Contains(entry.FieldsV1.GetRawBytes(), field) {
			last = entry.Time.Time
		}
	}
	return last
}
