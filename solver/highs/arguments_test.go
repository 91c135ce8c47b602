package highs

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver/subprocess"
)

func TestArguments(t *testing.T) {
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
		got, err := dialect{}.Arguments(task)
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
	if got, err := (dialect{}).Arguments(task); err == nil {
		t.Errorf("Arguments() = %v without a folder for the options; want an error", got)
	}
}

func TestWriteStart(t *testing.T) {
	var file strings.Builder
	if err := (dialect{}).WriteStart(&file, 1, maps.All(map[string]float64{"s_1_1": 0.1})); err != nil {
		t.Fatal(err)
	}
	// What HiGHS reads is what it writes.
	got, err := dialect{}.ParseSolution(strings.NewReader(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	want := subprocess.Solution{Status: "Unknown", Verdict: subprocess.Feasible, Values: map[string]float64{"s_1_1": 0.1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("start file (-want +got):\n%s", diff)
	}
}
