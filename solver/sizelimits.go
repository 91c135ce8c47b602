package solver

import "fmt"

// SizeLimit bounds the nodes that large pieces of allocations occupy together, see Job.Pieces.
type SizeLimit struct {
	// Size is the smallest piece that counts. At least 2.
	Size int
	// Nodes is the maximum number of nodes of all pieces that count. At least 0.
	Nodes int
	// NodeType is the type whose pieces count; "" if all nodes are alike.
	NodeType string
}

// CountedNodes returns how many nodes of a type that job i occupies count in a size limit.
func (s *Snapshot) CountedNodes(limit *SizeLimit, i int, nodeType string, nodes int) int {
	elsewhere := len(s.NodeTypes) > 0 && s.TypeIndex(nodeType) != s.typeOf(limit)
	if elsewhere {
		return 0
	}
	return countedNodes(nodes, s.Jobs[i].PieceNodes, limit.Size)
}

// typeOf returns the position of the node type of a size limit, 0 if all nodes are alike.
func (s *Snapshot) typeOf(limit *SizeLimit) int {
	if !s.Typed() {
		return 0
	}
	return s.TypeIndex(limit.NodeType)
}

// Pieces returns the sizes of the pieces of an allocation of the job: as many of PieceNodes as fit into it, and
// the remainder. Without PieceNodes, the allocation is one piece. remainder is 0 if there is none.
func (j *Job) Pieces(nodes int) (largest, remainder int) {
	largest = largestPiece(nodes, j.PieceNodes)
	if largest > 0 {
		remainder = nodes % largest
	}
	return largest, remainder
}

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
