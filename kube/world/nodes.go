package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// countNodes classifies the nodes of the pool.
func (o *observer) countNodes() {
	for _, pod := range o.Pods {
		if pod.Spec.NodeName != "" && o.jobOf[pod.UID] == nil && active(pod) && kinds.Requests(&pod.Spec, o.unit()) > 0 {
			o.foreign[pod.Spec.NodeName] = true
		}
	}
	for _, pods := range o.podsOf {
		for _, pod := range pods {
			if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && active(pod) && kinds.Requests(&pod.Spec, o.unit()) > 0 {
				o.podsOn[pod.Spec.NodeName] = append(o.podsOn[pod.Spec.NodeName], pod)
			}
		}
	}
	selector := labels.SelectorFromSet(o.Pool.NodeSelector)
	for _, node := range o.Nodes {
		if selector.Matches(labels.Set(node.Labels)) {
			o.nodes = append(o.nodes, node)
		} else {
			o.elsewhere[node.Name] = true
		}
	}
	o.world.PerNode = o.perNode()
	for _, node := range o.nodes {
		status := o.classify(node)
		o.world.NodeStatuses = append(o.world.NodeStatuses, status)
		o.statuses[node.Name] = status
		o.count(status)
	}
	impaired := len(o.nodes) - o.world.Nodes.Accepting - o.world.NodesBy(Foreign)
	o.world.Outage = 2*impaired > len(o.nodes)
}

// count counts a node.
func (o *observer) count(s NodeStatus) {
	n, retains := &o.world.Nodes, len(o.podsOn[s.Node.Name]) > 0
	switch s.State {
	case Accepting:
		n.Accepting++
		n.Serving++
		allocatable := amount(s.Node.Status.Allocatable, o.unit())
		if n.Accepting == 1 || allocatable < o.leastAllocatable {
			o.leastAllocatable = allocatable
		}
		o.allocatable = max(o.allocatable, allocatable)
	case Gone:
		n.Gone++
	case Retaining:
		n.Retaining++
		switch {
		case retains:
			n.Serving++
		case s.Transient && !o.foreign[s.Node.Name]:
			n.Serving++
			n.Expected++
		}
		if s.Reason == Leaving {
			n.Leaving++
		}
	}
}

// active reports whether a pod has not ended.
func active(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// unit returns the resource that makes a pod use a node of the pool.
func (o *observer) unit() corev1.ResourceName { return corev1.ResourceName(o.Pool.Unit) }

// devices reports whether the unit is one of devices. Of processors and memory, unlike
// these, every node reserves some.
func (o *observer) devices() bool { return strings.Contains(o.Pool.Unit, "/") }

// perNode returns how much of the unit most nodes have, those out of the count too; of several such
// amounts the one that more jobs request, then the largest.
func (o *observer) perNode() int64 {
	unit := o.unit()
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

// countPods counts the pods of a job that hold a node of the pool or are about to.
func (o *observer) countPods(j *Job) {
	own := make(map[string]bool)
	for _, pod := range o.podsOf[j] {
		if kinds.Requests(&pod.Spec, o.unit()) == 0 {
			continue
		}
		j.Pods.Seen++
		node := pod.Spec.NodeName
		status, inPool := o.statuses[node]
		exists := inPool || o.elsewhere[node]
		if node != "" && pod.Status.Phase != corev1.PodSucceeded {
			j.Pods.Bound++
		}
		live := pod.DeletionTimestamp == nil
		if live {
			o.countState(j, pod, exists)
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
		case !exists:
			// Its node was deleted, and so will be the pod.
		case status.State != Accepting:
			// Its node is no capacity, so the pod takes none.
			if !live {
				break
			}
			if j.Pods.Away++; o.elsewhere[node] {
				j.pin(Elsewhere, "pods of it run on "+node+", which is no node of the pool")
			} else {
				j.retainedOn = append(j.retainedOn, status)
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
	if j.ToCome() == 0 {
		return
	}
	requests := resource.PodRequests(&corev1.Pod{Spec: j.Shape.Pod}, resource.PodResourcesOptions{})
	for _, node := range o.nodes {
		if o.statuses[node.Name].State == Accepting && !own[node.Name] && meant(node) && o.admits(node, j) && enough(node, requests) {
			j.Room++
		}
	}
}

// countState counts a pod that is not being deleted by what its containers do.
func (o *observer) countState(j *Job, pod *corev1.Pod, exists bool) {
	why, waits := o.broken(pod)
	if why != "" {
		j.Pods.Broken++
		j.Pods.Trouble = why
	}
	if pod.Status.Phase == corev1.PodRunning && !waits && exists {
		j.Pods.Running++
	}
}

const (
	// crashes is how often a container was restarted that is taken to crash ever again: some are
	// restarted when their job is resized.
	crashes = 3
	// crashFree is how long such a container has to run to be taken for well: the longest time that
	// kubelets wait before they start one again.
	crashFree = 5 * time.Minute
)

// broken returns why a container of a pod cannot run, "" if all can, and whether it waits for that
// now. One that waits for its image, or for what comes before it, can run. One that crashes again
// and again cannot, though it runs in between.
func (o *observer) broken(pod *corev1.Pod) (why string, waits bool) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		reason := ""
		if c.State.Waiting != nil {
			reason = c.State.Waiting.Reason
		}
		switch reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError":
			return fmt.Sprintf("container %s of pod %s waits: %s", c.Name, pod.Name, reason), true
		case "CrashLoopBackOff":
			return fmt.Sprintf("container %s of pod %s crashes: %s", c.Name, pod.Name, lastExit(&c)), true
		}
		recently := c.State.Running == nil || o.Now.Sub(c.State.Running.StartedAt.Time) < crashFree
		if c.RestartCount >= crashes && recently && c.LastTerminationState.Terminated != nil && c.LastTerminationState.Terminated.ExitCode != 0 {
			why = fmt.Sprintf("container %s of pod %s crashes: %s", c.Name, pod.Name, lastExit(&c))
		}
	}
	return why, false
}

// lastExit says how a container ended last.
func lastExit(c *corev1.ContainerStatus) string {
	last := c.LastTerminationState.Terminated
	if last == nil {
		last = c.State.Terminated
	}
	if last == nil {
		return fmt.Sprintf("restarted %d times", c.RestartCount)
	}
	text := fmt.Sprintf("last exit code %d", last.ExitCode)
	if last.Reason != "" {
		text += " (" + last.Reason + ")"
	}
	return fmt.Sprintf("%s, restarted %d times", text, c.RestartCount)
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
