package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// NodesAt is a number of nodes from a time on, until that of the next.
type NodesAt struct {
	At    time.Duration
	Nodes int
	// NodeType is their type; "" where nodes are all alike, and for no nodes.
	NodeType string
}

// holding is what a job holds: nodes of one type, "" where nodes are all alike.
type holding struct {
	nodes    int
	nodeType string
}

// NodeTime returns the number of nodes, summed over the time from one moment to another.
// Until the first change the number is before.
func NodeTime(changes []NodesAt, before int, from, until time.Duration) time.Duration {
	sum, at, nodes := time.Duration(0), from, before
	for _, change := range changes {
		if to := min(max(change.At, at), until); to > at {
			sum += time.Duration(nodes) * (to - at)
			at = to
		}
		nodes = change.Nodes
	}
	return sum + time.Duration(nodes)*max(0, until-at)
}

// alike returns holdings of nodes that are all alike.
func alike(nodes []int) []holding {
	holdings := make([]holding, len(nodes))
	for i, n := range nodes {
		holdings[i].nodes = n
	}
	return holdings
}

// legalFor reports whether a job may hold the nodes.
func (h holding) legalFor(job *solver.Job, types []solver.NodeType) bool {
	at := slices.IndexFunc(types, func(t solver.NodeType) bool { return t.ID == h.nodeType })
	if at < 0 {
		return false
	}
	there, _, runs := job.On(&types[at])
	return runs && slices.Contains(there.LegalSizes(), h.nodes)
}

func (h holding) ofType() string {
	if h.nodeType == "" {
		return ""
	}
	return " of " + strconv.Quote(h.nodeType)
}

// History is what a job has behind it that was there before a simulation began.
type History struct {
	// Nodes is what it holds, and NodeType their type, "" where nodes are all alike.
	Nodes    int
	NodeType string
	// Trained is how long it has held nodes so far, and Waited how long it has not.
	Trained, Waited time.Duration
	// Work is the work that it has done, as run time on one node.
	Work time.Duration
}

// ETAAt is what an allocator is told of the work left, in run time on one node, once the
// job has done the given work.
type ETAAt struct{ Served, ETA time.Duration }

// resize changes the size of the pool where it is time and reports whether it did.
func (s *simulation) resize() bool {
	resized := false
	for len(s.resized) > 0 && s.resized[0].At <= s.now { // Less only before the first submission.
		s.nodes, s.resized, resized = s.resized[0].Nodes, s.resized[1:], true
	}
	return resized
}
