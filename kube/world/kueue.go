package world

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

const (
	// kueueLabel marks jobs that Kueue admits and suspends.
	kueueLabel = "kueue.x-k8s.io/queue-name"
	// kueueGate is the scheduling gate of new pods of an elastic job until Kueue admits them. If elastic
	// jobs are enabled, Kueue's webhook adds the gate to the pod templates of a job with the annotation of
	// the same name.
	kueueGate = "kueue.x-k8s.io/elastic-job"
	// kueueMin marks Jobs that Kueue may admit partially: it may start them with fewer pods and does not
	// resize them.
	kueueMin = "kueue.x-k8s.io/job-min-parallelism"
)

// Kueue contains the objects of Kueue's API. They are not modified.
type Kueue struct{ Workloads, LocalQueues, ClusterQueues, Cohorts, ResourceFlavors []*unstructured.Unstructured }

// queues is the state of Kueue's queues and workloads.
type queues struct {
	unit corev1.ResourceName
	// local are the LocalQueues.
	local map[types.NamespacedName]localQueue
	// known contains the owners of Workloads that are not evicted.
	known map[types.UID]bool
	// waiting lists the waiting Workloads by ClusterQueue. why maps their owners to the reason.
	waiting map[string][]waitingWorkload
	why     map[types.UID]string
	// quotas are the ClusterQueues and Cohorts by the names of their groups.
	quotas map[string]*quota
	// flavors are the labels of the nodes of the known flavors. assigned contains the flavors of the pool's jobs.
	flavors  map[string]map[string]string
	assigned map[string]bool
}

// localQueue is a LocalQueue. It is stopped if it, or its ClusterQueue, admits no jobs.
type localQueue struct {
	cluster string
	stopped bool
}

// waitingWorkload is a Workload that waits. units is the amount of the unit that it requests, -1 if unknown.
type waitingWorkload struct {
	owner types.UID
	units int64
}

// workload has the fields of a Workload that are read.
type workload struct {
	Spec struct {
		QueueName string `json:"queueName"`
		Active    *bool  `json:"active"`
		PodSets   []struct {
			Count    int64 `json:"count"`
			Template *struct {
				Spec corev1.PodSpec `json:"spec"`
			} `json:"template"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Admission struct {
			ClusterQueue      string `json:"clusterQueue"`
			PodSetAssignments []struct {
				Count         int64                          `json:"count"`
				Flavors       map[corev1.ResourceName]string `json:"flavors"`
				ResourceUsage corev1.ResourceList            `json:"resourceUsage"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// units returns the amount of a unit that a Workload requests, -1 if it is unknown.
func (w *workload) units(unit corev1.ResourceName) int64 {
	sum := int64(0)
	for _, set := range w.Spec.PodSets {
		if set.Template == nil {
			return -1
		}
		sum += set.Count * kinds.Requests(&set.Template.Spec, unit)
	}
	if len(w.Spec.PodSets) == 0 {
		return -1
	}
	return sum
}

// read returns the queues for a pool whose jobs have the given UIDs, nil without Kueue. It ignores invalid objects.
func (k *Kueue) read(pool *config.Pool, jobs map[types.UID]bool) *queues {
	if k == nil {
		return nil
	}
	q := &queues{
		unit:  corev1.ResourceName(pool.Unit),
		local: make(map[types.NamespacedName]localQueue), known: make(map[types.UID]bool), waiting: make(map[string][]waitingWorkload),
		why: make(map[types.UID]string), quotas: make(map[string]*quota),
		flavors: make(map[string]map[string]string), assigned: make(map[string]bool),
	}
	stopped := make(map[string]bool)
	for _, object := range k.ClusterQueues {
		stopped[object.GetName()] = isStopped(object)
	}
	for _, object := range k.LocalQueues {
		name, _, _ := unstructured.NestedString(object.Object, "spec", "clusterQueue")
		q.local[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = localQueue{
			name, stopped[name] || isStopped(object),
		}
	}
	for _, object := range k.ResourceFlavors {
		q.flavors[object.GetName()], _, _ = unstructured.NestedStringMap(object.Object, "spec", "nodeLabels")
	}
	workloads := make(map[*unstructured.Unstructured]*workload, len(k.Workloads))
	for _, object := range k.Workloads {
		var w workload
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &w) != nil {
			continue
		}
		workloads[object] = &w
		if jobs[ownerOf(object)] {
			for _, assigned := range w.Status.Admission.PodSetAssignments {
				q.assigned[assigned.Flavors[q.unit]] = true
			}
		}
	}
	delete(q.assigned, "")
	q.readQuotas(k, pool)
	for _, object := range k.Workloads {
		if w := workloads[object]; w != nil {
			q.readWorkload(object, w, pool)
		}
	}
	return q
}

// isStopped reports whether a ClusterQueue or LocalQueue admits no jobs.
func isStopped(object *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(object.Object, "spec", "stopPolicy")
	return policy != "" && policy != "None"
}

// ownerOf returns the UID of the owner of a Workload, or its own UID.
func ownerOf(workload *unstructured.Unstructured) types.UID {
	if c := metav1.GetControllerOf(workload); c != nil {
		return c.UID
	}
	return workload.GetUID()
}

// belongs reports whether a flavor is for nodes of the pool: no label of its nodes contradicts the pool's selector. An
// unknown flavor belongs to the pool unless Kueue assigned another one to the pool's jobs.
func (q *queues) belongs(flavor string, pool *config.Pool) bool {
	nodeLabels, known := q.flavors[flavor]
	if !known {
		return q.assigned[flavor] || len(q.assigned) == 0
	}
	for key, value := range nodeLabels {
		if selected, both := pool.NodeSelector[key]; both && selected != value {
			return false
		}
	}
	return true
}

func (q *queues) readWorkload(object *unstructured.Unstructured, w *workload, pool *config.Pool) {
	owner := ownerOf(object)
	is := func(condition string) bool { return meta.IsStatusConditionTrue(w.Status.Conditions, condition) }
	if is("Finished") || w.Spec.Active != nil && !*w.Spec.Active {
		return
	}
	q.known[owner] = q.known[owner] || !is("Evicted")
	if !is("QuotaReserved") {
		if in := q.local[types.NamespacedName{Namespace: object.GetNamespace(), Name: w.Spec.QueueName}]; !in.stopped {
			q.waiting[in.cluster] = append(q.waiting[in.cluster], waitingWorkload{owner, w.units(q.unit)})
		}
		if c := meta.FindStatusCondition(w.Status.Conditions, "QuotaReserved"); c != nil {
			q.why[owner] = "Kueue: " + c.Message
		}
		return
	}
	units := int64(0)
	for i, assigned := range w.Status.Admission.PodSetAssignments {
		if flavor := assigned.Flavors[q.unit]; flavor != "" && !q.belongs(flavor, pool) {
			continue
		}
		used := amount(assigned.ResourceUsage, q.unit)
		if i < len(w.Spec.PodSets) && w.Spec.PodSets[i].Count < assigned.Count {
			used = used / assigned.Count * w.Spec.PodSets[i].Count // The Workload shrank after its admission.
		}
		units += used
	}
	q.grant(queueGroup(w.Status.Admission.ClusterQueue), owner, units)
}

// kueueOwned marks a job as started and suspended by Kueue. It returns why Kueue sets the size as well, and
// "" if the job may be resized or is suspended.
func (o *observer) kueueOwned(j *Job) string {
	if o.queues == nil {
		return "Kueue sets its suspension and its size"
	}
	queue := o.queues.local[types.NamespacedName{Namespace: j.Object.GetNamespace(), Name: j.Object.GetLabels()[kueueLabel]}]
	j.Queue = queue.cluster
	annotations := j.Object.GetAnnotations()
	_, partial := annotations[kueueMin]
	elastic := !partial && annotations[kueueGate] == "true" &&
		slices.Contains(j.Shape.Pod.SchedulingGates, corev1.PodSchedulingGate{Name: kueueGate})
	switch {
	case j.Kind.Name != "Job" && j.Kind.Name != "RayCluster":
		return "Kueue admits its kind at a fixed size; Jobs and RayClusters can be elastic"
	case slices.ContainsFunc(j.Object.GetOwnerReferences(),
		func(r metav1.OwnerReference) bool { return r.Kind == "RayJob" || r.Kind == "RayService" }):
		return "Kueue admits the number of workers in its RayJob or RayService, unless the autoscaler of Ray sets it"
	case j.Shape.Suspended && j.Shape.Size == 0:
		return "it has no workers that Kueue could admit; must have at least one replica"
	case j.Shape.Suspended && queue.stopped:
		return "its queue is stopped, so Kueue does not start it; the stopPolicy of its LocalQueue and of its ClusterQueue must be None"
	case j.Shape.Suspended && elastic:
		// Its size may be reduced while it waits. Kueue may have preempted it after it had grown.
		j.QueuedSizes = append(slices.DeleteFunc(slices.Clone(j.Sizes), func(n int) bool { return n >= j.Shape.Size }), j.Shape.Size)
	case j.Shape.Suspended:
		j.Shape.StartSize = j.Shape.Size
	case !elastic:
		return "Kueue suspends a job that is resized; must be an elastic job without partial admission"
	case !o.queues.known[j.UID]:
		return "Kueue has not admitted it"
	}
	j.Kueue, j.Shape.NoPause = true, true
	return ""
}

// queue sets the groups of the ClusterQueues and the reason why jobs wait in them. Running jobs get a ceiling at their
// size while their queue is stopped, or while a workload waits in it that decisions do not cover and that Kueue may admit.
// In pools whose decisions have no groups for the queues, no job gets a larger size than Kueue can admit now.
func (o *observer) queue() {
	if o.queues == nil {
		return
	}
	size := o.allocatable // units of what decisions allocate
	if o.Pool.CountsUnits() {
		size = 1
	}
	poolJobs := make(map[types.UID]*Job)
	for _, j := range o.world.Jobs {
		poolJobs[j.UID] = j
	}
	grouped := o.Pool.Groups == nil && o.Pool.Objective == config.TotalTime // Queues replace groups, which need this objective.
	if grouped {
		o.world.Queues = o.queues.groups(size, func(owner types.UID, units int64) int64 {
			switch j := poolJobs[owner]; {
			case j == nil:
				return units
			case j.Pinned != "": // Its nodes are reserved; its pods may run in another cluster.
				return max(0, units-int64(j.RetainedNodes())*size)
			}
			return 0
		})
		o.setTypeLimits(size, poolJobs)
	}
	for _, j := range o.world.Jobs {
		if !j.Kueue {
			continue
		}
		if why := o.queues.why[j.UID]; why != "" {
			j.Pods.Unschedulable = why
		}
		available, limited := o.queues.available(queueGroup(j.Queue))
		nodes := int(max(0, available) / max(1, size))
		local := o.queues.local[types.NamespacedName{Namespace: j.Object.GetNamespace(), Name: j.Object.GetLabels()[kueueLabel]}]
		held := local.stopped || slices.ContainsFunc(o.queues.waiting[j.Queue], func(w waitingWorkload) bool {
			other := poolJobs[w.owner]
			return (other == nil || !other.Kueue || other.Pinned != "") && o.queues.mayAdmit(j.Queue, w.units)
		})
		switch {
		case held:
			j.Ceiling = j.Nodes()
		case grouped || !limited:
		case j.Nodes() > 0:
			j.Ceiling = j.Nodes() + nodes
		case slices.ContainsFunc(j.QueuedSizes, func(n int) bool { return n <= nodes }):
			j.Ceiling = nodes
		}
	}
}
