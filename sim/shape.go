package sim

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// Shape is how a job scales and how much it counts. The zero value of each field means
// the default of solver.Job: 1 to 16 nodes, the paper's speed curve, the weight 1.
type Shape struct {
	// Legal sizes are the powers of two from MinNodes to MaxNodes, or that size alone where
	// the two are equal.
	MinNodes, MaxNodes int
	// DoublingEfficiency is e in speed(k) = k * e^log2(k).
	DoublingEfficiency float64
	// Weight is the factor on the job's part of an objective.
	Weight float64
	// As, where set, is a job of a snapshot, defaults filled in, whose range, sizes, speeds,
	// weight and ETA error it has instead of those of the other fields.
	As *solver.Job
}

// job returns the queued job that an allocator is told of, every default filled in.
func (s *Shape) job(id string) *solver.Job {
	if s.As != nil {
		return &solver.Job{
			ID: id, MinNodes: s.As.MinNodes, MaxNodes: s.As.MaxNodes, AllowedNodes: s.As.AllowedNodes,
			Scaling: s.As.Scaling, Weight: s.As.Weight, ETAError: s.As.ETAError,
			Speeds: s.As.Speeds, MoveTime: s.As.MoveTime,
		}
	}
	job := solver.NewJob(id, 0)
	job.MinNodes = cmp.Or(s.MinNodes, job.MinNodes)
	job.MaxNodes = cmp.Or(s.MaxNodes, job.MaxNodes)
	job.Scaling.DoublingEfficiency = cmp.Or(s.DoublingEfficiency, job.Scaling.DoublingEfficiency)
	if s.Weight != 0 {
		job.Weight = new(s.Weight)
	}
	return &job
}

// speed returns the training speed on the given nodes relative to one.
func (s *Shape) speed(nodes int) float64 { return s.job("").Speed(nodes) }

// weight returns the factor on the job's part of an objective.
func (s *Shape) weight() float64 { return s.job("").WeightOrDefault() }

// smallest returns the least nodes the job can train on.
func (s *Shape) smallest() int { return s.job("").LegalSizes()[0] }

// atMost returns the largest legal size of at most the given nodes, or the smallest
// if all are larger.
func (s *Shape) atMost(nodes int) int {
	sizes := s.job("").LegalSizes()
	fitting, found := slices.BinarySearch(sizes, nodes)
	if found {
		return nodes
	}
	return sizes[max(0, fitting-1)]
}

// NodesAsked returns the nodes that hold the given GPUs, both arguments at least 1: rounded
// up to a power of two, and at most the default maximum or MaxNodes where that is more. A job
// of one size alone asked for that.
func (s *Shape) NodesAsked(gpus, gpusPerNode int) int {
	if s.MinNodes != 0 && s.MinNodes == s.MaxNodes {
		return s.MinNodes
	}
	needed := (gpus-1)/gpusPerNode + 1
	most := max(solver.DefaultMaxNodes, s.MaxNodes)
	nodes := 1
	for nodes < needed && 2*nodes <= most {
		nodes *= 2
	}
	return nodes
}
