package eta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// state is the JSON of an Estimator.
type state struct {
	// EndedSeconds is the work of ended jobs in seconds on one node, in the order of their ends.
	EndedSeconds []float64 `json:"ended_seconds"`
	// Told is the fit of what was told of them.
	Told []float64 `json:"told,omitempty"`
}

// MarshalJSON returns the state: what the jobs that ended took, and how wrong they were told.
func (e *Estimator) MarshalJSON() ([]byte, error) {
	s := state{EndedSeconds: append([]float64{}, e.ended...)}
	if e.fit != (fit{}) {
		s.Told = e.fit[:]
	}
	return json.Marshal(s)
}

// UnmarshalJSON restores a state. Of more than MaxEnded jobs it keeps the latest. A text that is
// no state is an error that says why, and leaves the Estimator as it was.
func (e *Estimator) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var read state
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("parse state of ETAs: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("parse state of ETAs: there is more behind its end")
	}
	if read.EndedSeconds == nil {
		return errors.New("parse state of ETAs: ended_seconds is missing; want a list of seconds")
	}
	for i, seconds := range read.EndedSeconds {
		if !(seconds > 0 && seconds <= most) {
			return fmt.Errorf("parse state of ETAs: ended_seconds[%d] is %v; want more than 0 and at most %v", i, seconds, most)
		}
	}
	told, err := readFit(read.Told)
	if err != nil {
		return err
	}
	e.fit = told
	e.ended = slices.Clone(read.EndedSeconds[max(0, len(read.EndedSeconds)-MaxEnded):])
	e.sorted = slices.Sorted(slices.Values(e.ended))
	return nil
}
