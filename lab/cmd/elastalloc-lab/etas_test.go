package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestETAs reads a recording of jobs that each take 30 minutes on one node. The ETAs of one caller are correct. The
// ETAs of the other caller are half or twice as long, by group.
func TestETAs(t *testing.T) {
	var calls []recording.Entry
	const took, jobs = 30 * time.Minute, 6
	for minute := 0; minute <= 70; minute += 5 {
		now := time.Duration(minute) * time.Minute
		for caller, estimate := range map[string][]time.Duration{"correct": {took}, "wrong": {took / 2, took * 2}} {
			snapshot := &elastallocv1.Snapshot{Id: "pool", TotalNodes: jobs}
			groups := []string{"optimistic", "cautious"}[:len(estimate)]
			for _, group := range groups {
				snapshot.Groups = append(snapshot.Groups, &elastallocv1.Group{Id: group})
			}
			for i := range jobs {
				submitted := 5 * time.Minute * time.Duration(1+i)
				if now < submitted || now >= submitted+took {
					continue
				}
				snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{
					Id: string(rune('a' + i)), CurrentNodes: 1, GroupId: groups[i%len(groups)],
					RemainingEta: durationpb.New(max(estimate[i%len(estimate)]-(now-submitted), time.Second)),
					TrainingTime: durationpb.New(now - submitted),
				})
			}
			if minute == 0 || minute == 70 { // This job is active at the start and at the end.
				snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{
					Id: "z", CurrentNodes: 0, GroupId: groups[0], RemainingEta: durationpb.New(time.Hour),
				})
			}
			options := &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}
			calls = append(calls, recording.Entry{
				Time: time.Date(2026, 11, 2, 9, minute, 0, 0, time.UTC), Caller: caller,
				Request: &elastallocv1.AllocateRequest{Snapshot: snapshot, Options: options}, Response: new(elastallocv1.AllocateResponse),
			})
		}
	}
	dir := clitest.Record(t, calls...)

	// A job that exceeds its estimate is last recorded after 25 minutes, with an ETA of a second. At half of
	// this time, its ETA was 2.5 instead of 12.5 minutes. The ETA of the others was 45 instead of 15 minutes.
	stdout := succeed(t, "etas", "--recording", dir)
	if want := "CALLER JOBS BIAS P50 P90 ETA_ERROR HALFWAY" +
		" correct 6 1.00 1.00 1.00 0.00 0.00" +
		" wrong 6 1.08 1.83 2.00 0.61 1.38 cautious 3 0.50 2.00 2.00 0.69 1.10 optimistic " +
		"3 1.67 1.67 1.67 0.51 1.61"; strings.Join(strings.Fields(stdout), " ") != want {
		t.Errorf("stdout:\n%s\nwant %s", stdout, want)
	}

	state := filepath.Join(t.TempDir(), "etas.json")
	if stdout = succeed(t, "etas", "--recording", dir, "--caller=correct", "--state", state); strings.Contains(stdout, "wrong") {
		t.Errorf("the table has another caller:\n%s", stdout)
	}
	var e eta.Estimator
	readJSON(t, &e, state)
	if got := e.Estimate(eta.Job{WorkDone: 10 * time.Minute}).ETA; got != 20*time.Minute {
		t.Errorf("after 10 of 30 minutes %v are left", got)
	}
	for args, want := range map[string]string{
		"--state=x":                  "--state is for one cluster, and there are 2 callers; --caller must be set",
		"--caller=correct --state=/": "is a directory",
	} {
		_, stderr, status := runWith(t, nil, append([]string{"etas", "--recording", dir}, strings.Fields(args)...)...)
		if status == cli.ExitDone || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, stderr %q; want %q", args, status, stderr, want)
		}
	}
}
