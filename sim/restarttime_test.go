package sim

import (
	"strings"
	"testing"
	"time"
)

// TestRestartTimeColumn checks that restart_s is the restart time of its job and Config.RestartTime that of the others.
// Each job runs alone, so its completion time is its duration and one restart time, and one second until the start of
// the last two, which are not submitted at the time of a regular decision.
func TestRestartTimeColumn(t *testing.T) {
	t.Parallel()
	trace, err := ReadTrace(strings.NewReader("job_id,submit_s,duration_s,gpus,restart_s\n" +
		"own,0,600,8,45.5\nother,10000,600,8,\nshort,20000,600,8,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[*Config][]time.Duration{
		{RestartTime: 10 * time.Second}:  {646 * time.Second, 611 * time.Second, 603 * time.Second},
		{ScalingDelay: 15 * time.Second}: {646 * time.Second, 616 * time.Second, 603 * time.Second},
		{}:                               {646 * time.Second, 601 * time.Second, 603 * time.Second},
	} {
		full := DefaultConfig(1)
		full.RestartTime, full.ScalingDelay = config.RestartTime, config.ScalingDelay
		result, err := policy(t, "fifo").run(t.Context(), NewWorkload("w", trace, WorkloadOptions{GPUsPerNode: 8}), full, newAllocator())
		if err != nil {
			t.Fatal(err)
		}
		for i, job := range result.Jobs {
			if got := job.TotalTime(); got != want[i] {
				t.Errorf("with restart time %v and scaling delay %v, job %s takes %v; want %v",
					config.RestartTime, config.ScalingDelay, job.ID, got, want[i])
			}
		}
	}
	if got := SnapshotAt(trace, 1, time.Second, 8).Jobs[0].RestartTime; got != 45500*time.Millisecond {
		t.Errorf("the restart time in a snapshot is %v", got)
	}
}

// TestRestartTimeColumnErrors checks the errors of restart_s, and that a written trace has it.
func TestRestartTimeColumnErrors(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"0":    `line 2: restart_s is "0"; must be greater than 0, or empty if unknown`,
		"-1":   `line 2: restart_s is "-1"; must be seconds, a number from 0 to`,
		"NaN":  `line 2: restart_s is "NaN"; must be seconds, a number from 0 to`,
		"2m":   `line 2: restart_s is "2m"; must be seconds, a number from 0 to`,
		"1e99": `line 2: restart_s is "1e99"; must be seconds, a number from 0 to`,
	} {
		_, err := ReadTrace(strings.NewReader("job_id,submit_s,duration_s,gpus,restart_s\na,0,600,8," + value + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("restart_s %q: %v; want %q", value, err, want)
		}
	}
	trace := Trace{{ID: "a", GPUs: 1, RestartTime: 1500 * time.Millisecond}, {ID: "b", GPUs: 1}}
	var written strings.Builder
	if err := trace.Window(0, 0).Write(&written); err != nil {
		t.Fatal(err)
	}
	if want := "job_id,submit_s,duration_s,gpus,restart_s\na,0,0,1,1.5\nb,0,0,1,\n"; written.String() != want {
		t.Errorf("the trace is %q; want %q", written.String(), want)
	}
	trace[0].RestartTime = -time.Second
	if err := trace.Write(&written); err == nil || !strings.Contains(err.Error(), "restart_s is -1; must be from 0") {
		t.Errorf("a negative restart time gives %v", err)
	}
}
