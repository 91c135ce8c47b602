package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/clitest"
)

// scenarios is a file of scenarios, one of which is wrong.
const scenarios = `{"scenarios": [
	{"name": "bert is urgent", "putJobs": [{"id": "bert-large-wiki-phase2", "remainingEta": "101180s", "currentNodes": 4, "weight": 8}]},
	{"name": "gone", "removeJobIds": ["no-such-job"]},
	{"name": "no pauses", "options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_OPTIMIZED"}}
]}`

// TestWhyWhatIfForecast compares what the commands show a person with golden files; go test
// -update rewrites them. No line is wider than a terminal.
func TestWhyWhatIfForecast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenarios.json")
	if err := os.WriteFile(file, []byte(scenarios), 0o600); err != nil {
		t.Fatal(err)
	}
	const busy = " -f ../../examples/busy.json --budget=10m"
	for name, args := range map[string]string{
		"explain":            "explain" + busy,
		"explain_progress":   "explain --objective=progress --admission=fifo" + busy,
		"explain_jobs":       "explain --job=bert-large-wiki-phase2 --job=llama-7b-pretrain-de --job=gpt-neox-20b-pretrain" + busy,
		"whatif_nodes":       "whatif --nodes=90,100,120,130" + busy,
		"whatif_many":        "whatif --nodes=90,95,100,105,110,115,120,125,130" + busy,
		"whatif_remove":      "whatif --remove=gpt-neox-20b-pretrain --remove=llama-7b-pretrain-de --nodes=130" + busy,
		"whatif_node_types":  "whatif --node-type=a100=8 --node-type=t4=24 -f testdata/node_types.json --budget=10m",
		"explain_node_types": "explain --job=bert --job=resnet --job=short -f testdata/node_types.json --budget=10m",
		"whatif_scenarios":   "whatif --scenarios=" + file + busy,
		"forecast":           "forecast --every-event" + busy,
		"forecast_range":     "forecast --every-event --eta-error=0.3 --samples=5" + busy,
		"forecast_until":     "forecast --until=2h" + busy,
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, status := runWith(t, nil, "", strings.Fields(args)...)
			if status != cli.ExitDone || stderr != "" {
				t.Fatalf("exit status %d, stderr %q", status, stderr)
			}
			for line := range strings.Lines(stdout) {
				if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 {
					t.Errorf("a line of %d characters: %s", n, line)
				}
			}
			clitest.CompareGolden(t, name+".golden", stdout)
		})
	}
}

// TestWhyJSON checks that the commands print the responses as JSON.
func TestWhyJSON(t *testing.T) {
	for command, want := range map[string]string{
		"explain": "jobs", "whatif --nodes=10": "results", "forecast": "complete",
	} {
		args := append(strings.Fields(command), "-f", "testdata/queue.json", "-o", "json")
		stdout, stderr, status := runWith(t, nil, "", args...)
		var response map[string]any
		if err := json.Unmarshal([]byte(stdout), &response); err != nil || status != cli.ExitDone || response[want] == nil {
			t.Errorf("%s: exit status %d, stderr %q, %v", command, status, stderr, err)
		}
	}
}

// TestForecastIsDrawn checks that the chart is well-formed, with every job, whatever its name.
func TestForecastIsDrawn(t *testing.T) {
	request := `{"snapshot": {"id": "<&>", "totalNodes": 2, "jobs": [
		{"id": "</svg><script>alert(1)</script>", "remainingEta": "600s", "currentNodes": 1, "maxNodes": 1},
		{"id": "\u001b[31mred", "remainingEta": "600s", "minNodes": 2},
		{"id": "large", "remainingEta": "600s", "minNodes": 4}]}}`
	for _, format := range []string{"svg", "html"} {
		stdout, stderr, status := runWith(t, nil, request, "forecast", "-f", "-", "--eta-error=0.2", "-o", format)
		if status != cli.ExitDone {
			t.Fatalf("exit status %d, stderr %q", status, stderr)
		}
		if strings.Contains(stdout, "<script>") || strings.Contains(stdout, "\x1b") || strings.Count(stdout, "<rect") != 4 {
			t.Errorf("%s:\n%s\nwant two jobs, each with its range, and nothing of their names obeyed", format, stdout)
		}
		if format == "svg" {
			decoder := xml.NewDecoder(strings.NewReader(stdout))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
