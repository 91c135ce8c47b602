package sim

import (
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// speedsOn returns the speeds of a job restricted to one node type.
func speedsOn(speeds []solver.TypeSpeed, nodeType string) []solver.TypeSpeed {
	for i := range speeds {
		if speeds[i].NodeType == nodeType {
			return speeds[i : i+1]
		}
	}
	return []solver.TypeSpeed{{NodeType: nodeType}}
}

// speedsAmong returns the speeds of a job restricted to the node types of a cluster, if it has any.
func speedsAmong(speeds []solver.TypeSpeed, types []solver.NodeType) []solver.TypeSpeed {
	if len(types) == 0 {
		return speeds
	}
	return slices.DeleteFunc(slices.Clone(speeds), func(speed solver.TypeSpeed) bool {
		return !slices.ContainsFunc(types, func(t solver.NodeType) bool { return t.ID == speed.NodeType })
	})
}

// checkTypes returns an error if a job fits no node type.
func (w *Workload) checkTypes(config *Config) error {
	if len(config.NodeTypes) == 0 {
		return nil
	}
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if !job.FitsTypes(config.NodeTypes) {
			return fmt.Errorf("job %q of %s has no size that fits a node type of the cluster", job.ID, w.Name)
		}
	}
	return nil
}
