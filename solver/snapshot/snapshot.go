package snapshot

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// Defaults of the fields that a caller may leave unset; WithDefaults fills them in.
const (
	DefaultStep               = 300 * time.Second
	DefaultSteps              = 5
	DefaultMinNodes           = 1
	DefaultMaxNodes           = 16
	DefaultDoublingEfficiency = 0.8
	DefaultWeight             = 1.0
)

// Limits of a snapshot; Validate reports what exceeds them.
const (
	MaxSteps       = 24            // steps of a horizon
	MaxSizes       = 32            // legal sizes of a job
	MaxWeight      = 1e12          // weight of a job
	MaxSpeed       = 1e9           // measured speed relative to one node
	MaxNodes       = math.MaxInt32 // nodes of the pool, and those of a job
	DefaultMaxJobs = 100_000       // jobs of a snapshot
	MaxGroups      = 10_000        // groups of a snapshot
	MaxNodeTypes   = 8             // node types of a snapshot
	MaxSizeLimits  = 64            // size limits of a snapshot
	MaxIDBytes     = 256           // an id or a name
	MaxGroupDepth  = 4             // groups on the way from one without a parent to a job
	MaxETAError    = 5             // standard deviation of the logarithm of an error
)

// Snapshot is the state of the resource pool and its jobs at one moment. In a
// snapshot given to an allocator, the zero value of a field that has a default means that
// default. Everything below the allocator takes snapshots with defaults filled in.
type Snapshot struct {
	// ID names the snapshot in reports; it may be empty.
	ID string
	// TotalNodes is the number of nodes in the pool, the paper's N. At least 0.
	TotalNodes int
	// Horizon is how far a decision looks ahead.
	Horizon Horizon
	// Jobs are all active jobs. Queued jobs stand in queue order.
	Jobs []Job
	// Groups are the teams that share the pool, see groups.go; nil means none.
	Groups []Group
	// NodeTypes are the kinds of nodes that the pool consists of, see nodetypes.go; nil means
	// that all nodes are alike. TotalNodes is then their sum, or 0, which means that.
	NodeTypes []NodeType
	// SizeLimits bound what large allocations occupy together, see sizelimits.go; nil means
	// that only the pool does.
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

// WithDefaults returns the snapshot with every field that is not set at its default, and no
// TypeSpeeds where it has no node types: s itself where nothing changes, a copy otherwise.
func (s *Snapshot) WithDefaults() *Snapshot {
	filled := *s
	filled.Horizon.Step = cmp.Or(s.Horizon.Step, DefaultStep)
	filled.Horizon.Steps = cmp.Or(s.Horizon.Steps, DefaultSteps)
	filled.fillNodeTypes()
	copied := false
	for i := range s.Jobs {
		job, missing := s.Jobs[i].withDefaults(len(s.NodeTypes) > 0)
		if !missing {
			continue
		}
		if !copied {
			filled.Jobs, copied = slices.Clone(s.Jobs), true
		}
		filled.Jobs[i] = job
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
	// RemainingETA is the run time left on ETANodes nodes.
	RemainingETA time.Duration
	// ETANodes is the number of nodes that RemainingETA is measured on; 0 means one
	// node. With a speed table it lies within the table.
	ETANodes int
	// MinNodes and MaxNodes are the range the job may scale in. 0 means 1 and the
	// largest of AllowedNodes, or 16 where there are none, and at least the largest that
	// Speeds allow.
	MinNodes, MaxNodes int
	// CurrentNodes is what the job holds now, 0 = queued. It need not be legal, and the sum
	// over the jobs may exceed the pool.
	CurrentNodes int
	// TrainingTime is how long the job has trained so far.
	TrainingTime time.Duration
	// AllowedNodes are the legal sizes, ascending and unique; those outside
	// [MinNodes, MaxNodes] are not used. Nil means the powers of two, or exactly
	// MinNodes where the two ends of the range are equal.
	AllowedNodes []int
	// Scaling is the training speed against nodes.
	Scaling Scaling
	// Weight is the factor on the job's progress in the objective; nil means 1.
	Weight *float64
	// RescaleDelay is how long a started or scaled-up job stays on its current
	// nodes in the first step. Scaling down is free. Not for ObjectiveTotalTime.
	RescaleDelay time.Duration
	// RestartTime is how long a job that holds nodes or has trained makes no progress
	// when its nodes change, up or down, or when it resumes. Not together with
	// RescaleDelay.
	RestartTime time.Duration
	// WaitingTime is the time without nodes since the job's submission, queueing and
	// pauses together. ObjectiveTotalTime ages by it.
	WaitingTime time.Duration
	// ETAError is the standard deviation of the logarithm of what is really left of the job
	// over RemainingETA, 0 to MaxETAError; nil means TotalTimeOptions.ETAError.
	ETAError *float64
	// WorkDone is the work done so far, as run time on one node. ObjectiveProgress takes
	// the demand to be at least a quarter of it.
	WorkDone time.Duration
	// GroupID is the group that the job belongs to, where the snapshot has groups.
	GroupID string
	// CurrentNodeType is the node type of CurrentNodes, and ETANodeType the one that
	// RemainingETA is measured on, "" for the reference node, where the snapshot has types.
	CurrentNodeType, ETANodeType string
	// Speeds are how fast the job trains on the node types it can run on; nil means that it
	// runs on all, at NodeType.Speed.
	Speeds []TypeSpeed
	// MoveTime is as RestartTime, where the node type changes; nil means RestartTime.
	MoveTime *time.Duration
	// Overrun is the work done over what was told of all of it, which decides nothing: from 2
	// on a warning names the job.
	Overrun float64
	// PieceNodes is the number of nodes of the largest part of an allocation that must lie
	// together, which SizeLimits look at; 0 means the whole allocation.
	PieceNodes int
	// Bad is what is wrong with fields that a Job cannot express, as the code that made it
	// from another form knows; Validate reports it. Paths begin within the job.
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

// withDefaults returns the job with the default of every field that is not set, without Speeds
// where there are no node types, and whether that is another job.
func (j *Job) withDefaults(types bool) (filled Job, missing bool) {
	filled = *j
	if j.Speeds != nil && !types {
		filled.Speeds, missing = nil, true
	}
	if filled.MinNodes == 0 {
		filled.MinNodes, missing = DefaultMinNodes, true
	}
	if filled.MaxNodes == 0 {
		filled.MaxNodes, missing = DefaultMaxNodes, true
		if len(j.AllowedNodes) > 0 {
			filled.MaxNodes = slices.Max(j.AllowedNodes)
		}
		for _, s := range filled.Speeds {
			if len(s.AllowedNodes) > 0 {
				filled.MaxNodes = max(filled.MaxNodes, slices.Max(s.AllowedNodes))
			}
		}
	}
	if !filled.Scaling.isSet() {
		filled.Scaling.DoublingEfficiency, missing = DefaultDoublingEfficiency, true
	}
	return filled, missing
}

// WeightOrDefault returns the job's weight.
func (j *Job) WeightOrDefault() float64 { return valueOr(j.Weight, DefaultWeight) }

// Queued reports whether the job holds no nodes.
func (j *Job) Queued() bool { return j.CurrentNodes == 0 }

// NeverStarted reports whether the job holds no nodes and has not trained.
func (j *Job) NeverStarted() bool { return j.CurrentNodes == 0 && j.TrainingTime == 0 }

// smallestSize returns the first of LegalSizes of a valid job.
func (j *Job) smallestSize() int { return smallestSize(j.AllowedNodes, j.MinNodes, j.MaxNodes) }

// smallestSize returns the first of legalSizes that has some.
func smallestSize(allowed []int, least, most int) int {
	if allowed == nil && least == most {
		return least
	}
	if allowed == nil {
		return 1 << bits.Len(uint(least-1))
	}
	first, _ := slices.BinarySearch(allowed, least)
	return allowed[first]
}

// Demand returns the run time left on exactly one node in seconds, the paper's d_i.
func (j *Job) Demand() float64 {
	if j.ETANodes == 0 {
		return j.RemainingETA.Seconds()
	}
	return j.RemainingETA.Seconds() * j.SpeedAt(float64(j.ETANodes))
}

// LegalSizes returns the sizes the job may hold while it trains, ascending: its
// AllowedNodes, or what these mean where they are nil, within [MinNodes, MaxNodes]. There may
// be none; Validate reports that.
func (j *Job) LegalSizes() []int { return legalSizes(nil, j.AllowedNodes, j.MinNodes, j.MaxNodes) }

// legalSizes appends LegalSizes of a job of these AllowedNodes, MinNodes and MaxNodes.
func legalSizes(sizes, allowed []int, least, most int) []int {
	if allowed == nil && least == most {
		return append(sizes, least)
	}
	if allowed == nil {
		sizes = slices.Grow(sizes, bits.Len(uint(max(0, most))))
		for k := 1; k <= most; k *= 2 {
			if k >= least {
				sizes = append(sizes, k)
			}
			if k > most/2 {
				break // doubling could overflow
			}
		}
		return sizes
	}
	sizes = slices.Grow(sizes, len(allowed))
	for _, k := range allowed {
		if k >= least && k <= most {
			sizes = append(sizes, k)
		}
	}
	return sizes
}

// Scaling is how training speed grows with nodes, relative to one node: the
// table where there is one, the doubling efficiency otherwise.
type Scaling struct {
	// DoublingEfficiency is e in speed(k) = k * e^log2(k): each doubling keeps
	// the share e of the ideal gain. The paper measured 0.8 (its figure of nodes
	// against training speed).
	DoublingEfficiency float64
	// Speeds are measured speeds, one per entry of AllowedNodes or one per legal
	// size. Nil means that DoublingEfficiency applies.
	Speeds []float64
}

// isSet reports whether the scaling says anything.
func (s *Scaling) isSet() bool { return s.Speeds != nil || s.DoublingEfficiency != 0 }

// Speed returns the job's training speed on the given nodes relative to one
// node: 0 on none. With a speed table, nodes between two measured sizes train at
// the speed of the smaller one, since a job can leave nodes unused, and nodes
// below the smallest measured size do not train.
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

// SpeedAt returns the job's training speed on the given nodes, not necessarily a whole
// number, relative to one node: 0 on none. Between two sizes of a speed table it is
// interpolated as a straight line of logarithms, beyond its ends it is the nearest end's.
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
	// Not by a power of their quotient, which may overflow.
	return math.Pow(speeds[above-1], 1-share) * math.Pow(speeds[above], share)
}

// tabledSizes returns the sizes that Scaling.Speeds is measured at.
func (j *Job) tabledSizes() []int {
	if j.AllowedNodes != nil && len(j.Scaling.Speeds) == len(j.AllowedNodes) {
		return j.AllowedNodes
	}
	return j.LegalSizes()
}

// valueOr returns what a points to, or the default.
func valueOr[T any](a *T, fallback T) T {
	if a == nil {
		return fallback
	}
	return *a
}
