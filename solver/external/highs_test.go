package external

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// TestHiGHS checks the dialect of HiGHS. The conformance suite checks the results of HiGHS. HiGHS 1.10.0 has
// written the files in testdata, for a model of two jobs, for an instance of six jobs whose search was
// interrupted, and for infeasible models.
func TestHiGHS(t *testing.T) {
	file := func(status, rest string) string {
		return "Model status\n" + status + "\n\n# Primal solution values\n" + rest
	}
	const two = "Feasible\nObjective -1.5\n# Columns 2\nx 1\ny 1e-3\n"
	suite{
		new:      HiGHS,
		dialect:  highs{},
		versions: []string{"1.", "2."},
		errors:   []string{"WARNING", "ERROR"},
		// The warm start has no rows. HiGHS computes them and prints this warning.
		ignored:       []string{"WARNING: readSolutionFile: Solution file is for 0 rows"},
		confirmations: []string{"Assessing feasibility of MIP", "Set option time_limit to 60"},
		real: map[string]solution{
			"optimal_one_hot": {
				Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1790, Values: 16,
				Some: map[string]float64{"x_1_1_4": 1, "x_2_1_1": 1, "x_1_1_1": 0},
			},
			"optimal_paper": {
				Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1790, Values: 32,
				Some: map[string]float64{"n_1_1": 4, "n_2_1": 1, "dm_1_1_4": 1, "dm_1_1_2": 0},
			},
			"empty":              {Status: "Empty", Verdict: subprocess.Optimal, Objective: 0, Values: 0},
			"time_with_plan":     {Status: "Time limit reached", Verdict: subprocess.Feasible, Objective: -3039.02445592603, Values: 180},
			"time_without_plan":  {Status: "Time limit reached", Verdict: subprocess.TimedOut, Objective: math.NaN(), Values: 0},
			"infeasible":         {Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: math.NaN(), Values: 0},
			"integer_infeasible": {Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: math.NaN(), Values: 0},
		},
		files: map[string]solutionFile{
			"empty":        {Content: "", Error: "unexpected end of file in line 1"},
			"another file": {Content: "\nx\n", Error: `line 1: "" must be "Model status"`},
			"no status":    {Content: "Model status\n", Error: "unexpected end of file in line 2"},
			"no values":    {Content: "Model status\nOptimal\n", Error: "unexpected end of file in line 3"},
			"complete": {
				Content: file("Optimal", two+"# Rows 7\n"),
				Want: subprocess.Solution{
					Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1.5, Values: map[string]float64{"x": 1, "y": 1e-3},
				},
			},
			"truncated after the columns": {Content: file("Optimal", two), Error: "unexpected end of file in line 10"},
			"truncated in the columns": {
				Content: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx 1\n"), Error: "unexpected end of file in line 9",
			},
			"truncated in a line": {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx"), Error: `line 8: "x" must be the name`},
			"no number": {
				Content: file("Optimal", "Feasible\nObjective 1\n# Columns 1\nx one\n"), Error: `line 8: "x one" must be the name`,
			},
			"no objective": {
				Content: file("Optimal", "Feasible\nObjective\n"), Error: `line 6: "Objective" must be Objective and a number`,
			},
			"an objective of NaN": {Content: file("Optimal", "Feasible\nObjective nan\n"), Error: "line 6: objective is NaN"},
			"a negative count": {
				Content: file("Optimal", "Feasible\nObjective 1\n# Columns -1\nx 1\n"), Error: `line 8: "x 1" must be # Rows`,
			},
			"a count that is too large": {
				Content: file("Optimal", "Feasible\nObjective 1\n# Columns 999999999999\nx 1\n"), Error: "unexpected end of file in line 9",
			},
			"a duplicate value":  {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx 1\nx 1\n"), Error: "line 9: x has two values"},
			"an unknown quality": {Content: file("Optimal", "Good\n"), Error: `"Good" must be "Feasible"`},
			"a solution that violates rows": {
				Content: file("Time limit reached", "Infeasible\nObjective 1\n"),
				Want: subprocess.Solution{
					Status: "Time limit reached, solution infeasible", Verdict: subprocess.TimedOut, Objective: math.NaN(),
				},
			},
			"a solution of an infeasible model": {
				Content: file("Infeasible", "Feasible\nObjective 1\n# Columns 0\n# Rows 0\n"),
				Want: subprocess.Solution{
					Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: 1, Values: map[string]float64{},
				},
			},
			"an unknown status": {
				Content: file("Solve error", "None\n"),
				Want:    subprocess.Solution{Status: "Solve error", Verdict: subprocess.Failed, Objective: math.NaN()},
			},
			"an endless line": {Content: strings.Repeat("x", 5000), Error: "token too long"},
		},
		outputs: map[string]parsedOutput{
			"optimal_one_hot":   {Version: "1.10.0", Bound: -1790},
			"infeasible":        {Version: "1.10.0", Bound: math.NaN()},
			"time_with_plan":    {Version: "1.10.0", Bound: -3060.0517986},
			"time_without_plan": {Version: "1.10.0", Bound: math.NaN()},
			"time_in_reader":    {Version: "1.10.0", Bound: math.NaN()},
			"version":           {Version: "1.10.0", Bound: math.NaN()},
		},
	}.run(t)
}

func FuzzHiGHSSolution(f *testing.F) { fuzzSolution(f, "highs", highs{}) }

func FuzzHiGHSOutput(f *testing.F) { fuzzOutput(f, "highs", highs{}) }

func TestHiGHSArguments(t *testing.T) {
	const bare = `mip_rel_gap = 0
mip_abs_gap = 0
primal_feasibility_tolerance = 1e-9
mip_feasibility_tolerance = 1e-9
threads = 1
parallel = off
random_seed = 1
write_solution_to_file = true
write_solution_style = 0
solution_file = s.txt
log_to_console = true
`
	task := subprocess.Task{Dir: t.TempDir(), Model: "m.mps", Solution: "s.txt"}
	check := func(wantArguments []string, wantOptions string) {
		t.Helper()
		got, err := highs{}.Arguments(task)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantArguments, got); diff != "" {
			t.Errorf("Arguments(%+v) (-want +got):\n%s", task, diff)
		}
		options, err := os.ReadFile(filepath.Join(task.Dir, "options.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantOptions, string(options)); diff != "" {
			t.Errorf("options (-want +got):\n%s", diff)
		}
	}
	check([]string{"--options_file=options.txt", "m.mps"}, bare)
	task.Start, task.TimeLimit, task.RelativeGap = "i.txt", 250*time.Millisecond, 1e-4
	check([]string{"--options_file=options.txt", "--read_solution_file=i.txt", "m.mps"},
		strings.Replace(bare, "mip_rel_gap = 0\n", "mip_rel_gap = 0.0001\n", 1)+"time_limit = 0.25\n")

	task.Dir = filepath.Join(task.Dir, "none")
	if got, err := (highs{}).Arguments(task); err == nil {
		t.Errorf("Arguments() = %v without a directory for the options; want an error", got)
	}
}

func TestHiGHSStart(t *testing.T) {
	var file strings.Builder
	if err := (highs{}).WriteStart(&file, 1, maps.All(map[string]float64{"s_1_1": 0.1})); err != nil {
		t.Fatal(err)
	}
	// Start files and solution files have the same format.
	got, err := highs{}.ParseSolution(strings.NewReader(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	want := subprocess.Solution{Status: "Unknown", Verdict: subprocess.Feasible, Values: map[string]float64{"s_1_1": 0.1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("start file (-want +got):\n%s", diff)
	}
}
