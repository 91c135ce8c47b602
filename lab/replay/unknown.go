package replay

import (
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

// Unknown counts the facts that are unknown or uncertain because snapshots do not contain them, as
// written to replay.json.
type Unknown struct {
	// Jobs is the number of observed jobs. Compared is the number of jobs that completed within the
	// recording. All measures are of these jobs.
	Jobs     int `json:"jobs"`
	Compared int `json:"jobs_compared"`
	// StillRunning counts jobs in the last snapshot, and AtBegin jobs in the first. Withdrawn counts
	// jobs that disappeared before a snapshot with nodes, and NeverFit jobs that never fit the pool.
	// Simulations omit the latter two groups.
	StillRunning int `json:"jobs_still_running"`
	AtBegin      int `json:"jobs_there_at_begin"`
	Withdrawn    int `json:"jobs_withdrawn"`
	NeverFit     int `json:"jobs_that_never_fit"`
	// IDsReused counts jobs with the ID of an earlier job. Absent counts jobs that are missing in a
	// snapshot between two snapshots that contain them.
	IDsReused int `json:"jobs_with_reused_id"`
	Absent    int `json:"jobs_absent_between"`
	// SubmissionUnknown counts jobs without waiting_time and training_time. Their first snapshot counts
	// as their submission.
	SubmissionUnknown int `json:"submissions_unknown"`
	// UnseenChanges counts resizes that no response explains. They are assumed in the middle between
	// two snapshots.
	UnseenChanges int `json:"changes_unseen"`
	// GapSeconds is the distribution of times between snapshots. EndWithinSeconds is the same for gaps
	// in which jobs completed.
	GapSeconds       Spread `json:"gap_s"`
	EndWithinSeconds Spread `json:"end_within_s"`
	// LongGaps counts gaps of more than three steps. LongGapShare is their share of the time.
	LongGaps     int     `json:"long_gaps"`
	LongGapShare float64 `json:"long_gap_share"`
	// Changes is the number of assigned resizes. CarriedOut is the number of these that the next
	// snapshot contains.
	Changes    int `json:"answered_changes"`
	CarriedOut int `json:"answered_changes_carried_out"`
}

// Spread is the distribution of a value.
type Spread struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

func spread(values []float64) Spread {
	return Spread{statistics.Quantile(values, 0.5), statistics.Quantile(values, 0.95), statistics.Quantile(values, 1)}
}

// unknown returns the counts of unknown facts.
func (r *Replay) unknown(tracks []*track, changes, carriedOut int) Unknown {
	u := Unknown{Jobs: len(tracks), Changes: changes, CarriedOut: carriedOut}
	var ends, gaps []float64
	for _, t := range tracks {
		switch t.fate {
		case fateCompleted:
			u.Compared++
			ends = append(ends, t.endGap.Seconds())
		case fateRunning:
			u.StillRunning++
		case fateWithdrawn:
			u.Withdrawn++
		case fateNeverFits:
			u.NeverFit++
		}
		if t.initial {
			u.AtBegin++
		}
		if t.id != t.observations[0].job.ID {
			u.IDsReused++
		}
		if last := len(t.observations) - 1; t.observations[last].call-t.observations[0].call > last {
			u.Absent++
		}
		if t.submitUnknown {
			u.SubmissionUnknown++
		}
		u.UnseenChanges += t.unseenChanges
	}
	long := time.Duration(0)
	for i := 1; i < len(r.Calls); i++ {
		gap := r.Calls[i].At - r.Calls[i-1].At
		gaps = append(gaps, gap.Seconds())
		if gap > 3*r.Config.Frequency {
			u.LongGaps++
			long += gap
		}
	}
	u.GapSeconds, u.EndWithinSeconds = spread(gaps), spread(ends)
	if r.Until > 0 {
		u.LongGapShare = long.Seconds() / r.Until.Seconds()
	}
	return u
}

// UnseenSizeShare returns the share of node hours of a run, of the compared jobs, with allocations that the
// job never had in the recording. Speeds for these allocations are not confirmed by observations.
func (r *Replay) UnseenSizeShare(run *sim.Result) float64 {
	var unseen, all time.Duration
	for i := range run.Jobs {
		if r.tracks[i].fate != fateCompleted {
			continue
		}
		job, seen := &run.Jobs[i], r.tracks[i].seen
		for n, allocation := range job.Nodes {
			if n+1 == len(job.Nodes) {
				break
			}
			nodeTime := time.Duration(allocation.Nodes) * (job.Nodes[n+1].At - allocation.At)
			all += nodeTime
			if !seen[Allocation{allocation.Nodes, allocation.NodeType}] {
				unseen += nodeTime
			}
		}
	}
	if all == 0 {
		return 0
	}
	return unseen.Seconds() / all.Seconds()
}

// EndsAfter returns the number of compared jobs that complete after the recording in a run.
func (r *Replay) EndsAfter(run *sim.Result) int {
	return len(slices.DeleteFunc(compared(r, run.Jobs), func(j sim.JobResult) bool { return j.End <= r.Until }))
}
