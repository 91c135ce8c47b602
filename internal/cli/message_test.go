package cli

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestParseMessage checks that every duration of Go's and of protojson's is read, and
// that the rest of the text does not change.
func TestParseMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		eta := time.Duration(rapid.Int64().Draw(t, "eta"))
		restart := time.Duration(rapid.Int64().Draw(t, "restart"))
		want := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{
			Id: "3h", TotalNodes: 8,
			Jobs: []*elastallocv1.Job{{Id: rapid.String().Draw(t, "id"), RemainingEta: durationpb.New(eta), RestartTime: durationpb.New(restart)}},
		}}
		text, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: rapid.Bool().Draw(t, "names")}.Marshal(want)
		if err != nil {
			t.Skip("invalid UTF-8") // protojson refuses the id.
		}
		seconds, err := protojson.Marshal(want.GetSnapshot().GetJobs()[0].GetRemainingEta())
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.Replace(string(text), string(seconds), `"`+eta.String()+`"`, 1)
		got := new(elastallocv1.AllocateRequest)
		if err := ParseMessage([]byte(plain), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s is read as %v, %v; want %v", plain, got, err, want)
		}
	})
}

// TestParseMessageEnums checks the names of enum values.
func TestParseMessageEnums(t *testing.T) {
	t.Parallel()
	want := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Id: "total-time"}, Options: &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD,
	}}
	for objective, hold := range map[string]string{
		"total-time": "hold", "TOTAL_TIME": "HOLD", "OBJECTIVE_TOTAL_TIME": "BAD_JOBS_HOLD",
		"Total-Time": "Hold", "objective-total_time": "bad-jobs-hold",
	} {
		text, got := `{"snapshot": {"id": "total-time"}, "options": {"objective": "`+
			objective+`", "bad_jobs" :  "`+hold+`"}}`, new(elastallocv1.AllocateRequest)
		if err := ParseMessage([]byte(text), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s is read as %v, %v; want %v", text, got, err, want)
		}
	}
	for _, unknown := range []string{"shortest", "", "hold", "ADMISSION_FIFO", "total.time"} {
		err := ParseMessage([]byte(`{"options": {"objective": "`+unknown+`"}}`), new(elastallocv1.AllocateRequest))
		if err == nil || !strings.Contains(err.Error(), "objective must be one of OBJECTIVE_PROGRESS, OBJECTIVE_TOTAL_TIME") {
			t.Errorf("%q: %v; want the valid names", unknown, err)
		}
	}
}

func TestParseMessageErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"snapshot": {"jobs": [{}, {"remainingEta": 10800}]}}`: `remainingEta must be ` +
			`a time with its unit, such as "10800s", "90m" or "3h"`,
		`{"snapshot": {"jobs": [{"remaining_eta": "3 h"}]}}`:                          `value "3 h"; remaining_eta must be a time`,
		`{"snapshot": {"jobs": [{"remainingEta": "10800"}]}}`:                         `value "10800"; remainingEta must be a time`,
		"{\"snapshot\": {\"jobs\": [{\"remainingEta\": \"1h\",\n \"restartTime\": 1}": "(line 2): unexpected token 1; restartTime must be a time",
		"{\n \"totalNodes\": 8}":                                                      `(line 2): unknown field "totalNodes"`,
		`{"snapshot": {"jobs": [{"max": 4}]}}`:                                        `unknown field "max"`,
		`{"snapshot": {"jobs": [{"scaling": {}}, {"id": "}", "priority": 4}]}}`:       `unknown field "priority"`,
		`{"options": {"timeBudget": "3h", "priority": 4}}`:                            `unknown field "priority"`,
		`{"options": {"backend": "precise"}}`:                                         "backend must be one of BACKEND_EXACT, ",
		`{"snapshot": {"id": "3h", "id": "4h"}}`:                                      `duplicate field "id"`,
		`{"snapshot": {"totalNodes": "many"}}`:                                        `int32 field totalNodes: "many"`,
		`{"snapshot": {"jobs": [{"id": 5}]}}`:                                         "string field id: 5",
		`{"snapshot": {"jobs": [{"speeds": [{"type": 1}]}]}}`:                         `unknown field "type"`,
		`{"snapshot": {"jobs": [{"scaling": {"table": {"speeds": [{}]}}}]}}`:          "double field",
		`{"options": {"includePlan": 1}}`:                                             "bool field includePlan: 1",
		`{"snapshot": {"jobs": [{"weight": "x"}]}}`:                                   `double field weight: "x"`,
		`{"snapshot": {"jobs": [{"scaling": 5}]}}`:                                    "scaling must be an object, {…}",
		`{"snapshot": []}`:            "snapshot must be an object, {…}",
		`{"snapshot": {"jobs": {}}}`:  "jobs must be a list, […]",
		`{"snapshot": {"jobs": [5]}}`: "jobs must be an object, {…}",
		`[]`:                          "is not an object in JSON, {…}",
		"snapshot:\n  jobs: []":       "is not an object in JSON",
		"\ufeff{\"snapshot\": 5}":     "snapshot must be an object",
		`{`:                           "unexpected EOF",
	} {
		if err := ParseMessage([]byte(text), new(elastallocv1.AllocateRequest)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused by %v; want %q", text, err, want)
		}
	}
}

// TestFieldNames checks that fields of requests that have one name are of one type, so that
// ParseMessage knows them, but for the speeds of a table, numbers, and of a job, messages.
func TestFieldNames(t *testing.T) {
	t.Parallel()
	m := messageText{fields: make(map[string]protoreflect.FieldDescriptor)}
	m.add(new(elastallocv1.AllocateRequest).ProtoReflect().Descriptor())
	m.add(new(elastallocv1.WhatIfRequest).ProtoReflect().Descriptor())
	for name, field := range m.fields {
		if (field == nil) != (name == "speeds") {
			t.Errorf("fields named %s are %v", name, field)
		}
	}
}

// FuzzParseMessage checks that what protojson takes is taken as protojson takes it.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"snapshot": {"totalNodes": 8, "jobs": [{"id": "a", "remainingEta": "3h"}]}, "options": {"timeBudget": "1s"}}`))
	f.Add([]byte(`{"snapshot": null, "options": {"backend": 1, "totalTime": []}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, want := new(elastallocv1.AllocateRequest), new(elastallocv1.AllocateRequest)
		err := ParseMessage(text, got)
		if protojson.Unmarshal(text, want) == nil && (err != nil || !proto.Equal(got, want)) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	})
}
