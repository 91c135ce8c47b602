package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/cli"
)

// combination is a request: with or without groups, node types and size limits, and with options in JSON.
type combination struct {
	groups, types, limits bool
	// sweep makes all jobs identical.
	sweep   bool
	steps   int
	options string
}

// request returns the request in JSON. Its nodes are GPUs.
func (c combination) request() string {
	var parts, jobs []string
	parts = append(parts, fmt.Sprintf(`"totalNodes": 24, "horizon": {"step": "300s", "steps": %d}`, c.steps))
	nodeType := ""
	if c.types {
		parts = append(parts, `"nodeTypes": [{"id": "a100", "nodes": 16}, {"id": "h100", "nodes": 8, "speed": 2}]`)
		nodeType = `"nodeType": "a100", `
	}
	if c.limits {
		parts = append(parts, `"sizeLimits": [{`+nodeType+`"size": 8, "nodes": 8}]`)
	}
	group := ""
	if c.groups {
		parts = append(parts, `"groups": [{"id": "vision", "quota": 8, "limit": 12}, {"id": "speech", "quota": 8}]`)
		group = `"groupId": "vision", `
	}
	for n := range 4 {
		state := ""
		if n == 0 && !c.sweep {
			state = `, "currentNodes": 2, "trainingTime": "600s"`
			if c.types {
				state += `, "currentNodeType": "a100"`
			}
		}
		eta := 3600
		if !c.sweep {
			eta *= 1 + n
		}
		jobs = append(jobs, fmt.Sprintf(`{"id": "j%d", %s"remainingEta": "%ds", "allowedNodes": [2, 4, 8]%s}`, n, group, eta, state))
	}
	parts = append(parts, `"jobs": [`+strings.Join(jobs, ", ")+`]`)
	return `{"snapshot": {` + strings.Join(parts, ", ") + `}, "options": {` + c.options + `}}`
}

// paper are the options of the paper's formulation.
const paper = `, "formulation": "paper", "backend": "cbc"`

// variants returns requests that differ in options, steps or jobs, of which only the formulation matters.
func (c combination) variants() (variants []combination) {
	for _, options := range []string{
		"", `, "backend": "greedy"`, `, "admission": "optimized"`,
		`, "admission": "preemptive"`, `, "admission": "fifo"`, `, "certificate": true`,
	} {
		variant := c
		variant.options = options
		variants = append(variants, variant)
	}
	long, sweep, other := c, c, c
	long.steps, sweep.sweep, other.options = 24, true, paper
	return append(variants, long, sweep, other)
}

// accepted returns the cells of a row of the table: for each command, whether it accepts the request.
func (c combination) accepted(t *testing.T) (cells string) {
	t.Helper()
	for _, command := range []string{"allocate -f -", "explain -f -", "whatif -f - --remove j0", "forecast -f -", "fill-idle -f -"} {
		_, stderr, status := runWith(t, nil, c.request(), append(strings.Fields(command), "--unit", "gpu")...)
		switch {
		case status == cli.ExitDone:
			cells += " yes |"
		case status == cli.ExitBadInput && strings.Contains(stderr, "OBJECTIVE_TOTAL_TIME"):
			cells += " no |"
		default:
			t.Fatalf("%s: exit status %d, %s\n%s", command, status, stderr, c.request())
		}
	}
	return cells
}

// TestCombinations compares the table of combinations in the documentation with what each command accepts. Nothing but the
// objective and the formulation matters.
func TestCombinations(t *testing.T) {
	t.Parallel()
	rows := make(map[string]string)
	for n := range 8 {
		base := combination{groups: n&1 > 0, types: n&2 > 0, limits: n&4 > 0, steps: 5}
		for _, objective := range []string{"total-time", "progress"} {
			features := "any of the three"
			if n == 0 {
				features = "none of the three"
			}
			for v, c := range base.variants() {
				name := "`" + objectiveName(objective) + "`"
				if c.options == paper && objective == "total-time" {
					name += " with `FORMULATION_PAPER` and the backend `cbc` or `highs`"
				}
				c.options = `"objective": "` + objective + `"` + c.options
				row, cells := "| "+name+" | "+features+" |", c.accepted(t)
				if before, seen := rows[row]; seen && before != cells {
					t.Errorf("%s%s: variant %d has%s", row, before, v, cells)
				}
				rows[row] = cells
			}
		}
	}
	page, err := os.ReadFile("../../docs/schedulers/whole-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for row, cells := range rows {
		if !strings.Contains(string(page), row+cells+"\n") {
			t.Errorf("the page does not have the row\n%s%s", row, cells)
		}
	}
	if got := strings.Count(string(page), "| `OBJECTIVE_"); got != len(rows) {
		t.Errorf("the page has %d rows; want %d", got, len(rows))
	}
}

// objectiveName returns the name of an objective in the API.
func objectiveName(short string) string {
	return "OBJECTIVE_" + strings.ToUpper(strings.ReplaceAll(short, "-", "_"))
}
