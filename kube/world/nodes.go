package world

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// countNodes counts the nodes of the pool.
func (o *observer) countNodes() {
	unit, foreign := corev1.ResourceName(o.Pool.Unit), make(map[string]bool)
	for _, pod := range o.Pods {
		if pod.Spec.NodeName != "" && !o.taken[pod.UID] && pod.Status.Phase != corev1.PodSucceeded &&
			pod.Status.Phase != corev1.PodFailed && kinds.Requests(&pod.Spec, unit) > 0 {
			foreign[pod.Spec.NodeName] = true
		}
	}
	o.elsewhere, o.leaving = make(map[string]bool), make(map[string]bool)
	selector := labels.SelectorFromSet(o.Pool.NodeSelector)
	var good []*corev1.Node
	for _, node := range o.Nodes {
		if !selector.Matches(labels.Set(node.Labels)) {
			o.elsewhere[node.Name] = true
			continue
		}
		o.nodes = append(o.nodes, node)
		allocatable, capacity := amount(node.Status.Allocatable, unit), amount(node.Status.Capacity, unit)
		switch {
		case !ready(node) || allocatable <= 0 || o.devices() && allocatable < capacity || node.DeletionTimestamp != nil:
			o.world.Nodes.NotReady++
		case o.returning(node):
			o.world.Nodes.NotReady++
			o.world.Nodes.Returning++
		case leaving(node):
			o.world.Nodes.Leaving++
			o.leaving[node.Name] = true
		case node.Spec.Unschedulable:
			o.world.Nodes.Cordoned++
		case !tolerated(node, o.Pool.Tolerations):
			o.world.Nodes.Tainted++
		case foreign[node.Name]:
			o.world.Nodes.Foreign++
		default:
			good = append(good, node)
		}
	}
	o.usable = make(map[string]bool)
	o.world.PerNode = o.perNode()
	for _, node := range good {
		allocatable := amount(node.Status.Allocatable, unit)
		if o.devices() && allocatable != o.world.PerNode {
			o.world.Nodes.Odd++
			o.world.Odd = append(o.world.Odd, node)
			continue
		}
		if o.world.Nodes.Usable == 0 || allocatable < o.leastAllocatable {
			o.leastAllocatable = allocatable
		}
		o.allocatable = max(o.allocatable, allocatable)
		o.world.Nodes.Usable++
		o.usable[node.Name] = true
	}
}

// devices reports whether the unit is one of devices. Of processors and memory, unlike
// these, every node reserves some.
func (o *observer) devices() bool { return strings.Contains(o.Pool.Unit, "/") }

// perNode returns how much of the unit most nodes have, those out of the count too; of several such
// amounts the one that more jobs request, then the largest.
func (o *observer) perNode() int64 {
	unit := corev1.ResourceName(o.Pool.Unit)
	nodes, jobs := make(map[int64]int), make(map[int64]int)
	for _, node := range o.nodes {
		// A device that broke may be back.
		nodes[max(amount(node.Status.Capacity, unit), amount(node.Status.Allocatable, unit))]++
	}
	delete(nodes, 0)
	for _, j := range o.world.Jobs {
		jobs[j.Shape.Unit]++
	}
	most := int64(0)
	for n := range nodes {
		if cmp.Or(cmp.Compare(nodes[n], nodes[most]), cmp.Compare(jobs[n], jobs[most]), cmp.Compare(n, most)) > 0 {
			most = n
		}
	}
	return most
}

// amount returns how much there is of a resource, 0 where there is none.
func amount(list corev1.ResourceList, unit corev1.ResourceName) int64 {
	quantity := list[unit]
	return quantity.Value()
}

// returnsFor is for how many debounce times a node that was lost has to be ready before it counts.
const returnsFor = 6

// returning reports whether a node that was lost is ready for so short a time that it may be lost
// again.
func (o *observer) returning(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	if c == nil {
		return false
	}
	wait := returnsFor * o.Pool.Debounce
	isNew := c.LastTransitionTime.Sub(node.CreationTimestamp.Time) < wait
	return !isNew && o.Now.Sub(c.LastTransitionTime.Time) < wait && !o.Now.Before(c.LastTransitionTime.Time)
}

// ready reports whether a node says that it is.
func ready(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// leaving reports whether an autoscaler or the cloud is about to take a node away.
func leaving(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		switch taint.Key {
		case "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn",
			"aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler/rebalance-recommendation",
			"cloud.google.com/impending-node-termination", "kubernetes.azure.com/scheduledevent":
			return true
		}
		return false
	})
}

// tolerated reports whether no taint of the node keeps pods with these tolerations away.
func tolerated(node *corev1.Node, tolerations []corev1.Toleration) bool {
	keepsAway := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	_, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, keepsAway, false)
	return !found
}

// countPods counts the pods of a job that hold a node of the pool or are about to.
func (o *observer) countPods(j *Job) {
	own, parts := make(map[string]bool), make(map[string]bool)
	for _, pod := range o.podsOf[j] {
		if kinds.Requests(&pod.Spec, corev1.ResourceName(o.Pool.Unit)) == 0 {
			continue
		}
		j.Pods.Seen++
		node := pod.Spec.NodeName
		if node != "" {
			j.Pods.Bound++
		}
		live := pod.DeletionTimestamp == nil
		if live && pod.Status.Phase == corev1.PodRunning {
			j.Pods.Running++
		}
		if live && broken(pod) {
			j.Pods.Broken++
		}
		own[node] = own[node] || live
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			j.Pods.Done++
		case node == "" && live:
			j.Pods.Live++
			j.Pods.Waiting++
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					j.Pods.Unschedulable = c.Message
				}
			}
		case node == "":
			// Nothing runs that could take its time.
		case !o.usable[node]:
			// Its node is out of the count already.
			if live {
				j.Pods.Away++
			}
			// All pods of one part of a RayCluster go together. KubeRay deletes what it is told to: a
			// pod whose name it shortened is left to it.
			part, ours := cmp.Or(pod.Labels["ray.io/worker-group-replica-index"], pod.Name), strings.HasPrefix(pod.Name, j.Object.GetName()+"-")
			if live && ours && o.leaving[node] && !parts[part] {
				parts[part] = true
				j.Shape.Leaving = append(j.Shape.Leaving, pod.Name)
			}
			if o.elsewhere[node] && live {
				j.pin(Elsewhere, "pods of it run on "+node+", which is no node of the pool")
			}
		case o.counted[node]:
			// So is this one.
		case live:
			j.Pods.Live++
			o.counted[node] = true
		default:
			j.Pods.Terminating++
			o.counted[node] = true
			// The deletion is to be done by its timestamp, which has the whole grace in it.
			grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
			asked := pod.DeletionTimestamp.Unix() - grace
			if o.Now.Sub(time.Unix(asked, 0)) > kinds.Grace(&grace)+o.Pool.SettleTimeout {
				j.Pods.Overdue++
			}
		}
	}
	if j.Shape.Finished || j.Shape.Unit == 0 {
		return
	}
	affinity := nodeaffinity.NewRequiredNodeAffinity(j.Shape.Pod.NodeSelector, j.Shape.Pod.Affinity)
	meant := func(node *corev1.Node) bool {
		matches, err := affinity.Match(node)
		return matches && err == nil
	}
	if len(o.nodes) > 0 && !slices.ContainsFunc(o.nodes, meant) {
		j.pin(Elsewhere, "its node selector or affinity matches no node of the pool")
		return
	}
	if on := j.Pods.Live - j.Pods.Waiting; on >= max(j.Nodes()-j.Pods.Away, j.Pods.Live) {
		return // No pod of it is to come.
	}
	requests := resource.PodRequests(&corev1.Pod{Spec: j.Shape.Pod}, resource.PodResourcesOptions{})
	for _, node := range o.nodes {
		if o.usable[node.Name] && !own[node.Name] && meant(node) && tolerated(node, j.Shape.Pod.Tolerations) && enough(node, requests) {
			j.Room++
		}
	}
}

// broken reports whether a container of a pod cannot start. One that waits for its image, or for
// what comes before it, can.
func broken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		if c.State.Waiting == nil {
			return false
		}
		switch c.State.Waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError":
			return true
		}
		return false
	})
}

// enough reports whether a node has what a pod requests, as far as it says.
func enough(node *corev1.Node, requests corev1.ResourceList) bool {
	for name, quantity := range requests {
		if has, says := node.Status.Allocatable[name]; says && quantity.Cmp(has) > 0 {
			return false
		}
	}
	return true
}
