package solver

// WarningCode identifies the type of a warning.
type WarningCode string

// The warnings.
const (
	// WarningNeverFits means that a job's smallest size exceeds the pool.
	WarningNeverFits WarningCode = "never-fits"
	// WarningIdleWithQueue means that nodes are idle although a job is waiting whose smallest size
	// does not exceed the pool.
	WarningIdleWithQueue WarningCode = "idle-with-queue"
	// WarningEmptyPool means that there are jobs but no nodes.
	WarningEmptyPool WarningCode = "empty-pool"
	// WarningBadJobHeld means that a job with invalid fields is frozen and keeps its nodes.
	WarningBadJobHeld WarningCode = "bad-job-held"
	// WarningLoadShedToGreedy means that no search was made because of load.
	WarningLoadShedToGreedy WarningCode = "load-shed-to-greedy"
	// WarningQuotasExceedPool means that the sum of the quotas of all groups exceeds the pool.
	WarningQuotasExceedPool WarningCode = "quotas-exceed-pool"
	// WarningOptionsIgnored means that options have no effect because of another option.
	WarningOptionsIgnored WarningCode = "options-ignored"
	// WarningETARanOut means that the remaining ETA of a job was replaced with a quarter of the work
	// done, because it is smaller, or that the job has done at least twice its estimated work.
	WarningETARanOut WarningCode = "eta-ran-out"
	// WarningManyPauses means that more than a quarter of the running jobs pause at once.
	WarningManyPauses WarningCode = "many-pauses"
	// WarningSizesNotNested means that the snapshot has size limits and the pieces of the jobs do not
	// divide each other. The limits then do not guarantee a placement.
	WarningSizesNotNested WarningCode = "sizes-not-nested"
	// WarningSizeLimitsKept means that a scenario changes the number of nodes and not the size limits.
	WarningSizeLimitsKept WarningCode = "size-limits-kept"
	// WarningLongWait means that a job that fits the pool has waited for at least LongWait without
	// nodes, under an admission that does not start jobs in order.
	WarningLongWait WarningCode = "long-wait"
)

// LongWait is the waiting time from which WarningLongWait names a job, three times DefaultAging.
const LongWait = 3 * DefaultAging

// Warning is a warning about a decision for operators.
type Warning struct {
	Code WarningCode
	// JobID is the id of the affected job. "" means that the warning concerns no single job.
	JobID string
	// Message is the warning as a sentence.
	Message string
}
