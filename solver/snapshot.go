package solver

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// Defaults of optional fields, which WithDefaults sets.
const (
	DefaultStep               = 300 * time.Second
	DefaultSteps              = 5
	DefaultMinNodes           = 1
	DefaultMaxNodes           = 16
	DefaultDoublingEfficiency = 0.8
	DefaultWeight             = 1.0
)

// Limits of a snapshot. Validate reports fields that exceed them.
const (
	MaxSteps       = 24            // steps of a horizon
	MaxSizes       = 32            // legal sizes of a job
	MaxWeight      = 1e12          // weight of a job, see Job.Weight
	MaxSpeed       = 1e9           // measured speed relative to one node
	MaxNodes       = math.MaxInt32 // nodes of the pool or of a job
	DefaultMaxJobs = 100_000       // jobs of a snapshot
	MaxGroups      = 10_000        // groups of a snapshot
	MaxNodeTypes   = 8             // node types of a snapshot
	MaxSizeLimits  = 64            // size limits of a snapshot
	MaxIDBytes     = 256           // bytes of an id or a name
	MaxGroupDepth  = 4             // groups on the path from a root group to a job
	MaxETAError    = 5             // standard deviation of the logarithm of an error

	// MaxRecentRestarts is the maximum length of Job.RecentRestarts, and the restart budget of a job.
	MaxRecentRestarts = 3
)

// maxCountedWeight is the largest weight that counts. Beyond it, the values of other jobs would vanish
// in the relative gap at which a plan counts as optimal.
const maxCountedWeight = 1e9

// Snapshot is the state of the resource pool and its jobs at the decision time. In a snapshot that is
// passed to an allocator, the zero value of an optional field means its default. All other functions
// need a snapshot with its defaults, see WithDefaults.
type Snapshot struct {
	// ID is the name of the snapshot in reports. It may be empty.
	ID string
	// TotalNodes is the number of nodes in the pool, N in the paper. At least 0. With node types, it
	// is their sum, and 0 means the sum.
	TotalNodes int
	// Horizon is the look-ahead of the decision.
	Horizon Horizon
	// Jobs are all active jobs. Queued jobs are in the order of the queue.
	Jobs []Job
	// Groups are the teams that share the pool, see groups.go. Nil means none.
	Groups []Group
	// NodeTypes are the types of the nodes in the pool, see nodetypes.go. Nil means that all nodes
	// are alike.
	NodeTypes []NodeType
	// SizeLimits limit the total number of nodes of large allocations, see sizelimits.go. Nil means
	// no such limits.
	SizeLimits []SizeLimit
}

// Horizon is the look-ahead of the rolling-horizon model.
type Horizon struct {
	// Step is the length of one step, the elastic training frequency f.
	Step time.Duration
	// Steps is the number of steps, 1 to MaxSteps.
	Steps int
}

// DefaultHorizon returns the horizon of the paper: 5 steps of 5 minutes.
func DefaultHorizon() Horizon { return Horizon{Step: DefaultStep, Steps: DefaultSteps} }

// WithDefaults returns the snapshot with the defaults of all fields that are not set. Without node
// types, it removes Job.Speeds. It returns s itself if nothing changes, and otherwise a copy.
func (s *Snapshot) WithDefaults() *Snapshot {
	filled := *s
	filled.Horizon.Step = cmp.Or(s.Horizon.Step, DefaultStep)
	filled.Horizon.Steps = cmp.Or(s.Horizon.Steps, DefaultSteps)
	filled.fillNodeTypes()
	copied := false
	for i := range s.Jobs {
		if s.Jobs[i].hasDefaults(len(s.NodeTypes) > 0) {
			continue
		}
		if !copied {
			filled.Jobs, copied = slices.Clone(s.Jobs), true
		}
		filled.Jobs[i].fillDefaults(len(s.NodeTypes) > 0)
	}
	if !copied && filled.Horizon == s.Horizon && len(s.NodeTypes) == 0 {
		return s
	}
	return &filled
}

// Job is one elastic training job, running or queued.
type Job struct {
	// ID is unique in the snapshot and not empty.
	ID string
	// RemainingETA is the estimated remaining run time on ETANodes nodes. Greater than 0.
	RemainingETA time.Duration
	// ETANodes is the number of nodes on which RemainingETA is measured. 0 means one node. With a
	// speed table, it is within the range of the table.
	ETANodes int
	// MinNodes and MaxNodes are the range of legal sizes. A MinNodes of 0 means 1. A MaxNodes of 0
	// means the largest of AllowedNodes, or 16 without AllowedNodes. It is at least the largest
	// size that Speeds allow.
	MinNodes, MaxNodes int
	// CurrentNodes is the number of nodes that the job occupies now. 0 means that it is queued. It
	// need not be a legal size, and the sum over all jobs may exceed the pool.
	CurrentNodes int
	// TrainingTime is the time for which the job has trained so far.
	TrainingTime time.Duration
	// AllowedNodes are the legal sizes, ascending and unique. Sizes outside [MinNodes, MaxNodes] are
	// ignored. Nil means the powers of two in this range, or MinNodes if MinNodes equals MaxNodes.
	AllowedNodes []int
	// Scaling is the training speed by number of nodes.
	Scaling Scaling
	// Weight is the factor of the job in the objective. 0 to MaxWeight, of which values above 1e9 count
	// as 1e9. Nil means 1.
	Weight *float64
	// ResizeDelay is the time for which a started or scaled-up job stays on its current nodes in
	// the first step. Scaling down is free. ObjectiveTotalTime ignores it.
	ResizeDelay time.Duration
	// RestartTime is the time without progress if a running job is resized or a paused job resumes:
	// from the end of the last step on the old nodes to the beginning of the first step on the new
	// ones, including the save of a checkpoint and the exit of the old processes.
	// It cannot be combined with ResizeDelay. 0 means that it is unknown, and costs nothing.
	RestartTime time.Duration
	// FreeResizes states that RestartTime is known to be 0. ETAError then has no minimum.
	FreeResizes bool
	// RecentRestarts has, for each of the last restarts of the job, newest first, the time with nodes
	// since then. A restart is a resize, a move or a resume, but not the first start. At most
	// MaxRecentRestarts, ascending. Nil means that the job has no restart budget.
	RecentRestarts []time.Duration
	// WaitingTime is the time without nodes since the submission of the job, including
	// pauses. ObjectiveTotalTime uses it for aging.
	WaitingTime time.Duration
	// ETAError is the standard deviation of the logarithm of the actual remaining time divided by
	// RemainingETA. 0 to MaxETAError. Nil means TotalTimeOptions.ETAError.
	ETAError *float64
	// WorkDone is the work done so far, as run time on one node. The demand is at least a quarter of
	// it: under ObjectiveProgress of every job, under ObjectiveTotalTime of jobs with an Overrun of at
	// least 1.
	WorkDone time.Duration
	// GroupID is the id of the group of the job. It is required if the snapshot has groups.
	GroupID string
	// CurrentNodeType is the node type of CurrentNodes. ETANodeType is the node type on which
	// RemainingETA is measured, "" for the reference node. Both apply if the snapshot has node types.
	CurrentNodeType, ETANodeType string
	// Speeds has one entry per node type that the job can run on. Nil means that it can run on all
	// types at NodeType.Speed.
	Speeds []TypeSpeed
	// MoveTime is the restart time if the node type changes. Nil means RestartTime.
	MoveTime *time.Duration
	// Overrun is the work done divided by the estimated total work. From 1 on, the job is past its
	// estimate, see WorkDone. From 2 on, a warning names the job.
	Overrun float64
	// PieceNodes is the number of nodes of an allocation that must be placed together, for
	// SizeLimits. 0 means the whole allocation.
	PieceNodes int
	// Keep states that the job keeps CurrentNodes and is not decided. Only ID, GroupID, CurrentNodes,
	// CurrentNodeType and PieceNodes are read. GroupID may be empty.
	Keep bool
	// Bad are violations that a Job cannot represent. The code that converts another format to a Job
	// sets them, and Validate reports them. Their paths are relative to the job.
	Bad []Violation
}

// NewJob returns a queued job with every optional field at its default.
func NewJob(id string, remainingETA time.Duration) Job {
	return Job{
		ID:           id,
		RemainingETA: remainingETA,
		MinNodes:     DefaultMinNodes,
		MaxNodes:     DefaultMaxNodes,
		Scaling:      Scaling{DoublingEfficiency: DefaultDoublingEfficiency},
	}
}

// hasDefaults reports whether fillDefaults would not change the job.
func (j *Job) hasDefaults(types bool) bool {
	return (types || j.Speeds == nil) && j.MinNodes != 0 && j.MaxNodes != 0 && j.Scaling.isSet()
}

// fillDefaults sets the defaults of all fields that are not set. Without node types, it removes Speeds.
func (j *Job) fillDefaults(types bool) {
	if !types {
		j.Speeds = nil
	}
	j.MinNodes = cmp.Or(j.MinNodes, DefaultMinNodes)
	if j.MaxNodes == 0 {
		j.MaxNodes = DefaultMaxNodes
		if len(j.AllowedNodes) > 0 {
			j.MaxNodes = slices.Max(j.AllowedNodes)
		}
		for _, s := range j.Speeds {
			if len(s.AllowedNodes) > 0 {
				j.MaxNodes = max(j.MaxNodes, slices.Max(s.AllowedNodes))
			}
		}
	}
	if !j.Scaling.isSet() {
		j.Scaling.DoublingEfficiency = DefaultDoublingEfficiency
	}
}

// WeightOrDefault returns the weight with which the job counts, DefaultWeight if it is not set.
func (j *Job) WeightOrDefault() float64 {
	return min(ValueOr(j.Weight, DefaultWeight), maxCountedWeight)
}

// Queued reports whether the job occupies no nodes.
func (j *Job) Queued() bool { return j.CurrentNodes == 0 }

// NeverStarted reports whether the job is queued and has not trained yet.
func (j *Job) NeverStarted() bool { return j.CurrentNodes == 0 && j.TrainingTime == 0 }

// smallestSize returns the smallest legal size of a valid job.
func (j *Job) smallestSize() int { return smallestSize(j.AllowedNodes, j.MinNodes, j.MaxNodes) }

// smallestSize returns the first of legalSizes, which must not be empty.
func smallestSize(allowed []int, smallest, largest int) int {
	if allowed == nil && smallest == largest {
		return smallest
	}
	if allowed == nil {
		return 1 << bits.Len(uint(smallest-1))
	}
	first, _ := slices.BinarySearch(allowed, smallest)
	return allowed[first]
}

// Demand returns the remaining run time on one node in seconds, d_i in the paper.
func (j *Job) Demand() float64 {
	if j.ETANodes == 0 {
		return j.RemainingETA.Seconds()
	}
	return j.RemainingETA.Seconds() * j.SpeedAt(float64(j.ETANodes))
}

// LegalSizes returns the sizes at which the job can train, ascending: AllowedNodes or their default,
// restricted to [MinNodes, MaxNodes]. Validate reports a job without legal sizes.
func (j *Job) LegalSizes() []int { return legalSizes(nil, j.AllowedNodes, j.MinNodes, j.MaxNodes) }

// legalSizes appends the legal sizes for the given AllowedNodes, MinNodes and MaxNodes.
func legalSizes(sizes, allowed []int, smallest, largest int) []int {
	if allowed == nil && smallest == largest {
		return append(sizes, smallest)
	}
	if allowed == nil {
		sizes = slices.Grow(sizes, bits.Len(uint(max(0, largest))))
		for k := 1; k <= largest; k *= 2 {
			if k >= smallest {
				sizes = append(sizes, k)
			}
			if k > largest/2 {
				break // doubling could overflow
			}
		}
		return sizes
	}
	sizes = slices.Grow(sizes, len(allowed))
	for _, k := range allowed {
		if k >= smallest && k <= largest {
			sizes = append(sizes, k)
		}
	}
	return sizes
}

// Scaling is the training speed by number of nodes, relative to one node. If Speeds is not set,
// DoublingEfficiency applies.
type Scaling struct {
	// DoublingEfficiency is e in speed(k) = k * e^log2(k): each doubling of the nodes multiplies the
	// speed by 2e. Greater than 0 and at most 1. The paper measured 0.8.
	DoublingEfficiency float64
	// Speeds is a table of measured speeds, one per entry of AllowedNodes or one per legal size.
	Speeds []float64
}

// isSet reports whether any field is set.
func (s *Scaling) isSet() bool { return s.Speeds != nil || s.DoublingEfficiency != 0 }

// Speed returns the training speed on the given nodes relative to one node, 0 for no nodes. With a speed
// table, it returns the speed of the largest measured size that does not exceed nodes, because a job
// can leave nodes unused. Below the smallest measured size, it returns 0.
func (j *Job) Speed(nodes int) float64 {
	if j.Scaling.Speeds == nil {
		return j.SpeedAt(float64(nodes))
	}
	sizes := j.tabledSizes()
	above := sort.SearchInts(sizes, nodes+1)
	if above == 0 {
		return 0
	}
	return j.Scaling.Speeds[above-1]
}

// SpeedAt returns the training speed on the given nodes relative to one node, 0 for no nodes. nodes need
// not be a whole number. With a speed table, the speed is interpolated on a log-log scale. Outside the
// table, it is the speed of the nearest size.
func (j *Job) SpeedAt(nodes float64) float64 {
	if nodes <= 0 {
		return 0
	}
	if j.Scaling.Speeds == nil {
		return nodes * math.Pow(j.Scaling.DoublingEfficiency, math.Log2(nodes))
	}
	sizes, speeds := j.tabledSizes(), j.Scaling.Speeds
	above := sort.Search(len(sizes), func(n int) bool { return float64(sizes[n]) >= nodes })
	switch {
	case above == len(sizes):
		return speeds[len(speeds)-1]
	case above == 0 || float64(sizes[above]) == nodes:
		return speeds[above]
	}
	from, to := float64(sizes[above-1]), float64(sizes[above])
	share := math.Log(nodes/from) / math.Log(to/from)
	// A power of the quotient of the speeds could overflow.
	return math.Pow(speeds[above-1], 1-share) * math.Pow(speeds[above], share)
}

// tabledSizes returns the sizes of the speeds in Scaling.Speeds.
func (j *Job) tabledSizes() []int {
	if j.AllowedNodes != nil && len(j.Scaling.Speeds) == len(j.AllowedNodes) {
		return j.AllowedNodes
	}
	return j.LegalSizes()
}

// ValueOr returns the value of an optional field, or fallback if it is nil.
func ValueOr[T any](field *T, fallback T) T {
	if field == nil {
		return fallback
	}
	return *field
}
