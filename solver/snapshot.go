package solver

import (
	"time"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Names of package snapshot: the input of a decision, its defaults and limits.
type (
	// Group is a team, or a department that consists of other groups.
	Group = snapshot.Group

	// NodeType is a type of the nodes of a pool, such as a GPU model.
	NodeType = snapshot.NodeType

	// TypeSpeed is the training speed of a job on nodes of one type.
	TypeSpeed = snapshot.TypeSpeed

	// Option is a possible allocation of a job in a step: a number of nodes of one node type. The zero
	// value means no nodes. Options are comparable with ==.
	Option = snapshot.Option

	// Row is the capacity of a node type or a size limit. See snapshot.Row.
	Row = snapshot.Row
	// Rows are the rows of a snapshot. See snapshot.Rows.
	Rows = snapshot.Rows
	// SizeLimit bounds the nodes that large allocations occupy together. The piece of an allocation of
	// k nodes is min(k, Job.PieceNodes), or k if that is 0.
	SizeLimit = snapshot.SizeLimit

	// Snapshot is the state of the resource pool and its jobs at the decision time. In a snapshot that
	// is passed to an allocator, the zero value of an optional field means its default. All other
	// functions need a snapshot with its defaults, see WithDefaults.
	Snapshot = snapshot.Snapshot

	// Horizon is the look-ahead of the rolling-horizon model.
	Horizon = snapshot.Horizon

	// Job is one elastic training job, running or queued.
	Job = snapshot.Job

	// Scaling is the training speed by number of nodes, relative to one node. If Speeds is not set,
	// DoublingEfficiency applies.
	Scaling = snapshot.Scaling

	// Violation describes an invalid field of a request.
	Violation = snapshot.Violation

	// InvalidError reports all invalid fields of a request.
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

	MaxRecentRestarts = snapshot.MaxRecentRestarts
)

// NewOption returns the option with nodes of the type at a position in Snapshot.NodeTypes. The type
// is ignored for 0 nodes.
func NewOption(nodeType, nodes int) Option { return snapshot.NewOption(nodeType, nodes) }

// Nodes returns one option per number of nodes, for a pool in which all nodes are alike.
func Nodes(nodes ...int) []Option { return snapshot.Nodes(nodes...) }

// DefaultHorizon returns the horizon of the paper: 5 steps of 5 minutes.
func DefaultHorizon() Horizon { return snapshot.DefaultHorizon() }

// NewJob returns a queued job with every optional field at its default.
func NewJob(id string, remainingETA time.Duration) Job { return snapshot.NewJob(id, remainingETA) }
