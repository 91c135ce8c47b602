package external

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// TestCBC checks the dialect of CBC. The conformance suite checks the results of CBC. CBC 2.10.8 has written
// the files in testdata, for a model of two jobs, for an instance of six jobs whose search was interrupted,
// and for infeasible models.
func TestCBC(t *testing.T) {
	const (
		head    = "Optimal - objective value -1.5\n"
		noPlan  = "Stopped on time (no integer solution - continuous used)"
		stopped = "Stopped on difficulties (no integer solution - continuous used)"
	)
	suite{
		new:      CBC,
		dialect:  cbc{},
		versions: []string{"2.", "3.", "devel"},
		errors:   []string{"No match", "out of range", "not valid", "errors on input", "mipstart values could not"},
		confirmations: []string{
			"MIPStart values read for", "timeMode changed from cpu to elapsed", "seconds was changed", "MIPStart provided solution",
		},
		real: map[string]solution{
			"optimal_one_hot": {
				Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1790, Values: 26,
				Some: map[string]float64{"x_1_1_4": 1, "x_2_1_1": 1, "x_1_1_1": 0, "pool_1": 5},
			},
			"optimal_paper": {
				Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1790, Values: 90,
				Some: map[string]float64{"n_1_1": 4, "n_2_1": 1, "dm_1_1_4": 1, "dm_1_1_2": 0},
			},
			"empty":               {Status: "Optimal", Verdict: subprocess.Optimal, Objective: 0, Values: 2},
			"time_with_plan":      {Status: "Stopped on time", Verdict: subprocess.Feasible, Objective: -3034.85464851, Values: 245},
			"solutions_with_plan": {Status: "Stopped on iterations", Verdict: subprocess.Feasible, Objective: -3034.85464851, Values: 245},
			"time_without_plan":   {Status: noPlan, Verdict: subprocess.TimedOut, Objective: -3062.56564691, Values: 0},
			"infeasible":          {Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: -765, Values: 0},
			"integer_infeasible":  {Status: "Integer infeasible", Verdict: subprocess.Infeasible, Objective: -1605.83333333, Values: 0},
		},
		files: map[string]solutionFile{
			"empty":                {Content: "", Error: "the file is empty"},
			"unknown status":       {Content: "0 x 1 0\n", Error: "unknown status"},
			"no objective":         {Content: "Optimal - objective value\n", Error: "unknown status"},
			"an invalid objective": {Content: "Optimal - objective value one\n", Error: `objective is "one"`},
			"an unknown status": {
				Content: "Unbounded - objective value 0\n0 x 1 0\n",
				Want:    subprocess.Solution{Status: "Unbounded", Verdict: subprocess.Failed},
			},
			"difficulties without a plan": {
				Content: stopped + " - objective value 0\n",
				Want:    subprocess.Solution{Status: stopped, Verdict: subprocess.Failed},
			},
			"values that violate their bounds": {
				Content: head + "** 0 x 1e-3 0\n   1 y -2 5\n",
				Want: subprocess.Solution{
					Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1.5, Values: map[string]float64{"x": 1e-3, "y": -2},
				},
			},
			"truncated in a line":   {Content: head + "0 x 1 0\n1 y", Error: `line 3: "1 y" must be an index`},
			"truncated in a number": {Content: head + "0 x 1e 0\n", Error: `line 2: value of x is "1e"`},
			"no index":              {Content: head + "x x 1 0\n", Error: `index is "x"`},
			"a duplicate value":     {Content: head + "0 x 1 0\n0 x 1 0\n", Error: "line 3: x has two values"},
			"an endless line":       {Content: head + strings.Repeat("x", 5000), Error: "token too long"},
			"an endless first line": {Content: strings.Repeat("x", 5000), Error: "token too long"},
		},
		outputs: map[string]parsedOutput{
			"optimal_one_hot":   {Version: "2.10.8", Bound: math.NaN()},
			"infeasible":        {Version: "2.10.8", Bound: math.NaN()},
			"time_with_plan":    {Version: "2.10.8", Bound: -3062.566},
			"time_without_plan": {Version: "2.10.8", Bound: -3062.566},
			"version":           {Version: "2.10.8", Bound: math.NaN()},
		},
	}.run(t)
}

func FuzzCBCSolution(f *testing.F) { fuzzSolution(f, "cbc", cbc{}) }

func FuzzCBCOutput(f *testing.F) { fuzzOutput(f, "cbc", cbc{}) }

func TestCBCArguments(t *testing.T) {
	task := subprocess.Task{Model: "m.mps", Solution: "s.txt"}
	bare := "-import m.mps -ratioGap 0 -allowableGap 0 -increment 0 -primalTolerance 1e-9 -integerTolerance 1e-9" +
		" -randomSeed 1 -randomCbcSeed 1 -solve -printingOptions all -solution s.txt"
	check := func(want string) {
		t.Helper()
		got, err := cbc{}.Arguments(task)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("Arguments(%+v) (-want +got):\n%s", task, diff)
		}
	}
	check(bare)
	task.RelativeGap = 1e-4
	check(strings.Replace(bare, "-ratioGap 0", "-ratioGap 0.0001", 1))
	task.Start, task.TimeLimit, task.RelativeGap = "i.txt", 250*time.Millisecond, 0
	check(strings.Replace(bare, "-import m.mps", "-import m.mps -mipstart i.txt -timeMode elapsed -sec 0.25", 1))
}

func TestCBCStart(t *testing.T) {
	var file strings.Builder
	if err := (cbc{}).WriteStart(&file, 1, maps.All(map[string]float64{"s_1_1": 0.1})); err != nil {
		t.Fatal(err)
	}
	if want := "Stopped on iterations - objective value 0\n0 s_1_1 0.1 0\n"; file.String() != want {
		t.Errorf("start file %q; want %q", file.String(), want)
	}
}
