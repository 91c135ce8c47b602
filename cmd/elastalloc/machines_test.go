package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestMachines checks what a pool of other machines would do: its size limits follow from them.
func TestMachines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	request := write("request.json", `{"snapshot": {"totalNodes": 24, "sizeLimits": [{"size": 8, "nodes": 8}], "jobs": [
		{"id": "a", "remainingEta": "3600s", "allowedNodes": [8]}, {"id": "b", "remainingEta": "3600s", "allowedNodes": [8]},
		{"id": "c", "remainingEta": "3600s", "allowedNodes": [4]}]},
		"options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_START_FIRST"}}`)
	broken := write("broken.json", `[{"units": 8}, {"units": 8, "free": 4, "count": 4}]`)
	whole := write("whole.json", `[{"units": 8, "count": 3}]`)
	out := succeed(t, "", "whatif", "-f", request, "--nodes", "24,64", "--machines", broken, "--machines", whole, "-o", "json")
	var response elastallocv1.WhatIfResponse
	if err := protojson.Unmarshal([]byte(out), &response); err != nil {
		t.Fatal(err)
	}
	for n, want := range []int32{12, 12, 12, 20} {
		got := int32(0)
		for _, a := range response.GetResults()[n].GetDecision().GetAllocations() {
			got += a.GetNodes()
		}
		if got != want {
			t.Errorf("scenario %d: %d nodes; want %d", n, got, want)
		}
	}
	table := succeed(t, "", "whatif", "-f", request, "--nodes", "24,32,64", "--machines", whole, "--unit", "gpu")
	if strings.Count(table, "keeps the size limits") != 1 ||
		!strings.Contains(table, "\n32 gpus, 64 gpus: the scenario changes the number of gpus and keeps the size limits of the snapshot; set") {
		t.Errorf("the table does not name the scenarios that keep the size limits, 32 and 64 GPUs:\n%s", table)
	}
	for text, want := range map[string]string{
		`{}`: "must be a list of machines", `[]`: "has no machine", `[{"units": 8, "gpus": 1}]`: `unknown field "gpus"`,
		`[{"units": 8, "count": 0}]`: "count is 0; must be at least 1", `[{"units": 8, "count": 100001}]`: "at most 100000",
		`[{"units": 8, "free": 9}]`: "free", `[{"units": -1}]`: "units",
	} {
		_, stderr, status := runWith(t, nil, "", "whatif", "-f", request, "--machines", write("bad.json", text))
		if status != cli.ExitBadInput || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, %q; want %q", text, status, stderr, want)
		}
	}
}
