package cli

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestPlainDurations checks that every duration of Go's and of protojson's is read, and
// that the rest of the text stays what it was.
func TestPlainDurations(t *testing.T) {
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

func TestParseMessageNamesFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{"snapshot": {"jobs": [{}, {"remainingEta": 10800}]}}`:                   {`snapshot.jobs[1].remainingEta (line 1:45): is 10800; want a time with its unit, such as "10800s", "90m" or "3h"`},
		`{"snapshot": {"jobs": [{"remaining_eta": "3 h"}]}}`:                      {`snapshot.jobs[0].remaining_eta (line 1:42): is "3 h"; want`},
		`{"snapshot": {"jobs": [{"remainingEta": "10800"}]}}`:                     {`is "10800"; want a time with its unit`},
		`{"snapshot": {"jobs": [{"remainingEta": "s"}]}}`:                         {`is "s"; want a time with its unit`},
		`{"snapshot": {"jobs": [{"remainingEta": "1h", "restartTime": 1}`:         {"the input ends before its JSON does"},
		"{\n \"totalNodes\": 8}":                                                  {"totalNodes (line 2:2): unknown field; it belongs in snapshot"},
		`{"remainingEta": "3h"}`:                                                  {"it belongs in snapshot.jobs[]"},
		`{"snapshot": {"jobs": [{"max": 4}]}}`:                                    {"snapshot.jobs[0].max (line 1:25): unknown field; did you mean maxNodes?"},
		`{"snapshot": {"jobs": [{"priority": 4}]}}`:                               {"unknown field; did you mean weight?"},
		`{"options": {"backend": "exact"}}`:                                       {`options.backend (line 1:25): is "exact"; want one of BACKEND_EXACT, `},
		"{\"options\": {\"backend\": \"exact\",\n\"gap\": 1, \"timeBudget\": 3}}": {"\n  options.backend (line 1:25): ", "\n  options.gap (line 2:1): unknown field; did you mean relativeGap?", "\n  options.timeBudget (line 2:25): is 3"},
		`{"snapshot": {"id": "3h", "id": "4h"}}`:                                  {`duplicate field "id"`},
		`{"snapshot": {"totalNodes": "many"}}`:                                    {`snapshot.totalNodes (line 1:29): is "many"; want a whole number`},
		`{"snapshot": {"totalNodes": 1.5, "jobs": [{"id": 5, "allowedNodes": [1, "x"]}]}, "options": {"includePlan": 1}}`: {
			"totalNodes (line 1:29): is 1.5; want a whole number", "jobs[0].id (line 1:50): is 5; want a text in quotes", `allowedNodes[1] (line 1:73): is "x"; want`, "includePlan (line 1:109): is 1; want true or false",
		},
		`{"snapshot": {"jobs": [{"remainingEta": "soon", "weight": "x", "scaling": 5}]}}`: {"remainingEta (line 1:41)", `weight (line 1:59): is "x"; want a number`, "scaling (line 1:75): is 5; want an object"},
		`{"snapshot": []}`:           {"snapshot (line 1:14): is []; want an object, {…}"},
		`{"snapshot": {"jobs": {}}}`: {"snapshot.jobs (line 1:23): is {}; want a list, […]"},
		`[]`:                         {"is not an object in JSON, {…}"},
		"snapshot:\n  jobs: []":      {"is not an object in JSON"},
		"\ufeff{\"snapshot\": 5}":    {"snapshot (line 1:14): is 5; want an object"},
		`{`:                          {"the input ends before its JSON does"},
	} {
		err := ParseMessage([]byte(text), new(elastallocv1.AllocateRequest))
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s is refused by %v; want %q", text, err, part)
			}
		}
	}
}

// FuzzParseMessage checks that what protojson takes is taken as protojson takes it.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"snapshot": {"totalNodes": 8, "jobs": [{"id": "a", "remainingEta": "3h"}]}, "options": {"timeBudget": "1s"}}`))
	f.Add([]byte(`{"snapshot": null, "options": {"backend": 1, "priceHint": {}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, want := new(elastallocv1.AllocateRequest), new(elastallocv1.AllocateRequest)
		err := ParseMessage(text, got)
		if protojson.Unmarshal(text, want) == nil && (err != nil || !proto.Equal(got, want)) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	})
}
