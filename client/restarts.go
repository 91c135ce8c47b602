package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// maxRecentRestarts is the maximum length of Job.recent_restarts.
const maxRecentRestarts = 3

// Restarts measures Job.recent_restarts: for each of the last three restarts of a job, the time for
// which the job has had nodes since then. A restart is a resize, a move to another node type or a
// resume, whether a decision caused it or not. The first start and a pause are no restarts.
//
// The zero value knows no jobs. A Plan has a Restarts of its own. Its JSON is a state to keep over
// restarts of the scheduler. It is not safe for concurrent use.
type Restarts struct {
	at   time.Time // of the last Observe
	jobs map[string]jobRestarts
}

// jobRestarts is the state of a job in a Restarts.
type jobRestarts struct {
	Nodes    int32           `json:"nodes"`
	NodeType string          `json:"node_type,omitempty"`
	Started  bool            `json:"started,omitempty"` // the job had nodes at some time
	Since    []time.Duration `json:"since,omitempty"`   // times with nodes since the last restarts, newest first
}

// restartState is the JSON of a Restarts. Times are in nanoseconds.
type restartState struct {
	At   *int64                 `json:"at"` // since 1970
	Jobs map[string]jobRestarts `json:"jobs"`
}

// Observe updates the times from the nodes of all jobs that have not completed. Jobs that are not
// listed are forgotten. It reads id, current_nodes, current_node_type and training_time, which shows
// that a job without nodes has started before. resizing has the ids of the jobs whose resize is in
// progress: their restart counts once the resize is carried out.
func (r *Restarts) Observe(now time.Time, jobs []*elastallocv1.Job, resizing map[string]bool) {
	elapsed, known := max(0, now.Sub(r.at)), r.jobs
	r.at, r.jobs = now, make(map[string]jobRestarts, len(jobs))
	for _, job := range jobs {
		nodes, nodeType := job.GetCurrentNodes(), job.GetCurrentNodeType()
		j, found := known[job.GetId()]
		if !found {
			j = jobRestarts{Nodes: nodes, NodeType: nodeType, Started: job.GetTrainingTime().AsDuration() > 0}
		}
		if j.Nodes > 0 {
			j.Since = slices.Clone(j.Since)
			for n := range j.Since {
				j.Since[n] += min(elapsed, math.MaxInt64-j.Since[n])
			}
		}
		if !resizing[job.GetId()] {
			if nodes > 0 && j.Started && (nodes != j.Nodes || nodeType != j.NodeType) {
				j.Since = append([]time.Duration{0}, j.Since[:min(len(j.Since), maxRecentRestarts-1)]...)
			}
			j.Nodes, j.NodeType, j.Started = nodes, nodeType, j.Started || nodes > 0
		}
		r.jobs[job.GetId()] = j
	}
}

// Recent returns the recent_restarts of a job.
func (r *Restarts) Recent(jobID string) []*durationpb.Duration {
	var recent []*durationpb.Duration
	for _, since := range r.jobs[jobID].Since {
		recent = append(recent, durationpb.New(since))
	}
	return recent
}

// MarshalJSON returns the state.
func (r Restarts) MarshalJSON() ([]byte, error) { // The receiver is a value, because Plan.Restarts is one.
	at, jobs := r.at.UnixNano(), r.jobs
	if jobs == nil {
		jobs = map[string]jobRestarts{}
	}
	return json.Marshal(restartState{&at, jobs})
}

// UnmarshalJSON restores a state. The time until the next Observe counts as time with the nodes of
// the state. If the text is not a state, UnmarshalJSON returns an error and does not change the
// Restarts.
func (r *Restarts) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var read restartState
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("parse state of restarts: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) || read.At == nil || read.Jobs == nil {
		return errors.New("parse state of restarts: must be one object with at and jobs")
	}
	for id, j := range read.Jobs {
		if len(j.Since) > maxRecentRestarts || !slices.IsSorted(j.Since) || len(j.Since) > 0 && j.Since[0] < 0 {
			return fmt.Errorf("parse state of restarts: jobs[%q].since: is %v; must be at most %d ascending times", id, j.Since, maxRecentRestarts)
		}
	}
	r.at, r.jobs = time.Unix(0, *read.At), read.Jobs
	return nil
}
