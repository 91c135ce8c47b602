package cbc

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

// The files in testdata are what CBC 2.10.8 wrote: the solutions *.txt and the
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
			"optimal_one_hot", "Optimal", subprocess.Optimal, -1790, 26,
			map[string]float64{"x_1_1_4": 1, "x_2_1_1": 1, "x_1_1_1": 0, "pool_1": 5},
		},
		{
			"optimal_paper", "Optimal", subprocess.Optimal, -1790, 90,
			map[string]float64{"n_1_1": 4, "n_2_1": 1, "dm_1_1_4": 1, "dm_1_1_2": 0},
		},
		{"empty", "Optimal", subprocess.Optimal, 0, 2, nil},
		{"time_with_plan", "Stopped on time", subprocess.Feasible, -3034.85464851, 245, nil},
		{"solutions_with_plan", "Stopped on iterations", subprocess.Feasible, -3034.85464851, 245, nil},
		{
			"time_without_plan", "Stopped on time (no integer solution - continuous used)",
			subprocess.TimeUp, -3062.56564691, 0, nil,
		},
		{"infeasible", "Infeasible", subprocess.Infeasible, -765, 0, nil},
		{"integer_infeasible", "Integer infeasible", subprocess.Infeasible, -1605.83333333, 0, nil},
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
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("solution (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSolution(t *testing.T) {
	const head = "Optimal - objective value -1.5\n"
	tests := []struct {
		name, file string
		want       subprocess.Solution
		err        string
	}{
		{name: "nothing", file: "", err: "the file is empty"},
		{name: "no status", file: "0 x 1 0\n", err: "no status"},
		{name: "no objective", file: "Optimal - objective value\n", err: "no status"},
		{name: "a bad objective", file: "Optimal - objective value one\n", err: `the objective is "one"`},
		{name: "a status of another kind", file: "Unbounded - objective value 0\n0 x 1 0\n",
			want: subprocess.Solution{Status: "Unbounded", Verdict: subprocess.Failed}},
		{name: "difficulties without a plan", file: "Stopped on difficulties (no integer solution - continuous used) - objective value 0\n",
			want: subprocess.Solution{
				Status: "Stopped on difficulties (no integer solution - continuous used)", Verdict: subprocess.Failed,
			}},
		{name: "values that break their bounds", file: head + "** 0 x 1e-3 0\n   1 y -2 5\n",
			want: subprocess.Solution{
				Status: "Optimal", Verdict: subprocess.Optimal, Objective: -1.5,
				Values: map[string]float64{"x": 1e-3, "y": -2},
			}},
		{name: "cut off in a line", file: head + "0 x 1 0\n1 y", err: "line 3: want index"},
		{name: "cut off in a number", file: head + "0 x 1e 0\n", err: `line 2: the value of x is "1e"`},
		{name: "no index", file: head + "x x 1 0\n", err: `the index is "x"`},
		{name: "one value too many", file: head + "0 x 1 0\n0 x 1 0\n", err: "line 3: x has two values"},
		{name: "a line without end", file: head + strings.Repeat("x", 5000), err: "token too long"},
		{name: "a first line without end", file: strings.Repeat("x", 5000), err: "token too long"},
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
			if diff := cmp.Diff(test.want, got); diff != "" {
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
		"optimal_one_hot":   {"2.10.8", math.NaN()},
		"infeasible":        {"2.10.8", math.NaN()},
		"time_with_plan":    {"2.10.8", -3062.566},
		"time_without_plan": {"2.10.8", -3062.566},
		"version":           {"2.10.8", math.NaN()},
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
	if got := (dialect{}).ParseVersion("bash: cbc: no such thing\n"); got != "" {
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
		hasPlan := s.Verdict == subprocess.Optimal || s.Verdict == subprocess.Feasible
		switch {
		case err != nil && (s.Verdict != subprocess.Failed || s.Values != nil):
			t.Errorf("error %v and solution %+v", err, s)
		case err == nil && hasPlan != (s.Values != nil):
			t.Errorf("values with verdict %d: %t", s.Verdict, s.Values != nil)
		case math.IsNaN(s.Objective):
			t.Error("an objective that is not a number")
		case len(s.Values) > strings.Count(file, "\n"):
			t.Errorf("%d values of %d lines", len(s.Values), strings.Count(file, "\n"))
		}
		for name := range s.Values {
			if name == "" || !strings.Contains(file, name) {
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
