package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Config is the setting of a simulation.
type Config struct {
	// Nodes is the size of the pool. At least 1.
	Nodes int
	// NodeTypes are the node types of the pool, with the nodes that jobs can use. Their nodes and
	// Unavailable add up to Nodes. It is empty if all nodes are of the same type.
	NodeTypes []solver.NodeType
	// Frequency is the time between two regular decisions and the length of a step, f in the
	// paper. It is in whole seconds, at least 1 s.
	Frequency time.Duration
	// Round delays the decisions after events (Terms.EveryEvent) to the next multiple of Round, in
	// whole seconds. 0 means 1 s.
	Round time.Duration
	// Steps is the number of steps in the horizon of a decision.
	Steps int
	// ScalingDelay is the time for which a job that starts or grows trains on its previous number
	// of nodes. It is in whole seconds and less than Frequency, otherwise growth might never
	// complete.
	ScalingDelay time.Duration
	// RestartTime is the time without progress after the start and every resize of a job, in whole
	// seconds: from the end of the last step on the old nodes to the beginning of the first step on the
	// new ones.
	// RestartTime and ScalingDelay exclude each other.
	RestartTime time.Duration
	// DecisionBudget is the time budget of a decision. 0 means the default of the Allocator.
	DecisionBudget time.Duration
	// Groups are the teams that share the pool, with their departments.
	Groups []solver.Group
	// UsageHalfLife is the half-life of node time for policies with OverTime. Greater than 0.
	UsageHalfLife time.Duration
	// Resized lists the changes of the pool size in ascending order of time, in whole seconds. Sizes
	// are at most Nodes, and the last one is Nodes. Policies decide at each change.
	Resized []NodesAt
	// Unavailable is the number of nodes that no job can use, because machines lack them. Less than
	// Nodes.
	Unavailable int
	// Placer, if set, places the jobs on machines after every decision and FillIdle. If a decision has
	// no placement, jobs that grow are reduced until it has.
	Placer Placer
	// NeverMove keeps jobs on their machines until they are resized.
	NeverMove bool
	// SizeLimits are the size limits of the machines in all snapshots. They require policies with
	// OBJECTIVE_TOTAL_TIME or a Rule.
	SizeLimits []solver.SizeLimit
	// MaxDecisions is the number of decisions after which Run returns ErrTooManyDecisions. 0 means
	// no limit.
	MaxDecisions int
	// Observe, if set, is called after every decision of the Allocator, except FillIdle.
	Observe Observer
	// Watch, if set, is called with the nodes that the jobs of each group occupy from a time on, before every
	// decision and after every event.
	Watch func(at time.Duration, nodes map[string]int)
	Terms
}

// Terms are the settings of a run that belong to its policy.
type Terms struct {
	// Name is the name of the policy in results and errors.
	Name string
	// EveryEvent adds a decision one second after each submission and completion, in place of the
	// regular-time rule (FillIdle).
	EveryEvent bool
	// FixedSize makes the requested number of nodes the only legal size of every job.
	FixedSize bool
	// GroupLimits adds Config.Groups to snapshots, whose limits then apply.
	GroupLimits bool
	// NoRestartBudget leaves the last restarts of the jobs out of snapshots.
	NoRestartBudget bool
	// KeepType keeps every job on the node type on which it started.
	KeepType bool
	// AssignType, if set, returns the only node type of a submitted job, given a snapshot of the active jobs.
	AssignType func(*solver.Snapshot, solver.Job) string
}

// Observer receives a snapshot and its decision. It may keep both but must not modify them.
type Observer func(*solver.Snapshot, solver.Decision)

// DefaultDecisionBudget is long enough that the result of a simulation rarely depends on the speed
// of the machine.
const DefaultDecisionBudget = 10 * time.Second

// DefaultUsageHalfLife is the UsageHalfLife of DefaultConfig.
const DefaultUsageHalfLife = 24 * time.Hour

// DefaultConfig returns the setting of the paper for a pool of nodes, without a scaling delay.
func DefaultConfig(nodes int) Config {
	return Config{
		Nodes:          nodes,
		Frequency:      solver.DefaultStep,
		Steps:          solver.DefaultSteps,
		DecisionBudget: DefaultDecisionBudget,
		UsageHalfLife:  DefaultUsageHalfLife,
	}
}

// available returns the number of nodes that jobs can use.
func (c *Config) available() int { return c.Nodes - c.Unavailable }

// onMachines reports whether the machines of the pool matter.
func (c *Config) onMachines() bool {
	return c.Placer != nil || len(c.SizeLimits) > 0 || c.Unavailable > 0
}

// Validate returns a violation for every invalid field.
func (c *Config) Validate() []solver.Violation {
	var bad []solver.Violation
	require := func(ok bool, path, format string, args ...any) {
		if !ok {
			bad = append(bad, solver.Violation{Path: path, Description: fmt.Sprintf(format, args...)})
		}
	}
	whole := func(d time.Duration) bool { return d >= 0 && d%time.Second == 0 }
	require(c.Nodes >= 1 && c.Nodes <= math.MaxInt32, "nodes", "is %d; must be at least 1", c.Nodes)
	require(whole(c.Frequency) && c.Frequency > 0, "frequency", "is %v; must be whole seconds, at least 1s", c.Frequency)
	require(whole(c.Round), "round", "is %v; must be whole seconds, at least 0s", c.Round)
	require(c.Steps >= 1 && c.Steps <= solver.MaxSteps, "steps", "is %d; must be 1 to %d", c.Steps, solver.MaxSteps)
	require(whole(c.ScalingDelay) && c.ScalingDelay < max(c.Frequency, 1), "scaling_delay",
		"is %v; must be whole seconds, at least 0s and less than the frequency", c.ScalingDelay)
	require(whole(c.RestartTime), "restart_time", "is %v; must be whole seconds, at least 0s", c.RestartTime)
	require(c.RestartTime <= 0 || c.ScalingDelay <= 0, "restart_time", "is set together with a scaling delay; must be 0s then")
	require(c.Unavailable >= 0 && c.Unavailable < max(c.Nodes, 1), "unavailable",
		"is %d; must be at least 0 and less than the nodes", c.Unavailable)
	require(!c.onMachines() || len(c.Resized) == 0, "resized", "is set together with machines; must be empty")
	require(c.DecisionBudget >= 0, "decision_budget", "is %v; must be at least 0s", c.DecisionBudget)
	for i, change := range c.Resized {
		require(whole(change.At) && (i == 0 || change.At > c.Resized[i-1].At), "resized", "is at %v; must be whole seconds, ascending", change.At)
		require(change.Nodes >= 0 && change.Nodes <= c.Nodes, "resized", "is to %d nodes; must be 0 to %d", change.Nodes, c.Nodes)
	}
	if n := len(c.Resized); n > 0 {
		require(c.Resized[n-1].Nodes == c.Nodes, "resized",
			"ends with %d nodes; must be %d, otherwise jobs could wait forever", c.Resized[n-1].Nodes, c.Nodes)
	}
	sum := 0
	for i, t := range c.NodeTypes {
		sum += t.Nodes
		require(t.ID != "" && !slices.ContainsFunc(c.NodeTypes[:i], func(other solver.NodeType) bool { return other.ID == t.ID }),
			"node_types", "names %q twice or not at all; must be unique and not empty", t.ID)
	}
	if len(c.NodeTypes) > 0 {
		require(sum == c.available() && len(c.NodeTypes) <= solver.MaxNodeTypes,
			"node_types", "are %d types of %d nodes; must be at most %d types of all %d nodes",
			len(c.NodeTypes), sum, solver.MaxNodeTypes, c.available())
		require(c.ScalingDelay == 0, "scaling_delay", "is set together with node types; must be 0s (set a restart time instead)")
		require(len(c.Resized) == 0, "node_types", "are set for a pool that changes its size; must be empty")
	}
	return bad
}
