package solver

import "cmp"

// Option is a possible allocation of a job in a step: a number of nodes of one node type. The zero value
// means no nodes. Options are comparable with ==.
type Option struct {
	// Type is the position of the node type in Snapshot.NodeTypes. It is 0 if all nodes are
	// alike, and if Nodes is 0.
	Type int32
	// Nodes is the number of nodes, 0 to MaxNodes.
	Nodes int32
}

// NewOption returns the option with nodes of the type at a position in Snapshot.NodeTypes. The type is
// ignored for 0 nodes.
func NewOption(nodeType, nodes int) Option {
	if nodes == 0 {
		return Option{}
	}
	return Option{Type: int32(nodeType), Nodes: int32(nodes)}
}

// IsZero reports whether the option has no nodes.
func (o Option) IsZero() bool { return o.Nodes == 0 }

// Compare orders options by type, then by number of nodes. It returns -1, 0 or 1.
func (o Option) Compare(other Option) int {
	return cmp.Compare(o.rank(), other.rank())
}

// Less reports whether Compare returns -1.
func (o Option) Less(other Option) bool { return o.rank() < other.rank() }

// rank returns a number that sorts options in the order of Compare.
func (o Option) rank() int64 { return int64(o.Type)<<32 | int64(uint32(o.Nodes)) }

// MovesFrom reports whether the change from the current option to this one changes the node type. Starts
// and pauses are not moves.
func (o Option) MovesFrom(current Option) bool {
	return o.Nodes > 0 && current.Nodes > 0 && o.Type != current.Type
}

// Nodes returns one option per number of nodes, for a pool in which all nodes are alike.
func Nodes(nodes ...int) []Option {
	options := make([]Option, len(nodes))
	for n, k := range nodes {
		options[n] = NewOption(0, k)
	}
	return options
}
