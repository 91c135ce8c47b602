package highs

import (
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/solver/subprocess"
	"github.com/elastalloc/elastalloc/solver/subprocess/programtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestProgram checks that the backend and HiGHS understand each other. What HiGHS
// answers is the matter of the conformance suite. The files in testdata are what HiGHS
// 1.10.0 wrote; the models are one of two jobs, that of an instance of six jobs where
// the search was cut short, and ones made infeasible.
func TestProgram(t *testing.T) {
	file := func(status, rest string) string {
		return "Model status\n" + status + "\n\n# Primal solution values\n" + rest
	}
	const two = "Feasible\nObjective -1.5\n# Columns 2\nx 1\ny 1e-3\n"
	programtest.Suite{
		New:        func(program string) programtest.Backend { return New(program) },
		Dialect:    dialect{},
		Versions:   []string{"1.", "2."},
		Complaints: []string{"WARNING", "ERROR"},
		// The warm start has no rows, which HiGHS works out itself, with a warning.
		Harmless: []string{"WARNING: readSolutionFile: Solution file is for 0 rows"},
		Says:     []string{"Assessing feasibility of MIP", "Set option time_limit to 60"},
		Real: map[string]programtest.Solution{
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
			"time_without_plan":  {Status: "Time limit reached", Verdict: subprocess.TimeUp, Objective: math.NaN(), Values: 0},
			"infeasible":         {Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: math.NaN(), Values: 0},
			"integer_infeasible": {Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: math.NaN(), Values: 0},
		},
		Files: map[string]programtest.SolutionFile{
			"nothing":        {Content: "", Error: "ends before line 1"},
			"something else": {Content: "\nx\n", Error: `line 1: want "Model status", not ""`},
			"no status":      {Content: "Model status\n", Error: "ends before line 2"},
			"no values":      {Content: "Model status\nOptimal\n", Error: "ends before line 3"},
			"whole": {
				Content: file("Optimal", two+"# Rows 7\n"),
				Want: subprocess.Solution{
					Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1.5, Values: map[string]float64{"x": 1, "y": 1e-3},
				},
			},
			"cut off after the columns": {Content: file("Optimal", two), Error: "ends before line 10"},
			"cut off in the columns":    {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx 1\n"), Error: "ends before line 9"},
			"cut off in a line":         {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx"), Error: "line 8: want the name"},
			"no number":                 {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 1\nx one\n"), Error: "line 8: want the name"},
			"no objective":              {Content: file("Optimal", "Feasible\nObjective\n"), Error: "line 6: want Objective and a number"},
			"an objective of NaN":       {Content: file("Optimal", "Feasible\nObjective nan\n"), Error: "line 6: the objective is not a number"},
			"a negative count":          {Content: file("Optimal", "Feasible\nObjective 1\n# Columns -1\n"), Error: "line 7: want # Columns"},
			"a count too many":          {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 999999999999\nx 1\n"), Error: "ends before line 9"},
			"one value too many":        {Content: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx 1\nx 1\n"), Error: "line 9: x has two values"},
			"a quality of another kind": {Content: file("Optimal", "Good\n"), Error: `not "Good"`},
			"a solution that breaks rows": {
				Content: file("Time limit reached", "Infeasible\nObjective 1\n"),
				Want: subprocess.Solution{
					Status: "Time limit reached, solution infeasible", Verdict: subprocess.TimeUp, Objective: math.NaN(),
				},
			},
			"a solution of what has none": {
				Content: file("Infeasible", "Feasible\nObjective 1\n# Columns 0\n# Rows 0\n"),
				Want: subprocess.Solution{
					Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: 1, Values: map[string]float64{},
				},
			},
			"a status of another kind": {
				Content: file("Solve error", "None\n"),
				Want:    subprocess.Solution{Status: "Solve error", Verdict: subprocess.Failed, Objective: math.NaN()},
			},
			"a line without end": {Content: strings.Repeat("x", 5000), Error: "token too long"},
		},
		Outputs: map[string]programtest.Output{
			"optimal_one_hot":   {Version: "1.10.0", Bound: -1790},
			"infeasible":        {Version: "1.10.0", Bound: math.NaN()},
			"time_with_plan":    {Version: "1.10.0", Bound: -3060.0517986},
			"time_without_plan": {Version: "1.10.0", Bound: math.NaN()},
			"time_in_reader":    {Version: "1.10.0", Bound: math.NaN()},
			"version":           {Version: "1.10.0", Bound: math.NaN()},
		},
	}.Run(t)
}

func FuzzParseSolution(f *testing.F) { programtest.FuzzSolution(f, dialect{}) }

func FuzzParseOutput(f *testing.F) { programtest.FuzzOutput(f, dialect{}) }
