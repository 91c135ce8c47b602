package world

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Record is the state that the controller writes on a job, in the annotation elastalloc.dev/decision.
// The controller stores no other state: after a restart it continues from the records.
type Record struct {
	// UID is the UID of the job. A record from a copied manifest has another UID and is ignored.
	UID types.UID `json:"uid"`
	// ID and At identify the decision that set the target and its time. Mode is the mode of the controller.
	// Jobs is the number of jobs that the decision wrote targets on. If fewer jobs have a record of the
	// decision, it was not written completely and is not applied.
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Mode string    `json:"mode"`
	Jobs int       `json:"jobs"`
	// Gap is the relative optimality gap of the decision, 0 if it is proven optimal. It is nil if the
	// decision only filled idle nodes.
	Gap *float64 `json:"gap,omitempty"`
	// Total is the number of nodes that the decision assumes, if an autoscaler adds the missing ones.
	Total int `json:"total,omitzero"`
	From  int `json:"from"` // size of the job at the decision

	// The job has had the size Nodes since the time Since. Until then it had done the work Done, as run
	// time on one node, and had nodes for the time Trained. Changed is when the controller last resized it.
	Since time.Time `json:"since"`
	Nodes int       `json:"nodes"`
	// Type is the node type that the pods of the job select. Chosen is true if the controller has selected it.
	Type    string          `json:"type,omitempty"`
	Chosen  bool            `json:"chosen,omitempty"`
	Done    metav1.Duration `json:"done,omitzero"`
	Trained metav1.Duration `json:"trained,omitzero"`
	Changed *time.Time      `json:"changed,omitempty"`
	// Restarts has, for each of the last restarts of the job, newest first, the time with nodes between the
	// restart and Since: at most maxRestarts, ascending. See Job.recent_restarts of the API.
	Restarts []metav1.Duration `json:"restarts,omitempty"`
	// Remaining is the estimated run time on one node that was left at Since, and Source its source. Age is
	// the time with nodes between the source's report and Since.
	Remaining metav1.Duration `json:"remaining,omitzero"`
	Source    Source          `json:"source,omitempty"`
	Age       metav1.Duration `json:"age,omitzero"`
}

// String returns the record as the text of the annotation.
func (r *Record) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // Only a NaN gap could fail, and plan.Check rejects it.
	}
	return string(text)
}

// maxRestarts is the maximum number of restarts in a record, as in the API.
const maxRestarts = 3

// validRestarts reports whether the restarts of a record are at most maxRestarts ascending times.
func validRestarts(restarts []metav1.Duration) bool {
	last := time.Duration(0)
	for _, since := range restarts {
		if since.Duration < last {
			return false
		}
		last = since.Duration
	}
	return len(restarts) <= maxRestarts
}

// skew is the tolerated difference between the clocks of two controllers.
const skew = time.Minute

// parseRecord parses the record of a job. It returns nil if the annotation is missing, invalid or of another
// job. A time in the future was forged, or the clock was set back: Since is then set to now, and Changed
// is dropped.
func parseRecord(uid types.UID, annotations map[string]string, now time.Time) *Record {
	var r Record
	if json.Unmarshal([]byte(annotations[DecisionAnnotation]), &r) != nil || r.UID != uid || r.Since.IsZero() || r.Nodes < 0 ||
		r.Done.Duration < 0 || r.Trained.Duration < 0 || r.Remaining.Duration < 0 || !validRestarts(r.Restarts) {
		return nil
	}
	if r.Changed != nil && r.Changed.Sub(now) > skew {
		r.Changed = nil
	}
	if r.Since.After(now) {
		r.Since = now
	}
	return &r
}
