package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
)

// phillyJob is a job of Philly's log, in JSON. It ran once per attempt.
type phillyJob struct {
	ID        string          `json:"jobid"`
	User      string          `json:"user"`
	VC        string          `json:"vc"`
	Submitted string          `json:"submitted_time"`
	Attempts  []phillyAttempt `json:"attempts"`
}

type phillyAttempt struct {
	Start  string `json:"start_time"`
	End    string `json:"end_time"`
	Detail []struct {
		GPUs []json.RawMessage `json:"gpus"`
	} `json:"detail"`
}

// readPhilly reads a list of jobs in JSON.
func (c *Converter) readPhilly(name string, r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	line, counted := 1, 0
	// place returns where the next value is.
	place := func() string {
		at := int(decoder.InputOffset())
		at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n,"))
		line += bytes.Count(text[counted:at], []byte("\n"))
		counted = at
		return fmt.Sprintf("%s:%d", name, line)
	}
	list := place()
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return fmt.Errorf("%s: must be a list of jobs in JSON, [{\"jobid\": …}, …]", list)
	}
	for decoder.More() {
		at := place()
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return fmt.Errorf("%s: %w", at, jsonError(err))
		}
		j := job{place: at}
		c.add(j, c.parsePhilly(raw, &j))
	}
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("%s: %w", place(), jsonError(err))
	}
	if rest := place(); counted < len(text) {
		return fmt.Errorf("%s: more text after the list of jobs", rest)
	}
	return nil
}

// jsonError returns a clearer error for a truncated text.
func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends within the list of jobs")
	}
	return err
}

// jsonType returns the JSON name of a type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	default:
		return "a " + t.String()
	}
}

// parsePhilly reads a job. Its duration is the sum over its attempts, its GPUs are those of the
// last one. The start leaves out the time between attempts.
func (c *Converter) parsePhilly(raw json.RawMessage, j *job) *refusal {
	var logged phillyJob
	if err := json.Unmarshal(raw, &logged); err != nil {
		if bad := new(json.UnmarshalTypeError); errors.As(err, &bad) {
			return &refusal{"field of the wrong type", fmt.Sprintf("%s is of the type %s; must be %s", bad.Field, bad.Value, jsonType(bad.Type))}
		}
		return &refusal{"not valid JSON", err.Error()}
	}
	j.ID, j.User, j.Group = logged.ID, logged.User, logged.VC
	var last time.Time
	attempts := logged.Attempts[:0]
	for _, attempt := range logged.Attempts {
		if unknown(attempt.Start) || unknown(attempt.End) {
			c.leaveOut("attempt", j.place, &refusal{reason: "start_time or end_time unknown"})
			continue
		}
		attempts = append(attempts, attempt)
	}
	if len(attempts) == 0 {
		return &refusal{reason: "no attempt with a start and an end"}
	}
	for _, attempt := range attempts {
		start, refused := utc("start_time", attempt.Start)
		if refused != nil {
			return refused
		}
		end, refused := utc("end_time", attempt.End)
		if refused != nil {
			return refused
		}
		if end.Before(start) {
			return &refusal{"ends before it starts", quoted("start_time", attempt.Start) + ", " + quoted("end_time", attempt.End)}
		}
		if end.After(last) {
			last = end
		}
		// More than any trace takes, so that sums cannot overflow.
		const century = 100 * 365 * 24 * time.Hour
		j.Duration += min(end.Sub(start), century-j.Duration)
	}
	for _, detail := range attempts[len(attempts)-1].Detail {
		j.GPUs += len(detail.GPUs)
	}
	if j.GPUs == 0 {
		return &refusal{reason: "ran on no GPUs"}
	}
	var refused *refusal
	if j.submit, refused = utc("submitted_time", logged.Submitted); refused != nil {
		return refused
	}
	start := last.Add(-j.Duration) // So that the job completes when it did.
	if j.start = &start; start.Before(j.submit) {
		return &refusal{"started before its submission", quoted("submitted_time", logged.Submitted)}
	}
	return nil
}

// unknown reports whether a time is not known. A null is read as "".
func unknown(value string) bool { return value == "" || value == "None" }
