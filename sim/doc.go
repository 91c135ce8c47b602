// Package sim replays a cluster's history under an allocation policy: what jobs
// would have waited and how long they would have taken, had this policy shared
// out a pool of a given size.
//
// A Trace, read from CSV or drawn by Synthetic, becomes a Workload; Run simulates
// it under a Policy and returns what became of every job; Summarize and Compare
// work out the measures. Decisions come from an Allocator, the one of the root
// package. Cut makes a single decision's snapshot out of a moment of a trace.
//
// # The model of time
//
// A simulation equals a loop over whole seconds, counted from the first
// submission, in which second s does in this order:
//
//  1. Unless s is a scaling moment, the queue takes the nodes that were idle by the
//     end of second s-1 (FillIdle). That is the paper's example: a job ends
//     at 9:02:09 and a queued job starts on its nodes at 9:02:10.
//  2. Jobs whose work is done end, and free their nodes.
//  3. Jobs that were submitted join the queue.
//  4. If s is a multiple of the frequency, a scaling moment, the policy decides on
//     the state as it now is, and its decision is carried out at once.
//  5. Every job that holds nodes trains until second s+1.
//
// A policy that decides at every event does so instead of step 1, if a job was
// submitted or ended in second s-1 and that was no scaling moment. Since nothing
// can happen between two events, Run moves from event to event; work is counted
// in whole nanoseconds of one node's time, so that the two are equal exactly.
//
// A change of nodes costs what the setting says, and never work done. With a scaling
// delay, as in the paper, a job that starts or grows trains on as many nodes as before for
// the delay; shrinking is free. With a restart time every change stops the training for
// that long, the start and the return from a pause included; a change meanwhile begins the
// restart anew. Nodes are held during both.
//
// Where the pool has node types a job holds nodes of one of them, and a change of the type
// is a change of nodes. Speeds may change with the work done; a job trains at those of the
// phase in which it begins a second, and an allocator is told these alone.
//
// A preempted job returns to its place in the queue, which is ordered by submission.
package sim
