package controller

// undecided is an ID that no decision has.
const undecided = "undecided"

// decision contains what a loop knows about its last decision.
type decision struct {
	// current is the ID of the last decision that was written completely, "" before the first one, and
	// undecided after a decision that was not written completely.
	current string
	settled string            // ID of the last decision that was applied or given up
	why     map[string]string // reasons for the resizes, by job ID
	// worthwhile is the number of nodes that are worth their price, in a pool that an autoscaler scales.
	worthwhile int
}

// settle records that a decision was applied or given up, and reports whether this was not recorded before.
func (d *decision) settle(id string) bool {
	settled := d.settled != id
	d.settled = id
	return settled
}
