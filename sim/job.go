package sim

import "time"

// simulatedJob is the state of a job in a run.
type simulatedJob struct {
	*WorkloadJob
	// nodes is what the job holds, and training what it trains on: less while it
	// is starting or growing, until growsAt.
	nodes, training int
	growsAt         time.Duration
	// served is the work done, in run time on one node, and trained the time for
	// which the job held nodes.
	served, trained time.Duration
	start, end      time.Duration
	rescales        int
}

// leastRemainingETA is what the allocator is told of a job that has outrun its
// ETA: it must be about to end.
const leastRemainingETA = time.Second

// remainingETA returns what the allocator is told of the work left: what it was
// told at first less what is done, and a second once that has run out.
func (j *simulatedJob) remainingETA() time.Duration {
	return max(j.ToldETA-j.served, leastRemainingETA)
}

// done reports whether the job has come to its end.
func (j *simulatedJob) done() bool { return j.served >= j.Work || j.hangs() }

// hangs reports whether a job with a bug has come to where it hangs.
func (j *simulatedJob) hangs() bool { return j.Fate == OutcomeHung && j.trained >= j.HangAfter }

// outcome returns how a job that is done has ended. One may complete before its
// bug shows.
func (j *simulatedJob) outcome() Outcome {
	if j.Fate == OutcomeHung && j.served >= j.Work {
		return OutcomeCompleted
	}
	return j.Fate
}

// nextEvent returns the second in which the job ends or has grown, if its nodes
// stay as they are; never if it has none.
func (j *simulatedJob) nextEvent(now time.Duration, perSecond []time.Duration) time.Duration {
	next := j.growsAt
	if work := perSecond[j.training]; work > 0 {
		seconds := int64((j.Work - j.served + work - 1) / work)
		next = min(next, now+time.Duration(seconds)*time.Second)
	}
	if j.Fate == OutcomeHung && j.nodes > 0 {
		next = min(next, now+j.HangAfter-j.trained)
	}
	return next
}

// train lets the job train for whole seconds, if it holds nodes.
func (j *simulatedJob) train(span time.Duration, perSecond []time.Duration) {
	if j.nodes > 0 {
		seconds := int64(span / time.Second)
		j.served += time.Duration(seconds * int64(perSecond[j.training]))
		j.trained += span
	}
}

// grown lets the job train on all its nodes.
func (j *simulatedJob) grown() { j.training, j.growsAt = j.nodes, never }

// give changes the job's nodes now. Growing takes the delay, and growing again
// takes it again; shrinking is free, and shrinking to no less than what the job
// trains on cuts a growth short of its end but not off.
func (j *simulatedJob) give(nodes int, now, delay time.Duration) {
	if nodes == j.nodes {
		return
	}
	if j.start == never {
		j.start = now
	} else {
		j.rescales++
	}
	grows := nodes > j.nodes
	j.nodes = nodes
	switch {
	case nodes <= j.training || delay == 0:
		j.grown()
	case grows:
		j.growsAt = now + delay
	}
}
