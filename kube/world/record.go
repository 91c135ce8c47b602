package world

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Record is what the controller notes on a job, in the annotation elastalloc.dev/decision.
// It is all the memory that the controller needs: a new one goes on from it.
type Record struct {
	// UID is the job's, which tells its record from one that came with a copied manifest.
	UID types.UID `json:"uid"`
	// ID and At are the decision that set the target, Mode the mode it was made in, and
	// Jobs how many jobs were given a target by it: on fewer nothing acts.
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Mode string    `json:"mode"`
	Jobs int       `json:"jobs"`
	// Gap is the relative gap of the decision, 0 if it is proven optimal; nil where nothing
	// was optimised.
	Gap *float64 `json:"gap,omitempty"`
	// Total is how many nodes the decision was made for, where an autoscaler brings those that
	// are missing.
	Total int `json:"total,omitzero"`
	From  int `json:"from"` // the job's size when it was decided

	// What the job had done at the time Since, from when on it held Nodes: Done and
	// Trained are the work, as run time on one node, and the time with nodes. Changed is
	// when the controller last changed its size.
	Since   time.Time       `json:"since"`
	Nodes   int             `json:"nodes"`
	Done    metav1.Duration `json:"done,omitzero"`
	Trained metav1.Duration `json:"trained,omitzero"`
	Changed *time.Time      `json:"changed,omitempty"`
	// Remaining is the run time on one node that was left then, its source, and how long
	// the job had held nodes since that source said so.
	Remaining metav1.Duration `json:"remaining,omitzero"`
	Source    Source          `json:"source,omitempty"`
	Age       metav1.Duration `json:"age,omitzero"`
}

// String returns the record as the text of the annotation.
func (r *Record) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // Only a NaN gap could fail, and answers are checked.
	}
	return string(text)
}

// skew is by how much the clocks of two controllers may differ.
const skew = time.Minute

// parseRecord reads the annotation of a job, nil where that is missing, broken or another job's. A
// time in the future is forged, or the clock was set back: it becomes now, and a change is dropped.
func parseRecord(uid types.UID, annotations map[string]string, now time.Time) *Record {
	var r Record
	if json.Unmarshal([]byte(annotations[DecisionAnnotation]), &r) != nil || r.UID != uid || r.Since.IsZero() || r.Nodes < 0 ||
		r.Done.Duration < 0 || r.Trained.Duration < 0 || r.Remaining.Duration < 0 {
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
