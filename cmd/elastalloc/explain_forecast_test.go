package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"
)

// TestWhyJSON checks that the commands print the responses as JSON.
func TestWhyJSON(t *testing.T) {
	for command, want := range map[string]string{
		"explain": "jobs", "whatif --nodes=10": "results", "forecast": "complete",
	} {
		args := append(strings.Fields(command), "-f", "testdata/queue.json", "-o", "json")
		var response map[string]any
		if err := json.Unmarshal([]byte(succeed(t, "", args...)), &response); err != nil || response[want] == nil {
			t.Errorf("%s: %v, %v", command, err, response)
		}
	}
}

// TestIncompleteForecast checks that a forecast that reaches its budget states this, and has no completion times.
func TestIncompleteForecast(t *testing.T) {
	clitest.CheckContains(t, "stdout", succeed(t, "", "forecast", "-f", "testdata/queue.json", "--budget=1ns"),
		"incomplete  the simulation stopped at the time budget or at 200,000 decisions", "mean        – to the completion, – to")
}

// TestStalledForecast checks that a forecast in which no job makes progress states this in all formats, in process and
// with a server.
func TestStalledForecast(t *testing.T) {
	request := `{"snapshot": {"totalNodes": 2, "jobs": [{"id": "a", "remainingEta": "400s", "weight": 0}]},
		"options": {"admission": "ADMISSION_PREEMPTIVE"}}`
	server := " --budget=1m --server " + startServer(t).Addr
	for flags, want := range map[string]string{
		"":                  "stalled    no job makes progress, so the simulation stopped",
		server:              "stalled    no job makes progress, so the simulation stopped",
		" -o svg":           "; no job makes progress, so the simulation stopped",
		" -o html":          "; no job makes progress, so the simulation stopped",
		" -o json":          `"stalled":true`,
		server + " -o json": `"stalled":true`,
	} {
		args := strings.Fields("forecast --every-event -f -" + flags)
		stdout := strings.ReplaceAll(succeed(t, request, args...), `": `, `":`)
		clitest.CheckContains(t, "stdout", stdout, want)
		if strings.Contains(stdout, "budget") || strings.Contains(stdout, `"complete":true`) {
			t.Errorf("%s:\n%s\nstates that it is complete, or that it reached the budget", args, stdout)
		}
	}
}

// TestForecastChart checks that the chart is well-formed and shows every job, and that names are escaped.
func TestForecastChart(t *testing.T) {
	request := `{"snapshot": {"id": "<&>", "totalNodes": 2, "jobs": [
		{"id": "</svg><script>alert(1)</script>", "remainingEta": "600s", "currentNodes": 1, "maxNodes": 1},
		{"id": "\u001b[31mred", "remainingEta": "600s", "minNodes": 2},
		{"id": "large", "remainingEta": "600s", "minNodes": 4}]}}`
	for _, format := range []string{"svg", "html"} {
		stdout := succeed(t, request, "forecast", "-f", "-", "--eta-error=0.2", "-o", format)
		if strings.Contains(stdout, "<script>") || strings.Contains(stdout, "\x1b") || strings.Count(stdout, "<rect") != 4 {
			t.Errorf("%s:\n%s\nwant two jobs, each with its range, and escaped names", format, stdout)
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
