package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// recordDecisions records decisions on the jobs a, a and b, and b and c, every five minutes from 14:00 local time on,
// and then a failed call.
func recordDecisions(t *testing.T) string {
	t.Helper()
	allocator, err := cli.NewInProcess(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var calls []recording.Entry
	for n, ids := range []string{"a", "ab", "bc", "a"} {
		request := &elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{Id: "snapshot " + ids, TotalNodes: 3},
			Options:  &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(time.Nanosecond)},
		}
		for _, id := range ids {
			request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{Id: string(id), RemainingEta: durationpb.New(time.Hour)})
		}
		entry := recording.Entry{
			Time:   time.Date(2026, 11, 2, 14, 5*n, 0, 0, time.Local),
			Caller: "scheduler", RequestID: "id-" + ids, Request: request,
		}
		if n < 3 {
			if entry.Response, err = allocator.Allocate(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		calls = append(calls, entry)
	}
	return clitest.Record(t, calls...)
}

// TestExplainRecording checks which decision of a recording is explained.
func TestExplainRecording(t *testing.T) {
	dir := recordDecisions(t)
	of := func(minute, caller string) string {
		at := time.Date(2026, 11, 2, 14, 0, 0, 0, time.Local).Format(time.RFC3339)
		return "The decision of " + strings.Replace(at, "14:00", "14:"+minute, 1) + ", caller scheduler, request id " + caller + ":\n\n"
	}
	for args, want := range map[string]string{
		"":                             of("10", "id-bc"),
		"--at 14:10":                   of("10", "id-bc"),
		"--at 14:09:59":                of("05", "id-ab"),
		"--job a":                      of("05", "id-ab"),
		"--job b --job a --at 14:59":   of("05", "id-ab"),
		"--at 14:04 --job a":           of("00", "id-a"),
		"--at 2026-11-03T00:00:00.5Z ": of("10", "id-bc"),
	} {
		stdout := succeed(t, "", append(strings.Fields("explain --recording "+dir), strings.Fields(args)...)...)
		if !strings.HasPrefix(stdout, want) || !strings.Contains(stdout, "SIZE") {
			t.Errorf("%q:\n%s\nwant %s", args, stdout, want)
		}
	}
	stdout, stderr, status := runWith(t, nil, "", "explain", "--recording", dir, "--at=14:07", "-o=json")
	var response map[string]any
	if err := json.Unmarshal([]byte(stdout), &response); err != nil || stderr != of("05", "id-ab") || status != cli.ExitDone {
		t.Errorf("exit status %d, stderr %q, stdout %v", status, stderr, err)
	}
	// The time budget of the recorded decision is not applied to the explanation.
	if !strings.Contains(stdout, `"reason": "REASON_OPTIMAL"`) {
		t.Errorf("stdout:\n%s", stdout)
	}
}

// TestExplainAt checks times of day within their minute or second and across midnight, and callers.
func TestExplainAt(t *testing.T) {
	allocator, err := cli.NewInProcess(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour, minute, second, millisecond int) time.Time {
		return time.Date(2026, 11, day, hour, minute, second, millisecond*1e6, time.Local)
	}
	var calls []recording.Entry
	for _, call := range []struct {
		id, caller string
		at         time.Time
	}{
		{"first", "a", at(1, 23, 40, 0, 0)},
		{"late", "a", at(1, 23, 50, 59, 900)},
		{"midnight", "b", at(2, 0, 0, 0, 0)},
		{"early", "a", at(2, 0, 5, 7, 500)},
		{"early-b", "b", at(2, 0, 5, 8, 0)},
		{"end", "a", at(2, 0, 9, 30, 0)},
	} {
		request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{
			TotalNodes: 3, Jobs: []*elastallocv1.Job{{Id: "job", RemainingEta: durationpb.New(time.Hour)}},
		}}
		response, err := allocator.Allocate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, recording.Entry{Time: call.at, Caller: call.caller, RequestID: call.id, Request: request, Response: response})
	}
	dir := clitest.Record(t, calls...)
	for args, want := range map[string]string{
		"":                                "end",
		"--at 00:09":                      "end",
		"--at 00:05":                      "early-b",
		"--at 00:05:07":                   "early",
		"--at 00:05:06":                   "midnight",
		"--at 00:00":                      "midnight",
		"--at 23:50":                      "late", // yesterday
		"--at 23:50:58":                   "first",
		"--at 23:59":                      "late",
		"--at 14:05":                      "end", // The recording begins after 14:05 of the day before.
		"--caller b":                      "early-b",
		"--caller b --at 00:04":           "midnight",
		"--caller a --at 00:05":           "early",
		"--caller a --at 00:04 --job job": "late",
	} {
		stdout := succeed(t, "", append(strings.Fields("explain --recording "+dir), strings.Fields(args)...)...)
		if !strings.Contains(stdout, ", request id "+want+":\n") {
			t.Errorf("%q:\n%s\nwant %s", args, stdout, want)
		}
	}
	_, stderr, status := runWith(t, nil, "", "explain", "--recording", dir, "--caller", "c")
	if want := "no decision of the caller c is recorded until then"; status != cli.ExitBadInput || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d, stderr %q; want %q", status, stderr, want)
	}
}

// TestExplainRecordedSizeLimit checks that a recorded decision is explained within its size limit: two jobs of
// 4 nodes, of which the limit admits one.
func TestExplainRecordedSizeLimit(t *testing.T) {
	allocator, err := cli.NewInProcess(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{Id: "limited", TotalNodes: 11, SizeLimits: []*elastallocv1.SizeLimit{{Size: 4, Nodes: 4}}},
		Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
	}
	for _, id := range []string{"a", "b"} {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
			Id: id, MinNodes: new(int32(4)), MaxNodes: new(int32(4)), RemainingEta: durationpb.New(time.Hour),
		})
	}
	response, err := allocator.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	dir := clitest.Record(t, recording.Entry{Time: time.Now(), Request: request, Response: response})
	clitest.CheckContains(t, "stdout", succeed(t, "", "explain", "--recording", dir, "--job", "b"),
		"b waits: the size limits leave less than 4 nodes")
}

func TestExplainRecordingErrors(t *testing.T) {
	dir := recordDecisions(t)
	for args, want := range map[string]string{
		"":                                     "[file recording] is required",
		"-f testdata/queue.json --recording x": "[file recording]",
		"-f testdata/queue.json --at 14:05":    "[at file]",
		"--recording " + t.TempDir():           "--recording: no recordings",
		"--recording " + dir +
			" --at=noon": `--at: is "noon"; must be a time in RFC 3339, such as 2026-05-04T14:05:00Z, or of a day, such as 14:05`,
		"--recording " + dir + " --at 13:59":      "--at: is 13:59; no decision is recorded until then: the calls are from ",
		"--recording " + dir + " --job z":         "--at: is not set; no decision with the job z is recorded until then",
		"--recording " + dir + " --job a --job c": "no decision with the job a and the job c is recorded until then",
	} {
		_, stderr, status := runWith(t, nil, "", append([]string{"explain"}, strings.Fields(args)...)...)
		if status != cli.ExitBadInput || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stderr %q; want %q", args, status, stderr, want)
		}
	}
}

// TestExplainOthers checks that an explanation states if its nodes differ from the recorded nodes.
func TestExplainOthers(t *testing.T) {
	dir := clitest.Record(t, recording.Entry{
		Time: time.Now(),
		Request: &elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{TotalNodes: 2, Jobs: []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(time.Hour)}}},
		},
		Response: &elastallocv1.AllocateResponse{Allocations: []*elastallocv1.Allocation{{JobId: "a", Nodes: 1}}},
	})
	stdout, stderr, status := runWith(t, nil, "", "explain", "--recording", dir)
	if status != cli.ExitDone ||
		!strings.Contains(stderr,
			"warning: the new decision gives other nodes to 1 job, such as a 2 instead of 1; the explanation is for the new decision") {
		t.Errorf("exit status %d, stderr %q", status, stderr)
	}
	clitest.CheckContains(t, "stdout", stdout, "caller unknown, request id unknown:\n\n")
}
