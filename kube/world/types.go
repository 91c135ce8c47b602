package world

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// MayMove reports whether the job can be suspended and started on nodes of another type.
func (w *ClusterState) MayMove(j *Job) bool {
	return j.Shape.CanSelect() && !j.TypeFixed && !j.Kueue && !w.Outage && w.MayPause(j)
}

// Moving reports whether the job was suspended to move to another node type and is not started yet.
func (j *Job) Moving() bool {
	r := j.Record
	return r != nil && j.Nodes() == 0 && j.HasTarget && j.Target > 0 && r.From > 0 && r.Nodes == 0
}

// Typed returns the node type to which nodes of a job count that have no pod yet: the type that its pods select, or the first
// type of the pool if they select none.
func (w *ClusterState) Typed(j *Job) string {
	if j.Type != "" || len(w.Pool.NodeTypes) == 0 {
		return j.Type
	}
	return w.Pool.NodeTypes[0].Name
}

// byType returns the number of nodes in total by node type, of which the job has those on single nodes.
func (w *ClusterState) byType(j *Job, total int, on ...map[string]int) map[string]int {
	counts := make(map[string]int)
	for _, nodes := range on {
		for name, n := range nodes {
			counts[w.typeOfNode[name]] += n
			total -= n
		}
	}
	if total > 0 {
		counts[w.Typed(j)] += total
	}
	return counts
}

// RetainedByType returns RetainedNodes of a job by node type.
func (w *ClusterState) RetainedByType(j *Job) map[string]int {
	return w.byType(j, j.RetainedNodes(), j.Kept)
}

// OccupiedByType returns OccupiedNodes of a job by node type.
func (w *ClusterState) OccupiedByType(j *Job) map[string]int {
	return w.byType(j, j.OccupiedNodes(), j.Kept, j.Leaving)
}

// IdleOf returns the number of accepting nodes of a type without a pod of the pool's jobs.
func (w *ClusterState) IdleOf(nodeType string) int {
	idle := w.NodesOf(nodeType).Accepting
	for _, j := range w.Jobs {
		for _, nodes := range []map[string]int{j.Kept, j.Leaving} {
			for name, n := range nodes {
				if w.typeOfNode[name] == nodeType {
					idle -= n
				}
			}
		}
	}
	return idle
}

// NodesOf returns the counts of a node type, and those of the pool for the empty type of a pool of identical nodes.
func (w *ClusterState) NodesOf(nodeType string) NodeCounts {
	if nodeType == "" {
		return w.Nodes
	}
	return w.TypeNodes[nodeType]
}

// Promise reserves nodes of a type for pods of a job that was deleted while it grew.
func (w *ClusterState) Promise(nodeType string, nodes int) {
	w.Nodes.Promised += nodes
	if n, typed := w.TypeNodes[nodeType]; typed {
		n.Promised += nodes
		w.TypeNodes[nodeType] = n
	}
}

// missing returns the number of nodes in use that are neither accepting nor expected to accept pods soon.
func (w *ClusterState) missing() int {
	kept := make(map[string]int)
	for _, j := range w.Jobs {
		for nodeType, n := range w.RetainedByType(j) {
			kept[nodeType] += n
		}
		kept[w.Typed(j)] -= j.UnplannedNodes()
	}
	missing := 0
	for _, nodeType := range w.Pool.TypeNames() {
		n := w.NodesOf(nodeType)
		missing += max(0, kept[nodeType]-n.Accepting-n.Expected)
	}
	return missing
}

// selects reports whether pods of a job with a node selector can run on a node of a type. Its node affinity counts as well.
func (o *observer) selects(j *Job, selector map[string]string, nodeType string) bool {
	affinity := nodeaffinity.NewRequiredNodeAffinity(selector, j.Shape.Pod.Affinity)
	return slices.ContainsFunc(o.nodes, func(node *corev1.Node) bool {
		matches, err := affinity.Match(node)
		return err == nil && matches && o.world.typeOfNode[node.Name] == nodeType
	})
}

// candidates returns the node types on which a job may ever run. The type that a job selects is not the choice of its
// user if its annotation lists types, or if the controller has selected it.
func (o *observer) candidates(j *Job) []string {
	selected := j.Shape.Pod.NodeSelector
	chosen := j.Record != nil && j.Record.Chosen && j.Record.Type == j.Type
	free := j.Shape.CanSelect() && !j.TypeFixed && (j.Type == "" || j.TypeSpeeds != nil || chosen)
	var allowed []string
	for _, name := range o.Pool.TypeNames() {
		listed := j.TypeSpeeds == nil || j.TypeSpeeds[name] != nil
		selector := selected
		if free {
			selector = o.Pool.Select(selected, name)
		}
		if listed && (name == j.Type || o.selects(j, selector, name)) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// setTypes sets the node types that a decision may choose for a job, or pins the job. Unless keepTypes lets the job keep its
// type, these are all candidates.
func (o *observer) setTypes(j *Job) {
	if len(o.Pool.NodeTypes) == 0 || j.Shape.Finished {
		return
	}
	for name := range j.TypeSpeeds {
		if !slices.Contains(o.Pool.TypeNames(), name) {
			j.pin(BadAnnotations,
				fmt.Sprintf("bad annotations: %s: %q is no node type of the pool; must be one of %v", SpeedsAnnotation, name, o.Pool.TypeNames()))
		}
	}
	j.Types = o.candidates(j)
	switch runs := j.Nodes() > 0; {
	case runs && j.Type == "":
		j.pin(NoType, "its pods may run on several node types; suspend it, so that it "+
			"is started on one type, or select the labels of a type in its pod template")
	case !runs && j.Type == "" && !j.Kueue && !j.Shape.CanSelect():
		j.pin(NoType, "the pod template of a "+j.Kind.Name+" cannot change; it must select the labels of a node type")
	case len(j.Types) == 0 && (!runs || o.world.MayMove(j)):
		j.pin(NoType, fmt.Sprintf("it can run on no node type of the pool; its annotation %s and its pod template must allow one of %v",
			SpeedsAnnotation, o.Pool.TypeNames()))
	}
}

// keepTypes lets running jobs that must not move now keep their node type.
func (w *ClusterState) keepTypes() {
	for _, j := range w.Jobs {
		if j.Nodes() > 0 && j.Type != "" && (j.Cooling || !w.MayMove(j)) {
			j.Types = []string{j.Type}
		}
	}
}

// targetType returns the node type of a target, "" if the pool does not have it.
func (o *observer) targetType(annotations map[string]string) string {
	if name := annotations[TargetTypeAnnotation]; slices.Contains(o.Pool.TypeNames(), name) {
		return name
	}
	return ""
}

// speedsOfTypes returns the speeds of the node types of the pool, nil for a pool of identical nodes.
func (o *observer) speedsOfTypes() map[string]float64 {
	if len(o.Pool.NodeTypes) == 0 {
		return nil
	}
	speeds := make(map[string]float64)
	for _, name := range o.Pool.TypeNames() {
		speeds[name] = o.Pool.SpeedOf(name)
	}
	return speeds
}

// setTypeLimits sets the limits of the groups of queues on single node types, from the quotas of the flavors whose labels
// agree with those of the type.
func (o *observer) setTypeLimits(size int64, jobs map[types.UID]*Job) {
	for i := range o.Pool.NodeTypes {
		name := o.Pool.NodeTypes[i].Name
		pool := o.Pool
		pool.NodeSelector = maps.Clone(pool.NodeSelector)
		maps.Copy(pool.NodeSelector, o.Pool.NodeTypes[i].Labels)
		limits := o.Kueue.read(&pool, o.owners).groups(size, func(owner types.UID, units int64) int64 {
			switch j := jobs[owner]; {
			case j == nil:
				return units
			case j.Pinned != "":
				return max(0, units-int64(o.world.RetainedByType(j)[name])*size)
			}
			return 0
		})
		for g := range limits {
			if limits[g].Limit == nil {
				continue
			}
			if o.world.Queues[g].TypeLimits == nil {
				o.world.Queues[g].TypeLimits = make(map[string]int)
			}
			o.world.Queues[g].TypeLimits[name] = *limits[g].Limit
		}
	}
}
