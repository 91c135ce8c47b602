package world

import (
	"bytes"
	"fmt"
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

// Input is what a world is observed from.
type Input struct {
	Now   time.Time
	Pool  config.Pool
	Apply bool
	Nodes []*corev1.Node                  // of the cluster; not modified
	Pods  []*corev1.Pod                   // of the cluster; not modified
	Jobs  []Object                        // of the pool
	Kueue *Kueue                          // nil where it has no say
	Query map[types.NamespacedName]Sample // what the pool's query answered, by job
	Uses  map[types.UID]Use               // how jobs were seen to use their nodes
	ETAs  *eta.Estimator                  // how long the jobs took that have ended
	Pins  map[types.UID]Pin               // jobs left alone until the next decision
	// NodeHistory is that of the last World by node name, nil at the start.
	NodeHistory map[string]NodeHistory
}

// Object is a job as the API holds it.
type Object struct {
	Kind  kinds.Kind
	Job   *unstructured.Unstructured
	Child *unstructured.Unstructured
}

// Sample is an answer of a pool's query for one job.
type Sample struct {
	Value float64
	Time  time.Time
}

// Pin is why a job is left alone.
type Pin struct {
	Reason Reason
	Why    string
}

// staleAfter is after how many cadences a report of the remaining time is too old.
const staleAfter = 2

// Observe returns the world.
func Observe(in Input) *World {
	w := &World{Now: in.Now, Pool: in.Pool, Apply: in.Apply, NodeHistory: make(map[string]NodeHistory, len(in.Nodes))}
	o := &observer{
		Input: in, world: w, queues: in.Kueue.read(corev1.ResourceName(in.Pool.Unit)), counted: make(map[string]bool),
		foreign: make(map[string]bool), elsewhere: make(map[string]bool), statuses: make(map[string]NodeStatus),
		podsOn: make(map[string][]*corev1.Pod), jobOf: make(map[types.UID]*Job), tolerated: make(map[string]bool),
	}
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
	kept := 0
	for _, j := range w.Jobs {
		o.countPods(j)
		o.judge(j)
	}
	w.unpin()
	o.queue()
	for _, j := range w.Jobs {
		kept += j.Keeps() - j.Waits()
	}
	if w.Missing = max(0, kept-w.Nodes.Accepting-w.Nodes.Expected); w.Missing > 0 {
		// Nodes went. To shrink a job once more is better than to pause it.
		for _, j := range w.Jobs {
			j.Cooling = j.Cooling && j.Nodes() == 0
		}
	}
	return w
}

// observer is a world in the making.
type observer struct {
	Input
	world  *World
	queues *queues
	// podsOf are the pods of each job, and jobOf their jobs.
	podsOf map[*Job][]*corev1.Pod
	jobOf  map[types.UID]*Job
	// nodes are those of the pool, statuses their states by name, and elsewhere the names of all others.
	nodes     []*corev1.Node
	statuses  map[string]NodeStatus
	elsewhere map[string]bool
	// foreign are the names of nodes with pods that request the unit and are of no job of the pool.
	// podsOn are those of the pool's jobs that run on a node or are about to.
	foreign map[string]bool
	podsOn  map[string][]*corev1.Pod
	// tolerated are the taints that all those pods tolerate, as far as they were looked up.
	tolerated map[string]bool
	// counted are the names of accepting nodes whose pod is counted; allocatable is the least and the
	// most of the unit that an accepting node has.
	counted                       map[string]bool
	leastAllocatable, allocatable int64
}

// identify reads what an object says.
func (o *observer) identify(object Object) *Job {
	j := &Job{
		ID:  object.Kind.Name + "/" + object.Job.GetNamespace() + "/" + object.Job.GetName(),
		UID: object.Job.GetUID(), Kind: object.Kind, Object: object.Job, Child: object.Child, Use: o.Uses[object.Job.GetUID()],
	}
	annotations := object.Job.GetAnnotations()
	var notElastic error
	j.Shape, notElastic = object.Kind.Read(object.Job, object.Child, corev1.ResourceName(o.Pool.Unit))
	var bad error
	j.Wishes, bad = ParseWishes(annotations, j.Shape.Min, j.Shape.Max, j.Shape.Multiple)
	if _, said := annotations[RestartAnnotation]; !said {
		j.Restart = o.Pool.Restart
	}
	j.Record = parseRecord(j.UID, annotations, o.Now)
	if target, err := strconv.Atoi(annotations[TargetAnnotation]); err == nil && target >= 0 && j.Record != nil {
		j.Target, j.HasTarget = target, true
	}
	group := o.Pool.GroupOf(object.Job.GetNamespace())
	if group != nil && group.MaxWeight > 0 {
		j.Weight = min(j.Weight, group.MaxWeight)
	}
	switch owner := kinds.Owner(object.Job); {
	case object.Job.GetDeletionTimestamp() != nil:
		j.pin(Deleting, "it is being deleted")
	case j.Shape.Finished:
	case o.Pool.Namespaces != nil && !slices.Contains(o.Pool.Namespaces, object.Job.GetNamespace()), group == nil && o.Pool.Groups != nil:
		j.pin(NotAllowed, "jobs of its namespace may not use the pool")
	case bad != nil:
		j.pin(BadAnnotations, bad.Error())
	case j.Paused:
		j.pin(Paused, "its annotation "+PausedAnnotation+" says so")
	case owner != "":
		j.pin(Owned, "it belongs to a "+owner+": label that instead")
	case notElastic != nil:
		j.pin(NotElastic, notElastic.Error())
	case (o.Apply || o.queues != nil) && object.Job.GetLabels()[kueueLabel] != "":
		if why := o.kueueOwned(j); why != "" {
			j.pin(KueueOwned, why)
		}
	}
	return j
}

func (j *Job) pin(reason Reason, why string) {
	if j.Pinned == "" {
		j.Pinned, j.Why = reason, why
	}
}

// assignPods finds the pods of each job.
func (o *observer) assignPods() {
	type label struct{ namespace, key, value string }
	byLabel := make(map[label][]*Job)
	keys := make(map[string]bool)
	for _, j := range o.world.Jobs {
		for key, value := range j.Shape.Selector {
			// The name of a job is among its labels and tells it from most others.
			if value == j.Object.GetName() {
				l := label{j.Object.GetNamespace(), key, value}
				byLabel[l] = append(byLabel[l], j)
				keys[key] = true
				break
			}
		}
	}
	o.podsOf = make(map[*Job][]*corev1.Pod)
	for _, pod := range o.Pods {
		failed := pod.Status.Phase == corev1.PodFailed
		if failed && pod.DeletionTimestamp == nil || metav1.GetControllerOfNoCopy(pod) == nil {
			continue // Nothing deletes a pod without an owner: a job of the same name had it.
		}
		for key := range keys {
			value, found := pod.Labels[key]
			if !found {
				continue
			}
			for _, j := range byLabel[label{pod.Namespace, key, value}] {
				if (!failed || j.Shape.FillsGaps) && o.jobOf[pod.UID] == nil && labels.SelectorFromSet(j.Shape.Selector).Matches(labels.Set(pod.Labels)) {
					o.podsOf[j] = append(o.podsOf[j], pod)
					o.jobOf[pod.UID] = j
				}
			}
		}
	}
}

// judge fills in what remains of the job, and pins it where it must be left alone.
func (o *observer) judge(j *Job) {
	created := j.Object.GetCreationTimestamp().Time
	j.history = newHistory(&j.Wishes, j.Record, o.Now, j.Shape.Started, created, j.Nodes())
	j.history.lost = j.Use.Lost
	if j.Shape.Finished {
		return
	}
	j.Trained = j.history.trainedFor()
	j.Waited = max(0, o.Now.Sub(created)-j.Trained)
	j.Cooling = j.Record != nil && j.Record.Changed != nil && o.Now.Sub(*j.Record.Changed) < o.Pool.MinInterval
	// To ask more of a job whose pods are slow to leave frees nothing.
	j.Cooling = j.Cooling || j.Pods.Terminating > 0 && j.Nodes() > 0
	j.Cooling = j.Cooling && (!j.Capped() || j.Nodes() <= j.Use.Cap)
	j.Growing = j.Record != nil && j.Record.Changed != nil && o.Now.Sub(*j.Record.Changed) < o.Pool.SettleTimeout && j.Pods.Seen < j.Nodes()
	estimate, unknown := j.history.estimate(o.reports(j), staleAfter*o.Pool.Cadence)
	if unknown != nil {
		guess := o.ETAs.Estimate(eta.Job{WorkDone: j.WorkDone()})
		estimate, j.Guessed = Estimate{Remaining: guess.ETA, Source: SourceEnded, Error: guess.Error}, unknown.Error()
	}
	j.Estimate = estimate
	pin, pinned := o.Pins[j.UID]
	if j.Succeeded() > 0 && j.Nodes() == 0 {
		j.Shape.StartSize = j.Shape.Size // Its other pods go on with the training that these have finished.
	}
	if pinned && pin.Reason == Gang && j.Nodes() == 0 {
		j.Shape.StartSize, pinned = j.Shape.Size, false // It may be started as it is.
	}
	switch unit := j.Shape.Unit; {
	case j.Succeeded() > 0 && j.Nodes() > 0:
		j.pin(Completing, fmt.Sprintf("%d of its %d pods have succeeded; it gets no new ones", j.Succeeded(), j.Nodes()))
	case o.world.Nodes.Accepting > 0 && (unit > o.leastAllocatable || 2*unit <= o.allocatable):
		j.pin(NotWholeNodes, fmt.Sprintf("its pods request %d %s; want a whole node of %d",
			unit, o.Pool.Unit, o.leastAllocatable))
	case j.Pods.Overdue > 0:
		j.pin(Stuck, fmt.Sprintf("%d of its pods outlived their grace period by more than %v", j.Pods.Overdue, o.Pool.SettleTimeout))
	case o.Now.Before(j.Use.Foreign):
		j.pin(Conflict, fmt.Sprintf("another writer undid what was decided %d times; it is left alone until %s",
			j.Use.Undone, j.Use.Foreign.UTC().Format(time.RFC3339)))
	case pinned:
		j.pin(pin.Reason, pin.Why)
	case estimate.Remaining <= 0 && (j.Nodes() == 0 || j.Pods.Running+j.Succeeded() > 0):
		j.pin(PastItsEnd, fmt.Sprintf("by its %s it would have ended %v ago",
			estimate.Source, (-estimate.Remaining).Round(time.Second)))
	}
	j.retain()
}

// maxNamed is how many nodes a reason names.
const maxNamed = 3

// retain pins a job some of whose pods are on nodes that take no new ones: its size stays what it is
// while they run.
func (j *Job) retain() {
	if len(j.retainedOn) == 0 {
		return
	}
	var names []string
	j.Transient = true
	for i := range j.retainedOn {
		s := &j.retainedOn[i]
		j.Transient = j.Transient && s.Transient
		if s.Reason == NotReady || s.Reason == Unallocatable {
			j.Unhealthy++
		}
		if len(names) < maxNamed {
			names = append(names, s.String())
		}
	}
	if more := len(j.retainedOn) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	j.pin(Retained, fmt.Sprintf("%d of its pods run on nodes that take no new ones (%s)", j.Pods.Away, strings.Join(names, ", ")))
}

// unpin takes the pins that users set themselves from what groups hold beyond their limits, the
// newest jobs first.
func (w *World) unpin() {
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
				j.Pinned, j.Why = "", ""
			}
		}
	}
}

// reports returns what the sources say of a job, best first.
func (o *observer) reports(j *Job) []report {
	var reports []report
	present := j.Speed(j.Shape.Size)
	if said := j.Shape.Report; said != nil {
		r := report{source: SourceStatus, at: said.Time, progress: said.Progress, atSize: true}
		if said.Remaining != nil {
			r.remaining = new(times(*said.Remaining, present))
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
	// What is older than the job was said of another one of its name.
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

// written returns when an annotation was last written, as far as the API server knows.
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
