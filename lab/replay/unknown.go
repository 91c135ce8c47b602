package replay

import (
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/sim"
)

// Unknown is what snapshots cannot tell, or tell only roughly. Field names are those of
// replay.json.
type Unknown struct {
	// Jobs is the number of jobs that were seen, and Compared how many of them ended within
	// the recording, which all figures on jobs are of.
	Jobs     int `json:"jobs"`
	Compared int `json:"jobs_compared"`
	// StillRunning are there at the end of the recording, AtBegin at its beginning. Withdrawn
	// left before any snapshot showed them with nodes, and NeverFit the pool; these two are
	// left out of all simulations.
	StillRunning int `json:"jobs_still_running"`
	AtBegin      int `json:"jobs_there_at_begin"`
	Withdrawn    int `json:"jobs_withdrawn"`
	NeverFit     int `json:"jobs_that_never_fit"`
	// IDsReused are jobs with the id of one before, which was older, and Absent those that
	// a snapshot lacks between two that have them.
	IDsReused int `json:"jobs_with_reused_id"`
	Absent    int `json:"jobs_absent_between"`
	// SubmissionUnknown counts jobs told without waiting_time and training_time, which count
	// as submitted when they first show.
	SubmissionUnknown int `json:"submissions_unknown"`
	// UnseenChanges are changes of nodes that no answer explains, put in the middle between
	// two snapshots.
	UnseenChanges int `json:"changes_unseen"`
	// GapSeconds are the times between snapshots, and EndWithinSeconds those where jobs ended.
	GapSeconds       Spread `json:"gap_s"`
	EndWithinSeconds Spread `json:"end_within_s"`
	// LongGaps are times of more than three steps, and LongGapShare their share of all.
	LongGaps     int     `json:"long_gaps"`
	LongGapShare float64 `json:"long_gap_share"`
	// Changes is the number of answers that would have changed a job's nodes, and
	// CarriedOut of those that the next snapshot shows carried out.
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
	return Spread{sim.Quantile(values, 0.5), sim.Quantile(values, 0.95), sim.Quantile(values, 1)}
}

// unknown counts what is not known.
func (r *Replay) unknown(tracks []*track, changes, carriedOut int) Unknown {
	u := Unknown{Jobs: len(tracks), Changes: changes, CarriedOut: carriedOut}
	var ends, gaps []float64
	for _, t := range tracks {
		switch t.fate {
		case ended:
			u.Compared++
			ends = append(ends, t.endWithin.Seconds())
		case stillHere:
			u.StillRunning++
		case withdrawn:
			u.Withdrawn++
		case neverFits:
			u.NeverFit++
		}
		if t.thereAtBegin {
			u.AtBegin++
		}
		if t.id != t.sightings[0].job.ID {
			u.IDsReused++
		}
		if last := len(t.sightings) - 1; t.sightings[last].moment-t.sightings[0].moment > last {
			u.Absent++
		}
		if t.submitUnknown {
			u.SubmissionUnknown++
		}
		u.UnseenChanges += t.unseenChanges
	}
	long := time.Duration(0)
	for i := 1; i < len(r.Moments); i++ {
		gap := r.Moments[i].At - r.Moments[i-1].At
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

// UnseenSizeShare returns the share of a run's node hours, of the jobs compared, on which a
// job holds what it never did in the recording: nothing shows that its speed there is as told.
func (r *Replay) UnseenSizeShare(run *sim.Result) float64 {
	var unseen, all time.Duration
	for i := range run.Jobs {
		if r.tracks[i].fate != ended {
			continue
		}
		job, seen := &run.Jobs[i], r.tracks[i].seen
		for n, held := range job.Nodes {
			if n+1 == len(job.Nodes) {
				break
			}
			nodeTime := time.Duration(held.Nodes) * (job.Nodes[n+1].At - held.At)
			all += nodeTime
			if !seen[Held{held.Nodes, held.NodeType}] {
				unseen += nodeTime
			}
		}
	}
	if all == 0 {
		return 0
	}
	return unseen.Seconds() / all.Seconds()
}

// EndsAfter returns how many of the compared jobs end under a run only after the recording.
func (r *Replay) EndsAfter(run *sim.Result) int {
	return len(slices.DeleteFunc(compared(r, run.Jobs), func(j sim.JobResult) bool { return j.End <= r.Until }))
}
