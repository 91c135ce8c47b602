package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestAudit audits the output of allocate: unchanged, with an objective that is too high, and without the plan.
func TestAudit(t *testing.T) {
	for name, test := range map[string]struct {
		flags   string
		change  func(*elastallocv1.AllocateResponse)
		status  int
		verdict string
		reason  string
	}{
		"right": {flags: "--certificate", verdict: "CONFIRMED", reason: "no plan is worth more"},
		"objective": {
			flags: "--certificate", change: func(r *elastallocv1.AllocateResponse) { r.Report.Objective += 0.5; r.Report.Bound += 0.5 },
			status: cli.ExitFailed, verdict: "REFUTED", reason: "the plan is worth",
		},
		"no plan": {status: cli.ExitFailed, verdict: "OPEN", reason: "the response has no plan (set include_plan)"},
	} {
		output, stderr, status := runWith(t, nil, "",
			append(strings.Fields("allocate -f testdata/queue.json -o json --budget=1m"), strings.Fields(test.flags)...)...)
		if status != cli.ExitDone {
			t.Fatalf("exit status %d, stderr %q", status, stderr)
		}
		if test.change != nil {
			response := new(elastallocv1.AllocateResponse)
			if err := protojson.Unmarshal([]byte(output), response); err != nil {
				t.Fatal(err)
			}
			test.change(response)
			output = protojson.Format(response)
		}
		file := filepath.Join(t.TempDir(), "response.json")
		if err := os.WriteFile(file, []byte(output), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, status := runWith(t, nil, "", "audit", "-f", "testdata/queue.json", "--answer", file, "-o", "json")
		var got struct{ Verdict, Reason string }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != test.status ||
			got.Verdict != test.verdict || !strings.Contains(got.Reason, test.reason) {
			t.Errorf("%s: exit status %d, stderr %q, %v, stdout %s", name, status, stderr, err, stdout)
		}
		stdout, _, status = runWith(t, nil, output, "audit", "-f", "testdata/queue.json", "--answer", "-")
		if status != test.status || !strings.HasPrefix(stdout, test.verdict+": ") {
			t.Errorf("%s: exit status %d, stdout %s", name, status, stdout)
		}
	}
	for _, args := range []string{
		"-f testdata/queue.json", "-f - --answer -", "-f testdata/queue.json --answer testdata/queue.json",
		"-f testdata/queue.json --answer - --work 0",
	} {
		if _, stderr, status := runWith(t, nil, "{", append([]string{"audit"}, strings.Fields(args)...)...); status != cli.ExitBadInput {
			t.Errorf("%s: exit status %d, stderr %q", args, status, stderr)
		}
	}
}
