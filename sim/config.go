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
	// NodeTypes are the kinds of nodes, together Nodes; empty if nodes are all alike.
	NodeTypes []solver.NodeType
	// Frequency is the time between two scaling moments and the length of a step, the
	// paper's f: whole seconds, at least one.
	Frequency time.Duration
	// Round has a policy that decides at every event do so at the next multiple of it: whole
	// seconds, 0 for one second.
	Round time.Duration
	// Steps is the number of steps a decision looks ahead.
	Steps int
	// ScalingDelay is how long a job that starts or grows trains on as many nodes as before:
	// whole seconds, less than the frequency, or else jobs could be growing for ever.
	ScalingDelay time.Duration
	// RestartTime is how long a job makes no progress after every change of its nodes:
	// whole seconds, of any length. Not together with ScalingDelay.
	RestartTime time.Duration
	// DecisionBudget is the time budget of a decision; 0 leaves it to the Allocator.
	DecisionBudget time.Duration
	// Groups are the teams that share the pool, with their departments.
	Groups []solver.Group
	// Resized is when the size of the pool changes, ascending, in whole seconds: to at most
	// Nodes, and to Nodes in the end. Policies decide then as well.
	Resized []NodesAt
	// MaxDecisions is after how many decisions a run ends with ErrTooManyDecisions; 0 is no limit.
	MaxDecisions int
	// Observe, where set, is shown every decision of the Allocator at a scaling moment.
	Observe Observer
}

// Observer is shown a snapshot and its decision. It may keep both and must change
// neither.
type Observer func(*solver.Snapshot, solver.Decision)

// DefaultDecisionBudget is ample, so that hardly ever a clock decides what a
// simulation finds.
const DefaultDecisionBudget = 10 * time.Second

// DefaultConfig returns the paper's setting for a pool, without a scaling delay.
func DefaultConfig(nodes int) Config {
	return Config{
		Nodes:          nodes,
		Frequency:      solver.DefaultStep,
		Steps:          solver.DefaultSteps,
		DecisionBudget: DefaultDecisionBudget,
	}
}

// Validate returns every bad field of a setting.
func (c *Config) Validate() []solver.Violation {
	var bad []solver.Violation
	want := func(ok bool, path, format string, args ...any) {
		if !ok {
			bad = append(bad, solver.Violation{Path: path, Description: fmt.Sprintf(format, args...)})
		}
	}
	whole := func(d time.Duration) bool { return d >= 0 && d%time.Second == 0 }
	want(c.Nodes >= 1 && c.Nodes <= math.MaxInt32, "nodes", "is %d; want at least 1", c.Nodes)
	want(whole(c.Frequency) && c.Frequency > 0, "frequency", "is %v; want whole seconds, at least 1s", c.Frequency)
	want(whole(c.Round), "round", "is %v; want whole seconds, at least 0s", c.Round)
	want(c.Steps >= 1 && c.Steps <= solver.MaxSteps, "steps", "is %d; want 1 to %d", c.Steps, solver.MaxSteps)
	want(whole(c.ScalingDelay) && c.ScalingDelay < max(c.Frequency, 1), "scaling_delay",
		"is %v; want whole seconds, at least 0s and less than the frequency", c.ScalingDelay)
	want(whole(c.RestartTime), "restart_time", "is %v; want whole seconds, at least 0s", c.RestartTime)
	want(c.RestartTime <= 0 || c.ScalingDelay <= 0, "restart_time", "is set beside a scaling delay; want at most one of them")
	want(c.DecisionBudget >= 0, "decision_budget", "is %v; want at least 0s", c.DecisionBudget)
	for i, change := range c.Resized {
		want(whole(change.At) && (i == 0 || change.At > c.Resized[i-1].At), "resized", "is at %v; want whole seconds, ascending", change.At)
		want(change.Nodes >= 0 && change.Nodes <= c.Nodes, "resized", "is to %d nodes; want 0 to %d", change.Nodes, c.Nodes)
	}
	if n := len(c.Resized); n > 0 {
		want(c.Resized[n-1].Nodes == c.Nodes, "resized", "ends with %d nodes; want %d, or jobs could wait for ever", c.Resized[n-1].Nodes, c.Nodes)
	}
	sum := 0
	for i, t := range c.NodeTypes {
		sum += t.Nodes
		want(t.ID != "" && !slices.ContainsFunc(c.NodeTypes[:i], func(other solver.NodeType) bool { return other.ID == t.ID }),
			"node_types", "names %q twice or not at all; want a name for each", t.ID)
	}
	if len(c.NodeTypes) > 0 {
		want(sum == c.Nodes && len(c.NodeTypes) <= solver.MaxNodeTypes, "node_types", "are %d of %d nodes; want at most %d of all nodes",
			len(c.NodeTypes), sum, solver.MaxNodeTypes)
		want(c.ScalingDelay == 0, "scaling_delay", "is set beside node types; want a restart time")
		want(len(c.Resized) == 0, "node_types", "are set for a pool that changes; want one that does not")
	}
	return bad
}
