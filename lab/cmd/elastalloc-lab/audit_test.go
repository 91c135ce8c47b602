package main

import (
	"strings"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// recordDecisions records six correct responses with and without plans, each modified by change.
func recordDecisions(t *testing.T, change func(*elastallocv1.AllocateResponse)) string {
	t.Helper()
	allocator, err := cli.NewInProcess(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var calls []recording.Entry
	for n := range 6 {
		request := &elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{Id: "pool", TotalNodes: 11},
			Options:  &elastallocv1.AllocateOptions{IncludePlan: n%2 == 0, Objective: elastallocv1.Objective(n % 3)},
		}
		for i, id := range []string{"a", "b", "c", "d"} {
			request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
				Id: id, CurrentNodes: int32(i), RemainingEta: durationpb.New(time.Duration(100*(i+n+1)) * time.Second),
			})
		}
		response, err := allocator.Allocate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		change(response)
		calls = append(calls, recording.Entry{Time: time.Date(2026, 11, 2, 9, n, 0, 0, time.UTC), Request: request, Response: response})
	}
	return clitest.Record(t, calls...)
}

func unchanged(*elastallocv1.AllocateResponse) {}

// TestAudit audits a recording of correct responses, and one with a response that claims too much.
func TestAudit(t *testing.T) {
	stdout := succeed(t, "audit", "--recording", recordDecisions(t, unchanged))
	const want = "DECISIONS CONFIRMED REFUTED OPEN progress, optimal 2 0 0 total-time, optimal 4 0 0 all 6 0 0"
	if strings.Join(strings.Fields(stdout), " ") != want {
		t.Errorf("stdout:\n%s", stdout)
	}
	stdout, stderr, status := runWith(t, nil, "audit", "--recording", recordDecisions(t, func(r *elastallocv1.AllocateResponse) {
		r.Allocations[0].Change = elastallocv1.Change_CHANGE_PREEMPT
	}))
	if status != cli.ExitFailed || !strings.Contains(stderr, "6 decisions refuted") || !strings.Contains(stdout, "CHANGE_PREEMPT") {
		t.Errorf("exit status %d, stderr %q, stdout:\n%s", status, stderr, stdout)
	}
}

// TestAuditSizeLimits audits recorded decisions within a size limit, and decisions that exceed it.
func TestAuditSizeLimits(t *testing.T) {
	allocator, err := cli.NewInProcess(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var right, wrong []recording.Entry
	for n := range 4 {
		request := &elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{Id: "limited", TotalNodes: 11, SizeLimits: []*elastallocv1.SizeLimit{{Size: 4, Nodes: 4}}},
			Options: &elastallocv1.AllocateOptions{
				Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
			},
		}
		for i, id := range []string{"a", "b"} {
			request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
				Id: id, MaxNodes: new(int32(4)), RemainingEta: durationpb.New(time.Duration(100*(i+n+1)) * time.Second),
			})
		}
		response, err := allocator.Allocate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		entry := recording.Entry{Time: time.Date(2026, 11, 2, 9, n, 0, 0, time.UTC), Request: request, Response: response}
		right = append(right, entry)
		unlimited := proto.CloneOf(request)
		unlimited.Snapshot.SizeLimits = nil
		if entry.Response, err = allocator.Allocate(t.Context(), unlimited); err != nil {
			t.Fatal(err)
		}
		wrong = append(wrong, entry)
	}
	stdout := succeed(t, "audit", "--recording", clitest.Record(t, right...))
	if strings.Join(strings.Fields(stdout), " ") != "DECISIONS CONFIRMED REFUTED OPEN total-time, optimal 4 0 0 all 4 0 0" {
		t.Errorf("stdout:\n%s", stdout)
	}
	stdout, stderr, status := runWith(t, nil, "audit", "--recording", clitest.Record(t, wrong...))
	if status != cli.ExitFailed || !strings.Contains(stderr, "4 decisions refuted") {
		t.Errorf("exit status %d, stderr %q, stdout:\n%s", status, stderr, stdout)
	}
}

// TestAuditIncomplete checks that an audit fails if it has not read all files or has not checked any decision.
func TestAuditIncomplete(t *testing.T) {
	whole := recordDecisions(t, unchanged)
	name := filesIn(t, whole)[0]
	text := read(t, whole, name)
	damaged := func(text string) string {
		dir := t.TempDir()
		write(t, dir, name, text)
		return dir
	}
	flipped := []byte(text)
	flipped[len(flipped)/2] ^= 1
	// Files are read in the order of their names. The complete file is checked.
	both := damaged(text[:len(text)/2])
	write(t, both, "decisions-20200101T000000Z.jsonl.zst", text)
	empty := damaged("")
	write(t, empty, "decisions-20200101T000000Z.jsonl.zst", text)
	request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Jobs: []*elastallocv1.Job{
		{Id: "frozen", RemainingEta: &durationpb.Duration{Seconds: 1 << 60}}, // It is not valid in JSON.
	}}}
	for name, test := range map[string]struct{ dir, want string }{
		"an empty file of two": {empty, "audit: 1 file not read to the end\n"},
		"a request that is not recorded": {
			clitest.Record(t, recording.Entry{Time: time.Now(), Request: request, Response: new(elastallocv1.AllocateResponse)}),
			"audit: 1 decision recorded without request or response; no decision was checked\n",
		},
		"a flipped bit": {damaged(string(flipped)), "1 file not read to the end"},
		"half a file":   {damaged(text[:len(text)/2]), "1 file not read to the end"},
		"one of two":    {both, "audit: 1 file not read to the end\n"},
		"an empty file": {damaged(""), "audit: 1 file not read to the end; no decision was checked\n"},
		"no decisions":  {clitest.Record(t, recording.Entry{Time: time.Now(), Status: &spb.Status{Code: 3}}), "audit: no decision was checked\n"},
	} {
		stdout, stderr, status := runWith(t, nil, "audit", "--recording", test.dir)
		if status != cli.ExitFailed || !strings.Contains(stderr, test.want) || !strings.Contains(stdout, "DECISIONS") {
			t.Errorf("%s: exit status %d, stderr %q, stdout:\n%s", name, status, stderr, stdout)
		}
	}
	succeed(t, "audit", "--recording", whole)
}
