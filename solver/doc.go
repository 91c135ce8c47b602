// Package solver is the decision core of elastalloc. It defines the snapshot of an elastic training
// platform and its validation, the admission of jobs to the pool, the optimization model, legal plans
// and their objective.
//
// The model is from Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning
// Jobs on Cloud" ("the paper"). In every step t of a look-ahead horizon of T steps, each job i occupies
// n_i^t nodes out of its legal sizes K_i, the nodes of all jobs in a step do not exceed the pool of N,
// and
//
//	maximize  sum_i w_i sum_t s_i^t / d_i,
//	s_i^t  =  min(d_i, s_i^(t-1) + work_i^t(n_i^t)),
//
// where d_i is the remaining ETA on one node, s_i^t the work done by the end of step t, and work_i^t(k)
// the work done in step t on k nodes, all in seconds on one node.
//
// ObjectiveTotalTime decides one step with another objective, see problem/totaltime.go. The table of
// objectives is in problem/objective.go.
//
// The core has three parts. Package snapshot is the input, package problem is the model that follows
// from it, and package decision is the result. Each imports only the packages before it, and backends
// import at most problem. This package has the names that programs need, as aliases.
//
// The path of a decision is Snapshot -> Validate -> NewProblem (admission) -> a Backend ->
// Problem.Check -> Problem.Objective -> Decide. All packages use only the standard library. They have
// no transport, logging, global state, or clock except the context, and all functions are pure.
//
// docs/reference/glossary.md defines the terms.
package solver
