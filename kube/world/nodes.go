package world

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
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
		if pod.Spec.NodeName == "" || !active(pod) {
			continue
		}
		units := kinds.Requests(&pod.Spec, o.unit())
		o.requested[pod.Spec.NodeName] += units
		if j := o.jobOf[pod.UID]; j == nil {
			o.foreign[pod.Spec.NodeName] += units
		} else if o.Pool.CountsUnits() { // A pod may request more than the job's template.
			o.foreign[pod.Spec.NodeName] += max(0, units-int64(j.PerPod))
		}
	}
	for _, pods := range o.podsOf {
		for _, pod := range pods {
			if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && active(pod) && kinds.Requests(&pod.Spec, o.unit()) > 0 {
				o.podsOn[pod.Spec.NodeName] = append(o.podsOn[pod.Spec.NodeName], pod)
				if o.Pool.CountsUnits() || o.inUse[pod.Spec.NodeName] == 0 {
					o.inUse[pod.Spec.NodeName] += o.jobOf[pod.UID].PerPod
				}
			}
		}
	}
	selector := labels.SelectorFromSet(o.Pool.NodeSelector)
	for _, node := range o.Nodes {
		if selector.Matches(labels.Set(node.Labels)) {
			o.nodes = append(o.nodes, node)
			o.world.typeOfNode[node.Name] = o.Pool.TypeOf(node.Labels)
		} else {
			o.elsewhere[node.Name] = true
		}
	}
	o.world.PerNode = o.perNode()
	impaired := 0
	for _, node := range o.nodes {
		status := o.classify(node)
		o.world.NodeStatuses = append(o.world.NodeStatuses, status)
		o.statuses[node.Name] = status
		o.count(status)
		if status.Type != "" {
			n := o.world.TypeNodes[status.Type]
			o.add(&n, status)
			o.world.TypeNodes[status.Type] = n
		}
		o.largest = max(o.largest, status.Size)
		if status.State != Accepting && status.Reason != Foreign && !status.Starting {
			impaired++
		}
	}
	o.world.Outage = 2*impaired > len(o.nodes)
}

// count adds a node to the counts of the pool.
func (o *observer) count(s NodeStatus) {
	o.add(&o.world.Nodes, s)
	if s.State == Accepting {
		allocatable := amount(s.Node.Status.Allocatable, o.unit())
		if o.minAllocatable == 0 || allocatable < o.minAllocatable {
			o.minAllocatable = allocatable
		}
		o.allocatable = max(o.allocatable, allocatable)
	}
}

// add adds a node to counts.
func (o *observer) add(n *NodeCounts, s NodeStatus) {
	switch s.State {
	case Accepting:
		n.Accepting += s.Free
		n.Serving += s.Free
		n.Existing++
	case Gone:
		n.Gone += s.Size
	case Retaining:
		serving := o.inUse[s.Node.Name] + s.Free
		n.Retaining += s.Size
		n.Serving += serving
		n.Expected += s.Free
		if !s.Starting {
			n.Unusable += max(0, s.Size-serving)
		}
		if serving > 0 || !s.Starting {
			n.Existing++
		}
	}
}

// starting reports whether a node may be starting, as NodeStatus.Starting describes.
func (o *observer) starting(s *NodeStatus) bool {
	recent := o.Now.Sub(s.Node.CreationTimestamp.Time) < StartTimeouts*o.Pool.SettleTimeout
	waits := s.Reason == NotReady || s.Reason == Unallocatable || s.Reason == Tainted || s.Reason == Returning
	return recent && waits && o.world.NodeHistory[s.Node.Name].Accepted.IsZero()
}

// active reports whether a pod has neither succeeded nor failed.
func active(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// unit returns the resource whose requests make a pod occupy a node of the pool.
func (o *observer) unit() corev1.ResourceName { return corev1.ResourceName(o.Pool.Unit) }

// devices reports whether the unit is an extended resource, such as GPUs. Nodes reserve a part of their CPU
// and memory, but not of extended resources.
func (o *observer) devices() bool { return strings.Contains(o.Pool.Unit, "/") }

// perNode returns the most common amount of the unit on the pool's nodes, in any state. It breaks ties by
// the number of jobs that request the amount, then by the larger amount.
func (o *observer) perNode() int64 {
	unit := o.unit()
	nodes, jobs := make(map[int64]int), make(map[int64]int)
	for _, node := range o.nodes {
		// A failed device lowers the allocatable amount only temporarily.
		nodes[max(amount(node.Status.Capacity, unit), amount(node.Status.Allocatable, unit))]++
	}
	delete(nodes, 0)
	for _, j := range o.world.Jobs {
		jobs[j.Shape.Unit]++
	}
	common := int64(0)
	for n := range nodes {
		if cmp.Or(cmp.Compare(nodes[n], nodes[common]), cmp.Compare(jobs[n], jobs[common]), cmp.Compare(n, common)) > 0 {
			common = n
		}
	}
	return common
}

// amount returns the amount of a resource in a list, 0 if the list does not have it.
func amount(list corev1.ResourceList, unit corev1.ResourceName) int64 {
	quantity := list[unit]
	return quantity.Value()
}

// countPods counts the pods of a job.
func (o *observer) countPods(j *Job) {
	for _, pod := range o.podsOf[j] {
		if kinds.Requests(&pod.Spec, o.unit()) == 0 {
			continue
		}
		j.Pods.Seen += j.PerPod
		node := pod.Spec.NodeName
		if node != "" && pod.Status.Phase != corev1.PodSucceeded {
			j.Pods.Bound += j.PerPod
		}
		if pod.DeletionTimestamp == nil {
			_, inPool := o.statuses[node]
			o.countState(j, pod, inPool || o.elsewhere[node])
		}
		switch o.locationOf(pod) {
		case podGone:
		case podSucceeded:
			j.Pods.Succeeded += j.PerPod
		case podWaiting:
			j.Pods.Live += j.PerPod
			j.Pods.Waiting += j.PerPod
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					j.Pods.Unschedulable = c.Message
				}
			}
		case podAway:
			j.Pods.Away += j.PerPod
			if o.elsewhere[node] {
				j.pin(Elsewhere, "its pods run on node "+node+", which is not in the pool")
			} else {
				j.retainedOn = append(j.retainedOn, o.statuses[node])
			}
		case podLive:
			j.Pods.Live += j.PerPod
			j.Kept[node] += j.PerPod
			o.counted[node] = !o.Pool.CountsUnits()
		case podTerminating:
			j.Pods.Terminating += j.PerPod
			o.counted[node] = !o.Pool.CountsUnits()
			on := j.Leaving
			if o.overdue(pod) {
				j.Pods.Overdue += j.PerPod
				on = j.Kept
			}
			on[node] += j.PerPod
		}
	}
}

// podLocation is where a pod is, as far as it counts.
type podLocation int

const (
	podGone        podLocation = iota // it uses no capacity, or another pod on its node is already counted
	podSucceeded                      // it has completed
	podWaiting                        // it has no node yet
	podAway                           // it runs on a node that does not count as capacity
	podLive                           // it runs on a node of the pool
	podTerminating                    // it is being deleted from a node of the pool
)

// locationOf returns where a pod is.
func (o *observer) locationOf(pod *corev1.Pod) podLocation {
	node, live := pod.Spec.NodeName, pod.DeletionTimestamp == nil
	status, inPool := o.statuses[node]
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return podSucceeded
	case node == "" && live:
		return podWaiting
	case node == "": // A deleted pod without a node disappears at once.
		return podGone
	case !inPool && !o.elsewhere[node]: // The node was deleted, so the pod will be deleted, too.
		return podGone
	case status.State != Accepting && live:
		return podAway
	case status.State != Accepting, o.counted[node]:
		return podGone
	case live:
		return podLive
	default:
		return podTerminating
	}
}

// overdue reports whether a pod should have terminated by now. The deletion timestamp is the time of the
// request plus the grace period.
func (o *observer) overdue(pod *corev1.Pod) bool {
	grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	requested := pod.DeletionTimestamp.Unix() - grace
	return o.Now.Sub(time.Unix(requested, 0)) > kinds.Grace(&grace)+o.Pool.SettleTimeout
}

// countSchedulable counts the nodes that could run the pending pods of a job.
func (o *observer) countSchedulable(j *Job) {
	if j.Shape.Finished || j.Shape.Unit == 0 {
		return
	}
	affinity := nodeaffinity.NewRequiredNodeAffinity(j.Shape.Pod.NodeSelector, j.Shape.Pod.Affinity)
	selected := func(node *corev1.Node) bool {
		matches, err := affinity.Match(node)
		return matches && err == nil
	}
	if len(o.nodes) > 0 && !slices.ContainsFunc(o.nodes, selected) && (len(o.Pool.NodeTypes) == 0 || len(o.candidates(j)) == 0) {
		j.pin(Elsewhere, "its node selector or affinity matches no node of the pool")
		return
	}
	if j.PendingPods() == 0 {
		return
	}
	occupied := make(map[string]bool) // by pods of the job
	for _, pod := range o.podsOf[j] {
		if pod.DeletionTimestamp == nil && active(pod) && kinds.Requests(&pod.Spec, o.unit()) > 0 {
			occupied[pod.Spec.NodeName] = true
		}
	}
	requests := resource.PodRequests(&corev1.Pod{Spec: j.Shape.Pod}, resource.PodResourcesOptions{})
	for _, node := range o.nodes {
		status := o.statuses[node.Name]
		if status.State != Accepting || !selected(node) || !o.admits(node, j) || !enough(node, requests) {
			continue
		}
		switch {
		case o.Pool.CountsUnits():
			j.SchedulableNodes += max(0, status.Free-j.Kept[node.Name]) / j.PerPod * j.PerPod
		case !occupied[node.Name]:
			j.SchedulableNodes++
		}
	}
}

// countState counts a pod that is not being deleted by the state of its containers.
func (o *observer) countState(j *Job, pod *corev1.Pod, exists bool) {
	why, waits := o.broken(pod)
	if why != "" {
		j.Pods.Broken += j.PerPod
		j.Pods.Trouble = why
	}
	if pod.Status.Phase == corev1.PodRunning && !waits && exists {
		j.Pods.Running += j.PerPod
		if index, err := strconv.Atoi(pod.Labels[j.Shape.Index]); err == nil {
			j.Pods.Reach = max(j.Pods.Reach, (index+1)*j.Shape.Multiple)
		}
	}
}

const (
	// minCrashes is the number of restarts from which a container counts as crashing. Some containers are
	// restarted once or twice when their job is resized.
	minCrashes = 3
	// crashFree is how long a crashing container must run to count as healthy. It is the maximum back-off
	// of kubelets.
	crashFree = 5 * time.Minute
)

// broken returns why a container of a pod cannot run, "" if all containers can, and whether the container is
// waiting now. A container that pulls its image or waits for init containers can run. A container that
// crashes repeatedly cannot, even if it is running now.
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
		if c.RestartCount >= minCrashes && recently && c.LastTerminationState.Terminated != nil &&
			c.LastTerminationState.Terminated.ExitCode != 0 {
			why = fmt.Sprintf("container %s of pod %s crashes: %s", c.Name, pod.Name, lastExit(&c))
		}
	}
	return why, false
}

// lastExit describes the last termination of a container.
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

// enough reports whether a node has the requested resources. It ignores resources that the node does not list.
func enough(node *corev1.Node, requests corev1.ResourceList) bool {
	for name, quantity := range requests {
		if has, listed := node.Status.Allocatable[name]; listed && quantity.Cmp(has) > 0 {
			return false
		}
	}
	return true
}
