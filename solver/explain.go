package solver

// Why is the reason why a job gets its number of nodes.
type Why string

// The reasons. A job without nodes has a WaitReason instead.
const (
	// WhyLargest means that the job gets its largest legal size or the largest that fits into the
	// pool.
	WhyLargest Why = "largest"
	// WhyEnough means that more nodes would not increase the objective.
	WhyEnough Why = "enough"
	// WhyPricedOut means that more nodes have a higher value for other jobs.
	WhyPricedOut Why = "priced-out"
	// WhyChangeCost means that a resize would cost more than it saves.
	WhyChangeCost Why = "change-cost"
	// WhyOnlySize means that the job has only this size.
	WhyOnlySize Why = "only-size"
	// WhyNoRoom means that the minimums of other jobs leave no more nodes.
	WhyNoRoom Why = "no-room"
	// WhyGroupLimit means that the limit of its group leaves no more nodes.
	WhyGroupLimit Why = "group-limit"
	// WhySizeLimit means that a size limit, not the pool, leaves no more nodes.
	WhySizeLimit Why = "size-limit"
	// WhyRestartBudget means that the job has used its restart budget, so that it neither grows nor
	// moves nor pauses.
	WhyRestartBudget Why = "restart-budget"
	// WhyKept means that the job keeps its nodes because of Job.Keep or BadJobsHold.
	WhyKept Why = "kept"
)

// Explanation is a decision with its reasons.
type Explanation struct {
	// Decision is the decision of Allocate. Its Report.Contradiction may also describe a
	// contradiction in the search for reasons.
	Decision Decision
	// Jobs are the explanations of the requested jobs, in the order of the snapshot.
	Jobs []JobExplanation
}

// JobExplanation is the reason why a job gets its number of nodes.
type JobExplanation struct {
	JobID string
	Nodes int
	// Why is the reason. "" means that none was found in time.
	Why Why
	// Text is the reason as a sentence with numbers.
	Text string
	// Sizes are the possible sizes of the job, ascending: they are legal, the admission allows them,
	// and they fit in addition to the minimums of other jobs. 0 is included if the job may wait.
	// Nil means that the job is not admitted.
	Sizes []SizeOption
	// Remedies are the smallest changes that give the job its next larger size or more, at most one
	// of each kind.
	Remedies []Remedy
}

// SizeOption is a possible size of a job.
type SizeOption struct {
	// Nodes is the size, 0 for none.
	Nodes int
	// NodeType is the type of the nodes. "" means no nodes or no node types.
	NodeType string
	// Loss is the loss of the best plan in which the job gets this size now, compared with the
	// decision, in units of the objective. It is 0 for the size of the decision.
	Loss float64
	// Proven reports that both plans are proven optimal. Otherwise, Loss is an estimate from the best
	// plans found or from the node prices.
	Proven bool
}

// Remedy is the smallest change of one kind that gives a job more nodes. A larger change may give it
// fewer nodes. With more than 256 jobs or more than 256 additional nodes, TotalNodes may not be the
// smallest. Exactly one of Weight, TotalNodes and MinNodes is set.
type Remedy struct {
	// Weight is the new weight of the job, rounded to 2 significant digits.
	Weight float64
	// TotalNodes is the new number of nodes of the pool, or of NodeType if there are node types.
	TotalNodes int
	NodeType   string
	// MachineNodes is the number of nodes of each machine that is added to the pool, and to all size
	// limits, if the snapshot has size limits. 0 means that any nodes are added.
	MachineNodes int
	// MinNodes is the new minimum of the job.
	MinNodes int
	// Nodes is the number of nodes that the job gets after the change.
	Nodes int
	// NodesType is the type of Nodes. "" means that all nodes are alike.
	NodesType string
}

// Limits of the changes that the search for remedies tries.
const (
	MaxRemedyWeight = 1000 // times the weight of the job
	MaxRemedyPool   = 2    // times the nodes of the pool
)
