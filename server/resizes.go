package server

import (
	"iter"

	"github.com/elastalloc/elastalloc/solver"
)

// The reasons of resizes. If a pool, node type or group has lost nodes, resizeLostCapacity is the reason of
// scale-downs, pauses and moves of its jobs.
const (
	resizeScaleUp      = "scale-up"
	resizeScaleDown    = "scale-down"
	resizePause        = "pause"
	resizeResume       = "resume"
	resizeMove         = "move"
	resizeLostCapacity = "lost-capacity"
)

// resizeReasons returns all reasons of resizes.
func resizeReasons() []string {
	return []string{resizeScaleUp, resizeScaleDown, resizePause, resizeResume, resizeMove, resizeLostCapacity}
}

// countResizes returns the number of running or paused jobs of a snapshot that a decision resizes, by reason.
func countResizes(s *solver.Snapshot, d *solver.Decision) map[string]int {
	counts := make(map[string]int)
	var excess *overcommitment
	for i := range d.Allocations {
		job, reason := &s.Jobs[i], ""
		switch d.Allocations[i].Change {
		case solver.ChangeKeep, solver.ChangeWait:
			continue
		case solver.ChangeStart:
			if job.NeverStarted() {
				continue
			}
			reason = resizeResume
		case solver.ChangeScaleUp:
			reason = resizeScaleUp
		case solver.ChangeScaleDown:
			reason = resizeScaleDown
		case solver.ChangePreempt:
			reason = resizePause
		case solver.ChangeMove:
			reason = resizeMove
		}
		if reason == resizeScaleDown || reason == resizePause || reason == resizeMove {
			if excess == nil {
				excess = newOvercommitment(s)
			}
			if excess.includes(job) {
				reason = resizeLostCapacity
			}
		}
		counts[reason]++
	}
	return counts
}

// overcommitment contains the node types and groups whose running jobs occupy more nodes than they have. The
// node type is "" if the pool has no types.
type overcommitment struct {
	nodeTypes, groups map[string]bool
	parents           map[string]string
	typed             bool
}

func newOvercommitment(s *solver.Snapshot) *overcommitment {
	o := &overcommitment{
		nodeTypes: make(map[string]bool), groups: make(map[string]bool), parents: make(map[string]string, len(s.Groups)),
		typed: len(s.NodeTypes) > 0,
	}
	for i := range s.Groups {
		o.parents[s.Groups[i].ID] = s.Groups[i].ParentID
	}
	byType, byGroup := make(map[string]int), make(map[string]int)
	for i := range s.Jobs {
		job := &s.Jobs[i]
		nodes := max(0, job.CurrentNodes) // A frozen job may have an invalid number of nodes.
		byType[o.nodeType(job)] += nodes
		for group := range o.ancestors(job.GroupID) {
			byGroup[group] += nodes
		}
	}
	o.nodeTypes[""] = byType[""] > s.TotalNodes
	for _, t := range s.NodeTypes {
		o.nodeTypes[t.ID] = byType[t.ID] > t.Nodes
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		o.groups[g.ID] = g.Limit != nil && byGroup[g.ID] > *g.Limit
	}
	return o
}

// nodeType returns the type of the nodes that a job occupies, or "" if the pool has no types.
func (o *overcommitment) nodeType(job *solver.Job) string {
	if !o.typed {
		return ""
	}
	return job.CurrentNodeType
}

// ancestors yields a group and its ancestors.
func (o *overcommitment) ancestors(group string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for group != "" && yield(group) {
			group = o.parents[group]
		}
	}
}

// includes reports whether the node type or a group of a running job is overcommitted.
func (o *overcommitment) includes(job *solver.Job) bool {
	for group := range o.ancestors(job.GroupID) {
		if o.groups[group] {
			return true
		}
	}
	return o.nodeTypes[o.nodeType(job)]
}
