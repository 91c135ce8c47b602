package controller

import (
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/world"
)

// inputs are the inputs of a decision at one time. A change triggers a decision. Times, writes of the controller and
// reports of remaining time are not included, because they change all the time.
type inputs struct {
	jobs    map[types.UID]uint64 // hashes by job
	nodes   world.NodeCounts
	missing int // nodes in use that are missing
}

// inputsOf returns the inputs of a decision in a state.
func inputsOf(w *world.ClusterState) *inputs {
	in := &inputs{jobs: make(map[types.UID]uint64, len(w.Jobs)), nodes: w.Nodes, missing: w.Missing}
	for _, j := range w.Jobs {
		h, pinned, left := fnv.New64a(), j.Pinned, 0
		switch pinned {
		case world.Conflict, world.Refused, world.Retained:
			pinned = ""
		}
		if j.Shape.Finished {
			left = j.RetainedNodes()
		}
		_, _ = fmt.Fprintln(h, j.Capped(), j.Usage.Cap, j.Ceiling > 0, j.Kueue && j.Shape.Suspended, j.Shape.Finished, j.Shape.Over,
			j.Shape.StartSize, left, pinned, j.Sizes, j.QueuedSizes, j.Speeds, j.TypeSpeeds, j.Efficiency, j.Weight, j.Restart, j.Work)
		in.jobs[j.UID] = h.Sum64()
	}
	return in
}

// lost reports whether nodes disappeared that are in use, or that waiting steps need.
func (in *inputs) lost(before *inputs, waiting bool) bool {
	return in.missing > before.missing || in.nodes.Serving < before.nodes.Serving && waiting
}

// available reports whether the number of nodes changed. An autoscaler can replace an unusable node once it is gone.
func (in *inputs) available(before *inputs, scales bool) bool {
	return in.nodes.Serving != before.nodes.Serving || scales && in.nodes.Unusable < before.nodes.Unusable
}
