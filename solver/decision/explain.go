package decision

// Why is the reason for the nodes of a job.
type Why string

// The reasons. Those of a job without nodes are its WaitReason.
const (
	// WhyLargest means that the job has its largest legal size, or the largest that fits
	// the pool.
	WhyLargest Why = "largest"
	// WhyEnough means that more nodes would bring nothing.
	WhyEnough Why = "enough"
	// WhyPricedOut means that more nodes are worth more elsewhere.
	WhyPricedOut Why = "priced-out"
	// WhyChangeCost means that a change of its nodes would cost more than it brings.
	WhyChangeCost Why = "change-cost"
	// WhyOnlySize means that the job has only this size.
	WhyOnlySize Why = "only-size"
	// WhyNoRoom means that no more nodes, or none, fit beside what other jobs must have.
	WhyNoRoom Why = "no-room"
	// WhyGroupLimit means that the limit of its group leaves the job no more.
	WhyGroupLimit Why = "group-limit"
	// WhySizeLimit means that a size limit, not the pool, leaves the job no more.
	WhySizeLimit Why = "size-limit"
)

// Explanation is a decision with its reasons.
type Explanation struct {
	// Decision is what Allocate decides. Its Report.Contradiction may also be that of a search
	// for reasons.
	Decision Decision
	// Jobs are those asked for, in the order of the snapshot.
	Jobs []JobExplanation
}

// JobExplanation is why a job gets its nodes.
type JobExplanation struct {
	JobID string
	Nodes int
	// Why is the reason; "" where none was found in time.
	Why Why
	// Text is the reason in a sentence for a person, with the numbers.
	Text string
	// Sizes are those that the admission allows the job and that fit beside what other
	// jobs must have, ascending, 0 included where it may wait; nil without admission.
	Sizes []SizeOption
	// Remedies give the job its next larger size or more: at most one of each kind, the
	// smallest.
	Remedies []Remedy
}

// SizeOption is a size that a job could hold from now on.
type SizeOption struct {
	// Nodes is the size, 0 for none.
	Nodes int
	// NodeType is the type of the nodes; "" where there are none of either.
	NodeType string
	// Loss is how much less the best plan is worth in which the job holds the size now, in
	// units of the objective; 0 for the size it gets.
	Loss float64
	// Proven says that both plans are proven optimal. If not, Loss is an estimate, by the
	// best plans found or by the prices of nodes.
	Proven bool
}

// Remedy is the smallest change of one kind that gives a job more nodes; a larger one may give
// it less. Of more than 256 jobs, or 256 more nodes, a smaller pool may do as well. One of
// Weight, TotalNodes and MinNodes is set.
type Remedy struct {
	// Weight is the job's, to 2 significant digits.
	Weight float64
	// TotalNodes are those of the pool, or of NodeType where there are node types.
	TotalNodes int
	NodeType   string
	// MinNodes is the job's.
	MinNodes int
	// Nodes are what the job then gets.
	Nodes int
	// NodesType is the type of Nodes, "" where the nodes are alike.
	NodesType string
}

// Limits of the changes that remedies are looked for among.
const (
	MaxRemedyWeight = 1000 // times the weight of the job
	MaxRemedyPool   = 2    // times the nodes of the pool
)
