package main

import (
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
)

const (
	sacct      = "7|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|gres/gpu:a100=4|bob|speech\n"
	noEligible = "The export has no column Eligible, so time spent on dependencies and array limits counts as time in the queue.\n"
	converted  = "job_id,submit_s,duration_s,gpus,start_s,user,group\n7,0,3600,4,5,bob,speech\n"
)

func TestConvert(t *testing.T) {
	t.Parallel()
	const header = "JobIDRaw|Submit|Start|ElapsedRaw|AllocTRES|User|Account|Eligible\n"
	file := write(t, t.TempDir(), "sacct.txt", header+strings.TrimSpace(sacct)+"|2026-05-01T10:00:00\n")
	if got := succeed(t, "trace", "convert", "--from=slurm", file); got != converted {
		t.Errorf("stdout %q; want %q", got, converted)
	}
	for name, input := range map[string]string{
		"byte order mark": "\ufeff" + sacct,
		"UTF-16":          clitest.UTF16(sacct, false),
		"UTF-16, big":     clitest.UTF16(sacct, true),
	} {
		stdout, stderr, status := clitest.Run(t, run, nil, input, "trace", "convert", "--from=slurm", "-")
		if stdout != converted || stderr != noEligible || status != cli.ExitDone {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", name, status, stdout, stderr)
		}
	}
}

// TestConvertCounts checks that omitted jobs are counted, and that a result without jobs is an error.
func TestConvertCounts(t *testing.T) {
	t.Parallel()
	const never = "8|2026-05-01T10:00:00|Unknown|0||bob|sp\x1b[31m\n9|2026-05-01T10:00:00|\x1b[31m|0||bob|a\n"
	const remarks = "1 job left out: never started\n  standard input:1: Start is \"Unknown\"\n" +
		"1 job left out: Start not valid\n  standard input:2: Start is \"\\x1b[31m\"; " +
		"must be a date and a time, such as 2026-05-04T09:00:00, or Unix seconds\n"
	stdout, stderr, status := clitest.Run(t, run, nil, never+sacct, "trace", "convert", "--from=slurm", "-")
	if stdout != converted || stderr != remarks+"1 of 3 jobs written\n"+noEligible || status != cli.ExitDone {
		t.Errorf("exit status %d, stdout %q, stderr:\n%s", status, stdout, stderr)
	}
	stdout, stderr, status = clitest.Run(t, run, nil, never, "trace", "convert", "--from=slurm", "-")
	if stdout != "" || stderr != remarks+"elastalloc-lab trace convert: no job is left of 2; nothing was written\n" ||
		status != cli.ExitFailed {
		t.Errorf("exit status %d, stdout %q, stderr:\n%s", status, stdout, stderr)
	}
	stdout, stderr, status = clitest.Run(t, run, nil,
		strings.ReplaceAll(sacct, "gres/gpu:a100=4", "cpu=4"), "trace", "convert", "--from=slurm", "-")
	if stdout != "" ||
		!strings.Contains(stderr, "No AllocTRES has gres/gpu. AccountingStorageTRES in slurm.conf must contain gres/gpu.\n") ||
		status != cli.ExitFailed {
		t.Errorf("no GPUs: exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	stdout, stderr, status = clitest.Run(t, run, nil, "", "trace", "convert", "--from=slurm", "-")
	if stdout != "" || !strings.Contains(stderr, "no job is left of 0") || status != cli.ExitFailed {
		t.Errorf("nothing: exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}
