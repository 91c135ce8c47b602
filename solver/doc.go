// Package solver is the decision core of elastalloc: what a snapshot of an
// elastic training platform is, when it is valid, who is admitted to the pool,
// which optimisation model follows from it, when a plan is legal and what a plan
// is worth.
//
// The model is that of Hu et al., "An Optimal Resource Allocator of Elastic
// Training for Deep Learning Jobs on Cloud" ("the paper"): in every step t of a
// look-ahead horizon of T steps each job i holds n_i^t nodes out of its legal
// sizes K_i, the nodes held in a step do not exceed the pool of N, and
//
//	maximise  sum_i w_i sum_t s_i^t / d_i,
//	s_i^t  =  min(d_i, s_i^(t-1) + work_i^t(n_i^t)),
//
// where d_i is the remaining ETA on one node, s_i^t the demand served by the end
// of step t, and work the demand served in one step at a given size.
//
// The path of a decision is Snapshot -> Validate -> NewProblem (admission) -> a
// Backend -> Problem.Check -> Problem.Objective. The package uses the standard
// library only; it knows no transport, no clock but context, no logging and no
// global state, and all of its functions are pure.
package solver
