package solver

// Certificate leads a checker that shares no code with the search to the proof that the
// search found. None of its numbers need be trusted: any prices give a valid bound.
//
// In a Result its jobs are those of the Problem, in a Report those of the Snapshot, both by
// position.
type Certificate struct {
	// Leaves are those of branch and bound; together they hold every plan. Without any,
	// there is one without restrictions, at Result.NodePrices.
	Leaves []Leaf
}

// Leaf is the plans that keep to its restrictions, and the prices that bound them.
type Leaf struct {
	// Restrictions are at most one for each job and step; the other steps allow every size.
	Restrictions []Restriction
	// NodePrices are what a node costs per step; nil means Result.NodePrices.
	NodePrices []float64
	// SizePrices are of those jobs that pay for sizes and not for nodes.
	SizePrices []SizePrices
}

// Restriction is what a leaf leaves a job in one step.
type Restriction struct {
	Job, Step int
	// Nodes are the sizes left, ascending.
	Nodes []int
}

// SizePrices are what the sizes of one job cost.
type SizePrices struct {
	Job int
	// Prices are one per step and one of AdmittedJob.Sizes, row by row, in units of the
	// objective and of either sign.
	Prices []float64
}

// renamed returns the certificate with the position of every job replaced; nil stays nil.
func (c *Certificate) renamed(to func(job int) int) *Certificate {
	if c == nil {
		return nil
	}
	renamed := &Certificate{Leaves: make([]Leaf, len(c.Leaves))}
	for n, leaf := range c.Leaves {
		restrictions := make([]Restriction, len(leaf.Restrictions))
		for i, r := range leaf.Restrictions {
			restrictions[i] = Restriction{Job: to(r.Job), Step: r.Step, Nodes: r.Nodes}
		}
		prices := make([]SizePrices, len(leaf.SizePrices))
		for i, p := range leaf.SizePrices {
			prices[i] = SizePrices{Job: to(p.Job), Prices: p.Prices}
		}
		renamed.Leaves[n] = Leaf{Restrictions: restrictions, NodePrices: leaf.NodePrices, SizePrices: prices}
	}
	return renamed
}
