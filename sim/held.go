package sim

import "time"

// NodesAt is a number of nodes from a time on, until that of the next.
type NodesAt struct {
	At    time.Duration
	Nodes int
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

// History is what a job has behind it that was there before a simulation began.
type History struct {
	// Nodes is what it holds.
	Nodes int
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
