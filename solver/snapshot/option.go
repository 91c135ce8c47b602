package snapshot

import "cmp"

// Option is what a job may hold in a step: a number of nodes of one node type. The zero value
// is no nodes. Two options are equal if and only if a job holds the same with both.
type Option struct {
	// Type is the position of the node type in Snapshot.NodeTypes. It is 0 if all nodes are
	// alike, and if Nodes is 0.
	Type int32
	// Nodes is the number of nodes, 0 to MaxNodes.
	Nodes int32
}

// NewOption returns the option to hold nodes of the type at a position in
// Snapshot.NodeTypes, which is ignored for 0 nodes.
func NewOption(nodeType, nodes int) Option {
	if nodes == 0 {
		return Option{}
	}
	return Option{Type: int32(nodeType), Nodes: int32(nodes)}
}

// IsZero reports whether the option is no nodes.
func (o Option) IsZero() bool { return o.Nodes == 0 }

// Compare orders options by type, then by number of nodes. It returns -1, 0 or 1.
func (o Option) Compare(other Option) int {
	return cmp.Compare(o.rank(), other.rank())
}

// Less reports whether the option comes before the other one in the order of Compare.
func (o Option) Less(other Option) bool { return o.rank() < other.rank() }

// rank returns a number by which options are in the order of Compare.
func (o Option) rank() int64 { return int64(o.Type)<<32 | int64(uint32(o.Nodes)) }

// MovesFrom reports whether a job that held the other option changes its node type with
// this one. A start and a pause are no moves.
func (o Option) MovesFrom(held Option) bool {
	return o.Nodes > 0 && held.Nodes > 0 && o.Type != held.Type
}

// Nodes returns one option per number of nodes, in a pool whose nodes are all alike.
func Nodes(nodes ...int) []Option {
	options := make([]Option, len(nodes))
	for n, k := range nodes {
		options[n] = NewOption(0, k)
	}
	return options
}
