package solver

import "fmt"

// SizeLimit bounds the nodes that large allocations occupy together. The piece of an
// allocation of k nodes is min(k, Job.PieceNodes), or k if that is 0.
type SizeLimit struct {
	// Size is the smallest piece whose allocation counts. At least 2.
	Size int
	// Nodes is the maximum number of nodes of all allocations that count. At least 0.
	Nodes int
	// NodeType is the type whose allocations count; "" if all nodes are alike.
	NodeType string
}

// CountedNodes returns how many nodes of a type that job i occupies count in a size limit: all of them or
// none.
func (s *Snapshot) CountedNodes(limit *SizeLimit, i int, nodeType string, nodes int) int {
	elsewhere := len(s.NodeTypes) > 0 && s.TypeIndex(nodeType) != s.typeOf(limit)
	if elsewhere || s.Jobs[i].Piece(nodes) < limit.Size {
		return 0
	}
	return nodes
}

// typeOf returns the position of the node type of a size limit, 0 if all nodes are alike.
func (s *Snapshot) typeOf(limit *SizeLimit) int {
	if !s.Typed() {
		return 0
	}
	return s.TypeIndex(limit.NodeType)
}

// Piece returns the piece of an allocation of the job.
func (j *Job) Piece(nodes int) int { return piece(nodes, j.PieceNodes) }

// validateSizeLimits reports the bad fields of the size limits.
func (s *Snapshot) validateSizeLimits(bad *Violations) {
	if len(s.SizeLimits) == 0 {
		return
	}
	type key struct{ size, nodeType int }
	first := make(map[key]int, len(s.SizeLimits))
	for n, limit := range s.SizeLimits {
		path := fmt.Sprintf("size_limits[%d]", n)
		if limit.Size < 2 || limit.Size > MaxNodes {
			bad.Addf(path+".size", "is %d; must be 2 to %d", limit.Size, MaxNodes)
		}
		if limit.Nodes < 0 || limit.Nodes > MaxNodes {
			bad.Addf(path+".nodes", "is %d; must be 0 to %d", limit.Nodes, MaxNodes)
		}
		g := 0
		switch {
		case limit.NodeType == "" && !s.Typed():
		case limit.NodeType == "":
			bad.Addf(path+".node_type", "is empty; must be one of the node types, because the snapshot has several")
			continue
		case len(s.NodeTypes) == 0:
			bad.Addf(path+".node_type", "is %q; must be empty, because the snapshot has no node types", limit.NodeType)
			continue
		default:
			if g = s.checkNodeType(path+".node_type", limit.NodeType, bad); g < 0 {
				continue
			}
		}
		k := key{limit.Size, g}
		if other, seen := first[k]; seen {
			bad.Addf(path+".size", "is %d like size_limits[%d].size; must be unique per node type", limit.Size, other)
			continue
		}
		first[k] = n
	}
}
