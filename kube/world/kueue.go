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
	// kueueLabel is on jobs that Kueue admits and suspends.
	kueueLabel = "kueue.x-k8s.io/queue-name"
	// kueueGate holds the new pods of an elastic job until Kueue admits them. Its webhook puts it
	// into the templates of a job with the annotation of this name, where elastic jobs are enabled.
	kueueGate = "kueue.x-k8s.io/elastic-job"
	// kueueLeast is on Jobs that Kueue may start with fewer pods, and keeps at that size.
	kueueLeast = "kueue.x-k8s.io/job-min-parallelism"
)

// Kueue is what its API holds; nothing here is modified.
type Kueue struct{ Workloads, LocalQueues, ClusterQueues []*unstructured.Unstructured }

// queues are what Kueue says of jobs.
type queues struct {
	// local are the names of ClusterQueues by those of LocalQueues.
	local map[types.NamespacedName]string
	// known are the jobs with a Workload that was not evicted.
	known map[types.UID]bool
	// waiting are the owners of what waits, by ClusterQueue, and why says of each why it does.
	waiting map[string][]types.UID
	why     map[types.UID]string
	// quota is how much of the pool's unit each ClusterQueue may use, and granted how much of it its
	// owners may. One that may borrow without a limit has no quota.
	quota   map[string]int64
	granted map[string]map[types.UID]int64
}

// workload is what is read of a Workload.
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

// clusterQueue is what is read of a ClusterQueue.
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

// read reads what Kueue's API holds of a unit; nil without Kueue. What cannot be read is not there.
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
			units = units / assigned.Count * w.Spec.PodSets[i].Count // It shrank since.
		}
		granted[owner] += units
	}
}

// kueueOwned notes that Kueue starts and suspends a job, and returns why its size is Kueue's as well,
// "" where it may be resized, or waits to be started.
func (o *observer) kueueOwned(j *Job) string {
	if o.queues == nil {
		return "Kueue sets when it runs and with how many nodes"
	}
	j.Queue = o.queues.local[types.NamespacedName{Namespace: j.Object.GetNamespace(), Name: j.Object.GetLabels()[kueueLabel]}]
	annotations := j.Object.GetAnnotations()
	_, partial := annotations[kueueLeast]
	gated := slices.Contains(j.Shape.Pod.SchedulingGates, corev1.PodSchedulingGate{Name: kueueGate})
	switch {
	case j.Kind.Name != "Job" && j.Kind.Name != "RayCluster":
		return "Kueue admits its kind at a fixed size; Jobs and RayClusters can be elastic"
	case slices.ContainsFunc(j.Object.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "RayJob" || r.Kind == "RayService" }):
		return "Kueue counts the workers that its RayJob or RayService names, unless Ray's own autoscaler sets their number"
	case j.Shape.Suspended && j.Shape.Size == 0:
		return "it has no workers that Kueue could admit; want at least one replica"
	case j.Shape.Suspended:
		j.Shape.StartSize = j.Shape.Size
	case partial || !gated || annotations[kueueGate] != "true":
		return "Kueue suspends a job whose size changes; want an elastic one, without partial admission"
	case !o.queues.known[j.UID]:
		return "Kueue has not admitted it"
	}
	j.Kueue, j.Shape.NoPause = true, true
	return ""
}

// queue notes how many nodes the jobs of each ClusterQueue may have together, why jobs wait in it, and
// that those that run do not grow while something waits there that no decision makes room for.
func (o *observer) queue() {
	if o.queues == nil {
		return
	}
	ours, decided := make(map[types.UID]*Job), make(map[types.UID]bool)
	for _, j := range o.world.Jobs {
		ours[j.UID], decided[j.UID] = j, j.Kueue && j.Pinned == ""
	}
	if o.Pool.Groups == nil && o.Pool.Objective == config.TotalTime { // Groups are the pool's own, or cannot be.
		o.world.Quotas = make(map[string]int)
		for name, quota := range o.queues.quota {
			for owner, units := range o.queues.granted[name] {
				switch j := ours[owner]; {
				case j == nil:
					quota -= units
				case j.Pinned != "": // The nodes that it keeps are reserved; its pods may run in another cluster.
					quota -= max(0, units-int64(j.Keeps())*o.allocatable)
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
