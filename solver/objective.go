package solver

// Objective is what a decision maximises. An objective is data: it fills in Gain and
// SizeValue of the jobs of a Problem, in a file of its own.
type Objective string

// The objectives.
const (
	// ObjectiveProgress is the paper's: the weighted training progress over the
	// horizon, see progress.go. Its unit is job shares times steps.
	ObjectiveProgress Objective = "progress"
	// ObjectiveTotalTime is the weighted total time that a decision saves, less what
	// its changes cost, see totaltime.go. Its unit is job-seconds saved per second. It
	// decides one step; the horizon is not used.
	ObjectiveTotalTime Objective = "total-time"
)
