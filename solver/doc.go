// Package solver is the decision core of elastalloc: it decides how many nodes each elastic training job
// gets. It defines the snapshot, which describes the pool and its jobs, the options of a decision, and the
// decision.
//
// The model is from Hu et al., "An Optimal Resource Allocator of Elastic Training for Deep Learning
// Jobs on Cloud" ("the paper"). In every step t of a look-ahead horizon of T steps, each job i occupies
// n_i^t nodes out of its legal sizes K_i, the nodes of all jobs in a step do not exceed the pool of N,
// and
//
//	maximize  sum_i w_i sum_t s_i^t / d_i,
//	s_i^t  =  min(d_i, s_i^(t-1) + work_i^t(n_i^t)),
//
// where w_i is the weight of the job, d_i its remaining ETA on one node, s_i^t the work done by the end of
// step t, and work_i^t(k) the work done in step t on k nodes. ETA and work are in seconds on one node.
//
// This model is ObjectiveProgress. ObjectiveTotalTime decides one step with another objective, which
// minimizes the mean job completion time, see problem/totaltime.go. Objectives returns all objectives.
//
// The core has three packages. This package has the data: the input of a decision with its defaults and
// validation, and the decision with its report. Package problem is the model of a snapshot. Package report
// converts the result of a backend into a decision. Each imports only the packages before it, and backends
// import at most problem.
//
// A decision takes these steps:
//
//  1. Validate checks the snapshot and the options.
//  2. problem.NewProblemFor admits jobs and builds the model.
//  3. A problem.Backend returns a plan.
//  4. problem.Problem.Check checks that the plan is legal, and problem.Problem.Objective computes its objective.
//  5. report.Decide converts the plan into a Decision.
//
// Package chain executes these steps with several backends and verifies their claims. The core uses only
// the standard library. It has no transport, logging, global state, or clock except the context, and all
// functions are pure.
//
// docs/reference/glossary.md defines the terms.
package solver
