package plan

import (
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// sizeLimits returns the size limits of the decided jobs of a pool that counts units. The kept jobs keep their
// units, and an autoscaler adds some nodes. The limits are necessary for a placement, and sufficient if the pods of
// the decided jobs may move and the numbers of units that pods request divide each other.
func sizeLimits(w *world.ClusterState, kept, decided []*world.Job, added int) []*elastallocv1.SizeLimit {
	var all []*elastallocv1.SizeLimit
	for _, nodeType := range w.Pool.TypeNames() {
		all = append(all, sizeLimitsOf(w, kept, decided, added, nodeType)...)
	}
	return all
}

// sizeLimitsOf returns the size limits of one node type.
func sizeLimitsOf(w *world.ClusterState, kept, decided []*world.Job, added int, nodeType string) []*elastallocv1.SizeLimit {
	occupied := make(map[string]int)
	for _, j := range kept {
		for node, units := range j.Kept {
			occupied[node] += units
		}
	}
	nodes := make([]placement.Node, 0, len(w.NodeStatuses)+added)
	for i := range w.NodeStatuses {
		s := &w.NodeStatuses[i]
		if nodeType != "" && s.Type != nodeType {
			continue
		}
		nodes = append(nodes, placement.Node{ // Each node is a block, because a pod lies on one node.
			ID: s.Node.Name, Block: s.Node.Name, Units: s.Size, Free: max(0, s.Free-occupied[s.Node.Name]),
		})
	}
	for i := range added {
		name := fmt.Sprint("added/", i) // No node has a name with a slash.
		nodes = append(nodes, placement.Node{ID: name, Block: name, Units: w.NodeSize(), Free: w.NodeSize()})
	}
	limits, err := placement.Limits(nodes, limitedSizes(decided))
	if err != nil {
		return nil // The nodes report more units than the API can express.
	}
	for _, limit := range limits {
		waits, inUse := 0, 0
		for _, j := range kept {
			if j.PerPod >= int(limit.GetSize()) && w.Typed(j) == nodeType {
				waits += j.UnplacedNodes()
			}
		}
		for _, j := range decided {
			if j.PerPod >= int(limit.GetSize()) && w.Typed(j) == nodeType {
				inUse += j.NodesInUse()
			}
		}
		limit.Nodes, limit.NodeType = int32(lessWaiting(int(limit.GetNodes()), waits, inUse)), nodeType
	}
	return limits
}

// setSizeLimits sets the size limits of the request, with some nodes that an autoscaler adds.
func (r *Request) setSizeLimits(w *world.ClusterState, added int) {
	snapshot := r.Allocate.GetSnapshot()
	snapshot.SizeLimits = sizeLimits(w, r.kept, r.Jobs, added)
	for _, limit := range snapshot.GetSizeLimits() {
		for _, j := range snapshot.GetJobs()[len(r.Jobs):] {
			limit.Nodes += counted(limit, j, j.GetCurrentNodes(), j.GetCurrentNodeType())
		}
	}
}

// maxSizeLimits is the maximum number of size limits of a request, as in the API.
const maxSizeLimits = 64

// CheckLimits returns an error if the request has more size limits than the API accepts. A pool without node types never
// has: each limit is at least twice as large as the one before.
func (r *Request) CheckLimits() error {
	snapshot := r.Allocate.GetSnapshot()
	n := len(snapshot.GetSizeLimits())
	if n <= maxSizeLimits {
		return nil
	}
	return fmt.Errorf("size limits: are %d for %d node types; must be at most %d: "+
		"use fewer node types, or let the pods of the pool's jobs request fewer different numbers of units",
		n, len(snapshot.GetNodeTypes()), maxSizeLimits)
}

// lessWaiting subtracts the nodes for which pods of omitted jobs wait from a total. These pods do not take
// nodes that are in use.
func lessWaiting(total, waits, inUse int) int {
	left := total - waits
	if left < inUse {
		left += min(waits, inUse-left)
	}
	return max(0, left)
}

// limitedSizes returns the numbers of units per pod of the jobs that divide all larger ones, ascending. For
// other sizes, a size limit would exclude allocations that can be placed: pods of 4 units fill a node of 8,
// although a node of 8 has room for only two pods of 3.
func limitedSizes(jobs []*world.Job) []int {
	var sizes, limited []int
	for _, j := range jobs {
		sizes = append(sizes, j.PerPod)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	for i, size := range sizes {
		if !slices.ContainsFunc(sizes[i:], func(larger int) bool { return larger%size != 0 }) {
			limited = append(limited, size)
		}
	}
	return limited
}

// exceeded returns the size limits that allocations exceed.
func exceeded(snapshot *elastallocv1.Snapshot, a Response) []*elastallocv1.SizeLimit {
	return slices.DeleteFunc(slices.Clone(snapshot.GetSizeLimits()), func(limit *elastallocv1.SizeLimit) bool {
		used := int64(0)
		for i, j := range snapshot.GetJobs() {
			on := a.GetAllocations()[i]
			used += int64(counted(limit, j, on.GetNodes(), on.GetNodeType()))
		}
		return used <= int64(limit.GetNodes())
	})
}

// counted returns how many of the nodes of a type that a job gets count in a size limit: all or none, because sizes
// are whole pods, and each pod is a piece.
func counted(limit *elastallocv1.SizeLimit, j *elastallocv1.Job, nodes int32, nodeType string) int32 {
	if limit.GetNodeType() != nodeType || j.GetPieceNodes() < limit.GetSize() {
		return 0
	}
	return nodes
}
