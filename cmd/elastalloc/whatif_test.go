package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestWhatIfIsWorthIt checks the benefit of a scenario, its benefit per node and the job that stops. By how little it
// stops is the loss that explain returns for the pool of the scenario.
func TestWhatIfIsWorthIt(t *testing.T) {
	t.Parallel()
	const busy, stopped = "../../examples/busy.json", "llama-7b-pretrain-de"
	text, err := os.ReadFile(busy)
	if err != nil {
		t.Fatal(err)
	}
	small := strings.Replace(string(text), `"totalNodes": 110`, `"totalNodes": 60`, 1)
	explained := new(elastallocv1.ExplainResponse)
	if err := protojson.Unmarshal([]byte(succeed(t, small, "explain", "-f", "-", "-o", "json", "--job", stopped)), explained); err != nil {
		t.Fatal(err)
	}
	loss := math.Inf(1)
	for _, size := range explained.GetJobs()[0].GetSizes() {
		if size.GetNodes() > 0 {
			loss = min(loss, size.GetLoss())
		}
	}
	server := startServer(t)
	for _, where := range [][]string{nil, {"--server", server.Addr}} {
		table := succeed(t, "", append([]string{"whatif", "-f", busy, "--nodes=60,130", "--budget=1m"}, where...)...)
		want := fmt.Sprintf("\n60 nodes: %s stops. With 1 node, the plan would be worth "+
			"%.3g job-seconds saved per second less. %s is paused: ", stopped, loss, stopped)
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
		if strings.Contains(table, "130 nodes: ") {
			t.Errorf("a job stops with more nodes:\n%s", table)
		}
		rows := readCSV(t, succeed(t, "", append([]string{"whatif", "-f", busy, "--nodes=60,130", "--budget=1m", "-o=csv"}, where...)...))
		if len(rows) != 3 || rows[0]["benefit"] != "" || rows[1]["stopped"] != stopped || rows[1]["paused"] != "1" || rows[2]["stopped"] != "" {
			t.Fatalf("rows %v", rows)
		}
		for n, nodes := range map[int]float64{1: -50, 2: 20} {
			benefit, err := strconv.ParseFloat(rows[n]["benefit"], 64)
			if err != nil || benefit*nodes <= 0 {
				t.Errorf("%v more nodes have the benefit %v, %v", nodes, benefit, err)
			}
			if got, err := strconv.ParseFloat(rows[n]["benefit_per_node"], 64); err != nil || math.Abs(got-benefit/nodes) > 1e-9 {
				t.Errorf("%v more nodes have the benefit per node %v, %v; want %v", nodes, got, err, benefit/nodes)
			}
		}
	}
}
