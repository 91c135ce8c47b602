package solver

import (
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Names of package snapshot: what a caller reports, its defaults and limits.
type (
	// Group is a team, or a department of several.
	Group = snapshot.Group

	// NodeType is a kind of nodes.
	NodeType = snapshot.NodeType

	// TypeSpeed is how fast a job trains on nodes of one type.
	TypeSpeed = snapshot.TypeSpeed

	// Option is what a job may hold in a step: a number of nodes of one node type.
	Option = snapshot.Option

	// SizeLimit bounds the nodes that large allocations occupy together.
	SizeLimit = snapshot.SizeLimit

	// Snapshot is the state of the resource pool and its jobs at one moment.
	Snapshot = snapshot.Snapshot

	// Horizon is the look-ahead of the rolling-horizon model.
	Horizon = snapshot.Horizon

	// Job is one elastic training job, running or queued.
	Job = snapshot.Job

	// Scaling is how training speed grows with nodes, relative to one node: the table where there
	// is one, the doubling efficiency otherwise.
	Scaling = snapshot.Scaling

	// Violation is one bad field of a request.
	Violation = snapshot.Violation

	// InvalidError reports every bad field of a request at once.
	InvalidError = snapshot.InvalidError
)

// Constants of package snapshot.
const (
	DefaultNodeSpeed = snapshot.DefaultNodeSpeed

	DefaultStep               = snapshot.DefaultStep
	DefaultSteps              = snapshot.DefaultSteps
	DefaultMinNodes           = snapshot.DefaultMinNodes
	DefaultMaxNodes           = snapshot.DefaultMaxNodes
	DefaultDoublingEfficiency = snapshot.DefaultDoublingEfficiency
	DefaultWeight             = snapshot.DefaultWeight

	MaxSteps       = snapshot.MaxSteps
	MaxSizes       = snapshot.MaxSizes
	MaxWeight      = snapshot.MaxWeight
	MaxSpeed       = snapshot.MaxSpeed
	MaxNodes       = snapshot.MaxNodes
	DefaultMaxJobs = snapshot.DefaultMaxJobs
	MaxGroups      = snapshot.MaxGroups
	MaxNodeTypes   = snapshot.MaxNodeTypes
	MaxSizeLimits  = snapshot.MaxSizeLimits
	MaxIDBytes     = snapshot.MaxIDBytes
	MaxGroupDepth  = snapshot.MaxGroupDepth
	MaxETAError    = snapshot.MaxETAError
)

// NewOption returns the option to hold nodes of the type at a position in
// Snapshot.NodeTypes, which is ignored for 0 nodes.
func NewOption(nodeType, nodes int) Option { return snapshot.NewOption(nodeType, nodes) }

// Nodes returns one option per number of nodes, in a pool whose nodes are all alike.
func Nodes(nodes ...int) []Option { return snapshot.Nodes(nodes...) }

// DefaultHorizon returns the horizon of the paper: 5 steps of 5 minutes.
func DefaultHorizon() Horizon { return snapshot.DefaultHorizon() }

// NewJob returns a queued job with every optional field at its default.
func NewJob(id string, remainingETA time.Duration) Job { return snapshot.NewJob(id, remainingETA) }
