package client

import (
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Decision says what each job gets: an AllocateResponse or a FillIdleResponse, be it of the service
// or of a rule of your own.
type Decision interface {
	GetAllocations() []*elastallocv1.Allocation
}

// Step is one job to resize when a decision is carried out.
type Step struct {
	JobID string
	// Nodes is what the job holds once the step is done; 0 = none. NodeType is their type, in
	// a pool that has several.
	Nodes    int32
	NodeType string
	// Change is CHANGE_PREEMPT or CHANGE_SCALE_DOWN for a step that frees nodes,
	// CHANGE_START or CHANGE_SCALE_UP for one that takes some.
	Change elastallocv1.Change
}

// Frees reports whether the step frees nodes.
func (s Step) Frees() bool {
	return s.Change == elastallocv1.Change_CHANGE_PREEMPT || s.Change == elastallocv1.Change_CHANGE_SCALE_DOWN
}

// Steps returns the order to carry a decision out in at once; a Plan does where resizes take time
// or fail. First come all jobs that free nodes, then, in the order of the snapshot, those that take
// some, each in one step as a gang. So the jobs never hold more nodes than the pool has, or than they
// held before where it shrank. Jobs that keep their nodes or go on waiting need no step. One that
// moves to another node type has two: it is paused, and then started there.
//
// A job that has lost a node and is told with those that are left may keep them: restarting it on
// them is up to the caller.
//
// Steps that free nodes may be done at the same time, and then so may those that take some. Where a
// step fails or a job ended meanwhile, leave out the rest and ask for a new decision.
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
