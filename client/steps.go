package client

import (
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Decision is an allocation for each job: an AllocateResponse, a FillIdleResponse, or the result of
// your own rule.
type Decision interface {
	GetAllocations() []*elastallocv1.Allocation
}

// Step is the resize of one job.
type Step struct {
	JobID string
	// Nodes is the number of nodes of the job after the step. 0 pauses the job.
	Nodes int32
	// NodeType is the type of the nodes if the pool has several, otherwise "".
	NodeType string
	// Change is CHANGE_PREEMPT or CHANGE_SCALE_DOWN for a step that releases nodes, and
	// CHANGE_START or CHANGE_SCALE_UP for a step that acquires nodes.
	Change elastallocv1.Change
}

// Frees reports whether the step releases nodes.
func (s Step) Frees() bool {
	return s.Change == elastallocv1.Change_CHANGE_PREEMPT || s.Change == elastallocv1.Change_CHANGE_SCALE_DOWN
}

// Steps returns the steps that carry a decision out, in the order of their execution. Use a Plan
// instead if resizes take time or fail. Steps that release nodes come first. Steps that acquire nodes
// follow in the order of the snapshot. Each resizes a job as a gang. In this order the jobs never
// occupy more nodes than the pool has or, if the pool has shrunk, than they occupied before. A job
// that keeps its nodes or keeps waiting has no step. A job that moves to another node type has two:
// a pause, and a start on the new type.
//
// A job that lost a node and is allocated its remaining nodes has no step either. The caller
// restarts it on them.
//
// Steps that release nodes may run concurrently, and so may steps that acquire nodes, once the former
// are done. If a step fails or a job completes meanwhile, skip the rest and request a new decision.
func Steps(response Decision) []Step {
	var frees, takes []Step
	for _, a := range response.GetAllocations() {
		step := Step{JobID: a.GetJobId(), Nodes: a.GetNodes(), NodeType: a.GetNodeType(), Change: a.GetChange()}
		if step.Change == elastallocv1.Change_CHANGE_MOVE {
			frees = append(frees, Step{JobID: step.JobID, Change: elastallocv1.Change_CHANGE_PREEMPT})
			step.Change = elastallocv1.Change_CHANGE_START
		}
		switch {
		case step.Frees():
			frees = append(frees, step)
		case step.Change == elastallocv1.Change_CHANGE_START, step.Change == elastallocv1.Change_CHANGE_SCALE_UP:
			takes = append(takes, step)
		}
	}
	return append(frees, takes...)
}
