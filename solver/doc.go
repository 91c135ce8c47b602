// Package solver is the decision core of elastalloc: what a snapshot of an
// elastic training platform is, when it is valid, which jobs are admitted to the
// pool, which optimisation model follows, when a plan is legal and what its
// objective is.
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
// ObjectiveTotalTime decides one step towards another objective, see problem/totaltime.go; the
// table of objectives is in problem/objective.go.
//
// The core has three parts. Package snapshot is the input, package problem the model that follows
// from it, and package decision the result. Each imports only those before it, and backends import
// no more than the problem. This package has the names that programs need, as aliases.
//
// The path of a decision is Snapshot -> Validate -> NewProblem (admission) -> a
// Backend -> Problem.Check -> Problem.Objective -> Decide. All of it uses the standard
// library only; it knows no transport, no clock but context, no logging and no
// global state, and all of its functions are pure.
//
// # Glossary
//
// These terms have one meaning throughout the project.
//
//   - job: an elastic training job. It is running while it holds nodes, else queued;
//     paused is a queued job that has trained before.
//   - node: a machine of the pool that jobs hold whole. In package exact, a node of
//     branch and bound is always called that.
//   - pool: the N nodes that the jobs share; its capacity is N in every step.
//   - size: a number of nodes that a job may hold; its legal sizes are those it may
//     train on.
//   - snapshot: pool and jobs at one moment. A decision answers one snapshot.
//   - horizon, step: how far a decision looks ahead, and the intervals of that.
//   - remaining ETA, demand: run time left on one node, d_i; in seconds, the demand.
//   - speed: training speed on k nodes relative to one node.
//   - work: demand that a size serves in one step; progress is the share of the demand
//     that has been served.
//   - admission: which jobs take part in the model when the minimums of all do not fit.
//   - plan: nodes per admitted job and step. A legal plan keeps to sizes and capacity. Its
//     first step is the decision; the rest is only looked ahead.
//   - objective: what is maximised; gain is what a share of a job's demand adds to it.
//   - bound: a proven upper bound on the optimum; gap is how far above the objective it
//     is, as a share of the larger of the two.
//   - incumbent: the best legal plan that a search has so far.
//   - reason, limit: what is proven about an answer, and what ended the search.
//   - claim: what an external solver reports about its plan; verification is our own proof
//     or refutation of it.
//   - scale up, scale down, start, preempt: changes of a job's nodes. A rescale is any of
//     them after the first start.
//   - column, reduced cost: in package exact, a job's nodes over all steps, and its gain
//     less the price of those nodes.
package solver
