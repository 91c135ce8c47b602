// Package sim is a discrete-event simulator of a cluster of elastic training jobs. It replays the
// jobs of a trace under an allocation policy on a pool of a given size, and measures the queueing
// and completion times that result.
//
// ReadTrace reads a Trace from CSV. NewWorkload converts a Trace into a Workload. Run simulates a
// Workload under a Policy and returns a Result. A Request is a Policy that calls an Allocator, usually
// the one of the root package. SnapshotAt returns the snapshot of a cluster at one time of a trace.
// Forecast simulates the future of a snapshot.
//
// # The model of time
//
// Times are whole seconds since the first submission. A regular decision time is a multiple of
// Config.Frequency. A simulation is equivalent to a loop over the seconds in which second s consists
// of these steps:
//
//  1. If s is not a regular decision time, queued jobs start on the nodes that were idle at the end
//     of second s-1 (FillIdle). In the paper's example, a job completes at 9:02:09 and a queued job
//     starts on its nodes at 9:02:10.
//  2. Jobs whose work is done complete and release their nodes.
//  3. Submitted jobs join the queue.
//  4. If s is a regular decision time, the policy decides on the current state. Its decision takes
//     effect immediately.
//  5. Every job with allocated nodes trains until second s+1.
//
// Terms.EveryEvent replaces step 1 by a decision if a job was submitted or completed in
// second s-1 and s-1 was not a regular decision time. Nothing changes between two events, so Run
// moves from event to event. It counts work in whole nanoseconds on one node, which makes it
// exactly equal to the loop.
//
// A resize costs time, but never work that is already done. Nodes are occupied during that time.
// With a scaling delay, as in the paper, a job that starts or grows trains on its previous number of
// nodes during the delay, and shrinking is free. With a restart time, every resize stops the training
// for that time, including the start of a job and its return from a pause. A resize during a restart
// begins the restart again.
//
// If the pool has node types, all nodes of a job have the same type, and a change of the type is a
// resize. Speeds may depend on the work done (Phase). During a second, a job trains at the speeds of
// the phase in which the second begins. A snapshot contains only the speeds of the current phase.
//
// If the pool has machines (Config.Placer), a decision takes effect as far as the machines have places
// for its jobs. Step 1 then applies only after a second with a submission, a completion or a regular
// decision. A job that moves to other machines restarts, without a resize. A machine belongs to one node type,
// and a job that changes its type is placed like one that starts.
//
// Teams, node types and machines may be set together. Policies without Teams and rules decide without regard to
// the teams.
//
// A preempted job returns to its place in the queue, which is ordered by submission.
package sim
