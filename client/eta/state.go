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
	// CompletedSeconds is the work of completed jobs in seconds on one node, in the order of
	// completion.
	CompletedSeconds []float64 `json:"completed_seconds"`
	// UserEstimates is the fit of their users' estimates.
	UserEstimates []float64 `json:"user_estimates,omitempty"`
}

// MarshalJSON returns the state: the work of completed jobs, and the errors of their estimates.
func (e *Estimator) MarshalJSON() ([]byte, error) {
	s := state{CompletedSeconds: append([]float64{}, e.completed...)}
	if e.fit != (fit{}) {
		s.UserEstimates = e.fit[:]
	}
	return json.Marshal(s)
}

// UnmarshalJSON restores a state, and keeps the latest MaxCompleted jobs of it. If the text is not a
// state, it returns an error and does not change the Estimator.
func (e *Estimator) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var read state
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("parse state of ETAs: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("parse state of ETAs: there is text after its end")
	}
	if read.CompletedSeconds == nil {
		return errors.New("parse state of ETAs: completed_seconds: is missing; must be a list of seconds")
	}
	for i, seconds := range read.CompletedSeconds {
		if !(seconds > 0 && seconds <= maxETA) {
			return fmt.Errorf("parse state of ETAs: completed_seconds[%d]: is %v; must be greater than 0 and at most %v", i, seconds, maxETA)
		}
	}
	fit, err := readFit(read.UserEstimates)
	if err != nil {
		return err
	}
	e.fit = fit
	e.completed = slices.Clone(read.CompletedSeconds[max(0, len(read.CompletedSeconds)-MaxCompleted):])
	e.sorted = slices.Sorted(slices.Values(e.completed))
	return nil
}
