package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/cli"
)

// TestRecordingShow checks which call of a recording is printed: there is one every five minutes
// from 09:00 UTC on.
func TestRecordingShow(t *testing.T) {
	dir := writeRecording(t)
	local := time.Date(2026, 11, 2, 9, 12, 0, 0, time.UTC).Local().Format("15:04")
	for at, want := range map[string]string{
		"2026-11-02T09:07:30Z": "2026-11-02T09:05:00Z", local: "2026-11-02T09:10:00Z", "": "2026-11-02T10:00:00Z",
	} {
		var call struct {
			Time              time.Time
			Method, Caller    string
			Request, Response json.RawMessage
		}
		args := []string{"recording", "show", "--recording", dir}
		if at != "" {
			args = append(args, "--at", at)
		}
		stdout := succeed(t, args...)
		if err := json.Unmarshal([]byte(stdout), &call); err != nil {
			t.Fatalf("%v\n%s", err, stdout)
		}
		if call.Time.Format(time.RFC3339) != want || call.Method != "Allocate" || call.Caller != "10.0.0.1" || call.Response == nil ||
			!strings.Contains(string(call.Request), `"pool"`) {
			t.Errorf("at %s: %s", at, stdout)
		}
	}
	for args, want := range map[string]string{
		"recording show": `"recording" not set`,
		"recording list": `unknown command "list"`,
		"recording show --at 2026-11-02T08:59:59Z --recording " +
			dir: "--at: is 2026-11-02T08:59:59Z; no call is recorded until then: the calls are from ",
	} {
		stdout, stderr, status := runWith(t, nil, strings.Fields(args)...)
		if status != cli.ExitBadInput || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: exit status %d, stderr %q; want %q", args, status, stderr, want)
		}
	}
}
