package world

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
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
type Kueue struct{ Workloads, LocalQueues, ClusterQueues []*unstructured.Unstructured }

// queues is the state of Kueue's queues and workloads.
type queues struct {
	// local maps LocalQueues to the names of their ClusterQueues.
	local map[types.NamespacedName]string
	// known contains the owners of Workloads that are not evicted.
	known map[types.UID]bool
	// waiting lists the owners of waiting Workloads by ClusterQueue. why maps the owners to the reason.
	waiting map[string][]types.UID
	why     map[types.UID]string
	// quota is the quota of the pool's unit by ClusterQueue; a queue that borrows without limit has none.
	// granted is the part of the quota in use by ClusterQueue and owner.
	quota   map[string]int64
	granted map[string]map[types.UID]int64
}

// workload has the fields of a Workload that are read.
type workload struct {
	Spec struct {
		QueueName string `json:"queueName"`
		Active    *bool  `json:"active"`
		PodSets   []struct {
			Count int64 `json:"count"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Admission struct {
			ClusterQueue      string `json:"clusterQueue"`
			PodSetAssignments []struct {
				Count         int64               `json:"count"`
				ResourceUsage corev1.ResourceList `json:"resourceUsage"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// clusterQueue has the fields of a ClusterQueue that are read.
type clusterQueue struct {
	Spec struct {
		CohortName     string `json:"cohortName"`
		ResourceGroups []struct {
			Flavors []struct {
				Resources []struct {
					Name           corev1.ResourceName `json:"name"`
					NominalQuota   resource.Quantity   `json:"nominalQuota"`
					BorrowingLimit *resource.Quantity  `json:"borrowingLimit"`
				} `json:"resources"`
			} `json:"flavors"`
		} `json:"resourceGroups"`
	} `json:"spec"`
}

// read returns the queues for a unit, nil without Kueue. It ignores invalid objects.
func (k *Kueue) read(unit corev1.ResourceName) *queues {
	if k == nil {
		return nil
	}
	q := &queues{
		local: make(map[types.NamespacedName]string), known: make(map[types.UID]bool), waiting: make(map[string][]types.UID),
		why: make(map[types.UID]string), quota: make(map[string]int64), granted: make(map[string]map[types.UID]int64),
	}
	for _, object := range k.LocalQueues {
		name, _, _ := unstructured.NestedString(object.Object, "spec", "clusterQueue")
		q.local[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = name
	}
	for _, object := range k.ClusterQueues {
		var c clusterQueue
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &c) == nil {
			q.readQuota(object.GetName(), &c, unit)
		}
	}
	for _, object := range k.Workloads {
		var w workload
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &w) == nil {
			q.readWorkload(object, &w, unit)
		}
	}
	return q
}

func (q *queues) readQuota(name string, c *clusterQueue, unit corev1.ResourceName) {
	quota, limited := int64(0), true
	for _, group := range c.Spec.ResourceGroups {
		for _, flavor := range group.Flavors {
			for _, r := range flavor.Resources {
				if r.Name != unit {
					continue
				}
				if quota += r.NominalQuota.Value(); c.Spec.CohortName != "" {
					if limited = limited && r.BorrowingLimit != nil; limited {
						quota += r.BorrowingLimit.Value()
					}
				}
			}
		}
	}
	if limited {
		q.quota[name] = quota
	}
}

func (q *queues) readWorkload(object *unstructured.Unstructured, w *workload, unit corev1.ResourceName) {
	owner := object.GetUID()
	if c := metav1.GetControllerOf(object); c != nil {
		owner = c.UID
	}
	is := func(condition string) bool { return meta.IsStatusConditionTrue(w.Status.Conditions, condition) }
	if is("Finished") || w.Spec.Active != nil && !*w.Spec.Active {
		return
	}
	q.known[owner] = q.known[owner] || !is("Evicted")
	if !is("QuotaReserved") {
		name := q.local[types.NamespacedName{Namespace: object.GetNamespace(), Name: w.Spec.QueueName}]
		q.waiting[name] = append(q.waiting[name], owner)
		if c := meta.FindStatusCondition(w.Status.Conditions, "QuotaReserved"); c != nil {
			q.why[owner] = "Kueue: " + c.Message
		}
		return
	}
	granted := q.granted[w.Status.Admission.ClusterQueue]
	if granted == nil {
		granted = make(map[types.UID]int64)
		q.granted[w.Status.Admission.ClusterQueue] = granted
	}
	for i, assigned := range w.Status.Admission.PodSetAssignments {
		units := amount(assigned.ResourceUsage, unit)
		if i < len(w.Spec.PodSets) && w.Spec.PodSets[i].Count < assigned.Count {
			units = units / assigned.Count * w.Spec.PodSets[i].Count // The Workload shrank after its admission.
		}
		granted[owner] += units
	}
}

// kueueOwned marks a job as started and suspended by Kueue. It returns why Kueue sets the size as well, and
// "" if the job may be resized or is suspended.
func (o *observer) kueueOwned(j *Job) string {
	if o.queues == nil {
		return "Kueue sets its suspension and its size"
	}
	j.Queue = o.queues.local[types.NamespacedName{Namespace: j.Object.GetNamespace(), Name: j.Object.GetLabels()[kueueLabel]}]
	annotations := j.Object.GetAnnotations()
	_, partial := annotations[kueueMin]
	elastic := !partial && annotations[kueueGate] == "true" &&
		slices.Contains(j.Shape.Pod.SchedulingGates, corev1.PodSchedulingGate{Name: kueueGate})
	switch {
	case j.Kind.Name != "Job" && j.Kind.Name != "RayCluster":
		return "Kueue admits its kind at a fixed size; Jobs and RayClusters can be elastic"
	case slices.ContainsFunc(j.Object.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "RayJob" || r.Kind == "RayService" }):
		return "Kueue admits the number of workers in its RayJob or RayService, unless the autoscaler of Ray sets it"
	case j.Shape.Suspended && j.Shape.Size == 0:
		return "it has no workers that Kueue could admit; must have at least one replica"
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

// queue sets the node quota of each ClusterQueue and the reason why jobs wait in it. Running jobs get a
// ceiling at their size while a workload waits in their queue that decisions do not cover.
func (o *observer) queue() {
	if o.queues == nil {
		return
	}
	poolJobs, decided := make(map[types.UID]*Job), make(map[types.UID]bool)
	for _, j := range o.world.Jobs {
		poolJobs[j.UID], decided[j.UID] = j, j.Kueue && j.Pinned == ""
	}
	if o.Pool.Groups == nil && o.Pool.Objective == config.TotalTime { // Quotas replace groups, which need this objective.
		o.world.Quotas = make(map[string]int)
		for name, quota := range o.queues.quota {
			for owner, units := range o.queues.granted[name] {
				switch j := poolJobs[owner]; {
				case j == nil:
					quota -= units
				case j.Pinned != "": // Its nodes are reserved; its pods may run in another cluster.
					quota -= max(0, units-int64(j.RetainedNodes())*o.allocatable)
				}
			}
			o.world.Quotas[name] = int(max(0, quota) / max(1, o.allocatable))
		}
	}
	for _, j := range o.world.Jobs {
		if !j.Kueue {
			continue
		}
		if why := o.queues.why[j.UID]; why != "" {
			j.Pods.Unschedulable = why
		}
		if slices.ContainsFunc(o.queues.waiting[j.Queue], func(owner types.UID) bool { return !decided[owner] }) {
			j.Ceiling = j.Nodes()
		}
	}
}
