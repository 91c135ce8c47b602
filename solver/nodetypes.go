package solver

// DefaultNodeSpeed is that of a node type that names none.
const DefaultNodeSpeed = 1.0

// NodeType is a kind of nodes.
type NodeType struct {
	// ID is unique in the snapshot and not empty.
	ID string
	// Nodes is the number of nodes of this type in the pool, at least 0.
	Nodes int
	// Speed is that of one node relative to the reference node that Job.RemainingETA is
	// measured on; 0 means 1.
	Speed float64
}

// TypeSpeed is how fast a job trains on nodes of one type.
type TypeSpeed struct {
	// NodeType is the id of the type.
	NodeType string
	// Factor is the speed on one node relative to the reference node; 0 means NodeType.Speed.
	Factor float64
	// Scaling is the training speed against nodes of this type, relative to one of them. Its
	// zero value means that of the job.
	Scaling Scaling
	// AllowedNodes are the legal sizes on this type; nil means those of the job.
	AllowedNodes []int
}

// NodeTypeReport is what a decision means for a node type.
type NodeTypeReport struct {
	ID string
	// Nodes are those of the type in the pool, IdleNodes those of them left unallocated.
	Nodes, IdleNodes int
	// Price is what one more node is worth, in units of the objective; 0 where no search was
	// made.
	Price float64
}
