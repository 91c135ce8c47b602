package highs

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// The files in testdata are what HiGHS 1.10.0 wrote: the solutions *.txt and the
// outputs *.log. The models are one of two jobs, that of an instance of six jobs
// where the search was cut short, and ones made infeasible.

func TestParseRealSolutions(t *testing.T) {
	tests := []struct {
		name      string
		status    string
		verdict   subprocess.Verdict
		objective float64
		values    int
		some      map[string]float64
	}{
		{
			"optimal_one_hot", "Optimal", subprocess.Optimal, -1790, 16,
			map[string]float64{"x_1_1_4": 1, "x_2_1_1": 1, "x_1_1_1": 0},
		},
		{
			"optimal_paper", "Optimal", subprocess.Optimal, -1790, 32,
			map[string]float64{"n_1_1": 4, "n_2_1": 1, "dm_1_1_4": 1, "dm_1_1_2": 0},
		},
		{"empty", "Empty", subprocess.Optimal, 0, 0, nil},
		{"time_with_plan", "Time limit reached", subprocess.Feasible, -3039.02445592603, 180, nil},
		{"time_without_plan", "Time limit reached", subprocess.TimeUp, math.NaN(), 0, nil},
		{"infeasible", "Infeasible", subprocess.Infeasible, math.NaN(), 0, nil},
		{"integer_infeasible", "Infeasible", subprocess.Infeasible, math.NaN(), 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file, err := os.Open(filepath.Join("testdata", test.name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			got, err := dialect{}.ParseSolution(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Values) != test.values {
				t.Errorf("%d values; want %d", len(got.Values), test.values)
			}
			for name, want := range test.some {
				if value, there := got.Values[name]; !there || value != want {
					t.Errorf("%s is %v, there: %t; want %v", name, value, there, want)
				}
			}
			got.Values = nil
			want := subprocess.Solution{Status: test.status, Verdict: test.verdict, Objective: test.objective}
			if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("solution (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSolution(t *testing.T) {
	file := func(status, rest string) string {
		return "Model status\n" + status + "\n\n# Primal solution values\n" + rest
	}
	const two = "Feasible\nObjective -1.5\n# Columns 2\nx 1\ny 1e-3\n"
	tests := []struct {
		name, file string
		want       subprocess.Solution
		err        string
	}{
		{name: "nothing", file: "", err: "ends before line 1"},
		{name: "something else", file: "\nx\n", err: `line 1: want "Model status", not ""`},
		{name: "no status", file: "Model status\n", err: "ends before line 2"},
		{name: "no values", file: "Model status\nOptimal\n", err: "ends before line 3"},
		{name: "whole", file: file("Optimal", two+"# Rows 7\n"), want: subprocess.Solution{
			Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1.5, Values: map[string]float64{"x": 1, "y": 1e-3},
		}},
		{name: "cut off after the columns", file: file("Optimal", two), err: "ends before line 10"},
		{name: "cut off in the columns", file: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx 1\n"), err: "ends before line 9"},
		{name: "cut off in a line", file: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx"), err: "line 8: want the name"},
		{name: "no number", file: file("Optimal", "Feasible\nObjective 1\n# Columns 1\nx one\n"), err: "line 8: want the name"},
		{name: "no objective", file: file("Optimal", "Feasible\nObjective\n"), err: "line 6: want Objective and a number"},
		{name: "an objective of NaN", file: file("Optimal", "Feasible\nObjective nan\n"), err: "line 6: the objective is not a number"},
		{name: "a negative count", file: file("Optimal", "Feasible\nObjective 1\n# Columns -1\n"), err: "line 7: want # Columns"},
		{name: "a count too many", file: file("Optimal", "Feasible\nObjective 1\n# Columns 999999999999\nx 1\n"), err: "ends before line 9"},
		{name: "one value too many", file: file("Optimal", "Feasible\nObjective 1\n# Columns 2\nx 1\nx 1\n"), err: "line 9: x has two values"},
		{name: "a quality of another kind", file: file("Optimal", "Good\n"), err: `not "Good"`},
		{name: "a solution that breaks rows", file: file("Time limit reached", "Infeasible\nObjective 1\n"),
			want: subprocess.Solution{
				Status: "Time limit reached, solution infeasible", Verdict: subprocess.TimeUp, Objective: math.NaN(),
			}},
		{name: "a solution of what has none", file: file("Infeasible", "Feasible\nObjective 1\n# Columns 0\n# Rows 0\n"),
			want: subprocess.Solution{
				Status: "Infeasible", Verdict: subprocess.Infeasible, Objective: 1, Values: map[string]float64{},
			}},
		{name: "a status of another kind", file: file("Solve error", "None\n"),
			want: subprocess.Solution{Status: "Solve error", Verdict: subprocess.Failed, Objective: math.NaN()}},
		{name: "a line without end", file: strings.Repeat("x", 5000), err: "token too long"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := dialect{}.ParseSolution(strings.NewReader(test.file))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("ParseSolution() = %+v, %v; want error %q", got, err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("ParseSolution() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseOutput(t *testing.T) {
	for name, want := range map[string]struct {
		version string
		bound   float64
	}{
		"optimal_one_hot":   {"1.10.0", -1790},
		"infeasible":        {"1.10.0", math.NaN()},
		"time_with_plan":    {"1.10.0", -3060.0517986},
		"time_without_plan": {"1.10.0", math.NaN()},
		"time_in_reader":    {"1.10.0", math.NaN()},
		"version":           {"1.10.0", math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := os.ReadFile(filepath.Join("testdata", name+".log"))
			if err != nil {
				t.Fatal(err)
			}
			if got := (dialect{}).ParseVersion(string(output)); got != want.version {
				t.Errorf("version %q; want %q", got, want.version)
			}
			got := dialect{}.ParseBound(string(output))
			if got != want.bound && !(math.IsNaN(got) && math.IsNaN(want.bound)) {
				t.Errorf("bound %v; want %v", got, want.bound)
			}
		})
	}
	if got := (dialect{}).ParseVersion("bash: highs: no such thing\n"); got != "" {
		t.Errorf("version %q of something else; want none", got)
	}
}

// seed adds the contents of the files in testdata.
func seed(f *testing.F, pattern string) {
	f.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		f.Fatalf("no files %s in testdata: %v", pattern, err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
}

func FuzzParseSolution(f *testing.F) {
	seed(f, "*.txt")
	f.Fuzz(func(t *testing.T, file string) {
		s, err := dialect{}.ParseSolution(strings.NewReader(file))
		switch {
		case err != nil && (s.Verdict != subprocess.Failed || s.Values != nil):
			t.Errorf("error %v and solution %+v", err, s)
		case err == nil && s.Verdict == subprocess.Feasible && (s.Values == nil || math.IsNaN(s.Objective)):
			t.Errorf("a plan without values or objective: %+v", s)
		case len(s.Values) > strings.Count(file, "\n"):
			t.Errorf("%d values of %d lines", len(s.Values), strings.Count(file, "\n"))
		}
		for name := range s.Values {
			if !strings.Contains(file, name) {
				t.Errorf("the file has no column %q", name)
			}
		}
	})
}

func FuzzParseOutput(f *testing.F) {
	seed(f, "*.log")
	f.Fuzz(func(t *testing.T, output string) {
		if version := (dialect{}).ParseVersion(output); strings.TrimSpace(version) != version || strings.Contains(version, "\n") {
			t.Errorf("version %q is not a word of one line", version)
		}
		if bound := (dialect{}).ParseBound(output); math.IsInf(bound, 0) {
			t.Errorf("bound %v", bound)
		}
	})
}
