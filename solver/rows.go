package solver

import (
	"cmp"
	"slices"
)

// Row bounds the nodes of the options that count in it: it is the capacity of a node type or a size
// limit. An option counts in the rows of its type whose size is at most its largest piece, with all of its
// pieces of at least this size. Thus all of its nodes count in the capacity, which has size 1, and what counts
// in a row counts in all rows of smaller sizes.
type Row struct {
	// Type is the position of the node type in Snapshot.NodeTypes, 0 if all nodes are alike.
	Type int
	// Size is the smallest piece that counts.
	Size int
	// Nodes is the maximum number of nodes of the options that count.
	Nodes int
	// Limit is the position in Snapshot.SizeLimits, -1 for a capacity.
	Limit int
}

// Rows are the rows of all node types, ordered by type and size.
type Rows []Row

// PoolRow returns the only row of a pool of identical nodes without size limits.
func PoolRow(nodes int) Rows { return Rows{{Size: 1, Nodes: nodes, Limit: -1}} }

// Rows returns the rows of a snapshot, nil if PoolRow is the only one.
func (s *Snapshot) Rows() Rows {
	if !s.Typed() && len(s.SizeLimits) == 0 {
		return nil
	}
	rows := PoolRow(s.TotalNodes)
	if s.Typed() {
		rows = rows[:0]
		for g := range s.NodeTypes {
			rows = append(rows, Row{Type: g, Size: 1, Nodes: s.NodeTypes[g].Nodes, Limit: -1})
		}
	}
	for n := range s.SizeLimits {
		limit := &s.SizeLimits[n]
		rows = append(rows, Row{Type: s.typeOf(limit), Size: limit.Size, Nodes: limit.Nodes, Limit: n})
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Size, b.Size)) })
	return rows
}

// Typed reports whether there are rows of several node types.
func (rows Rows) Typed() bool { return len(rows) > 0 && rows[len(rows)-1].Type > 0 }

// Of returns the rows of a node type. They share memory with rows.
func (rows Rows) Of(nodeType int) Rows {
	if !rows.Typed() {
		return rows
	}
	first := 0
	for rows[first].Type < nodeType {
		first++
	}
	end := first + 1
	for end < len(rows) && rows[end].Type == nodeType {
		end++
	}
	return rows[first:end]
}

// Counting returns the rows in which an option of a job counts: none if it has no nodes. They share
// memory with rows. pieceNodes is Job.PieceNodes.
func (rows Rows) Counting(option Option, pieceNodes int) Rows {
	if option.IsZero() {
		return nil
	}
	rows = rows.Of(int(option.Type))
	end := 1
	for end < len(rows) && rows[end].Size <= largestPiece(int(option.Nodes), pieceNodes) {
		end++
	}
	return rows[:end]
}

// Count returns the number of nodes of an option of the row's type that count in the row. pieceNodes is
// Job.PieceNodes.
func (row *Row) Count(option Option, pieceNodes int) int {
	return countedNodes(int(option.Nodes), pieceNodes, row.Size)
}

// Fit reports whether an option of a job fits into the nodes of all rows in which it counts.
func (rows Rows) Fit(option Option, pieceNodes int) bool {
	for _, row := range rows.Counting(option, pieceNodes) {
		if row.Count(option, pieceNodes) > row.Nodes {
			return false
		}
	}
	return true
}

// FitsRows reports whether the smallest size of job i fits into the given rows on any node type. Nil rows
// mean the pool.
func (s *Snapshot) FitsRows(i int, rows Rows) bool {
	if rows == nil {
		return s.Fits(i)
	}
	return slices.ContainsFunc(s.Places(i, nil), func(l Place) bool {
		return rows.Fit(NewOption(l.Type, l.Smallest()), s.Jobs[i].PieceNodes)
	})
}

// largestPiece returns the largest piece of an allocation. pieceNodes is Job.PieceNodes.
func largestPiece(nodes, pieceNodes int) int {
	if pieceNodes <= 0 {
		return nodes
	}
	return min(nodes, pieceNodes)
}

// countedNodes returns the number of nodes of an allocation in pieces of at least the given size. It never
// decreases with the nodes.
func countedNodes(nodes, pieceNodes, size int) int {
	largest := largestPiece(nodes, pieceNodes)
	switch {
	case largest < size || nodes == 0:
		return 0
	case largest == nodes:
		return nodes
	}
	if remainder := nodes % largest; remainder < size {
		return nodes - remainder
	}
	return nodes
}
