package results

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
)

func result(policy string, nodes int) *sim.Result {
	return &sim.Result{
		Workload: "w", Policy: policy, Nodes: nodes,
		Jobs: []sim.JobResult{{
			ID: "a,b", Group: "t", Submit: 5 * time.Second, Start: 7 * time.Second, End: 67 * time.Second,
			Alone: 31 * time.Second, Unserved: 12 * time.Second, Weight: 2, Resizes: 3, Outcome: sim.OutcomeCompleted,
			Nodes: []sim.NodesAt{{At: 7 * time.Second, Nodes: 1}, {At: 9 * time.Second}, {At: 21 * time.Second, Nodes: 1}, {At: 67 * time.Second}},
		}},
	}
}

func TestSummarize(t *testing.T) {
	runs := []*sim.Result{result("optimal", 70), result("greedy", 70), result("optimal", 90), result("fifo", 70)}
	summary := Summarize(runs, "greedy", 3, sim.Cuts{})
	if len(summary.Runs) != 4 || summary.Runs[3].Policy != "fifo" || summary.Runs[3].Seed != 3 {
		t.Errorf("the runs are %+v", summary.Runs)
	}
	var compared []string
	for _, c := range summary.Comparisons {
		compared = append(compared, c.Policy+" with "+c.Baseline)
	}
	if summary.Runs[0].LaterShare != nil {
		t.Error("a run is compared with max-min fair shares, which were not run")
	}
	if diff := cmp.Diff([]string{"optimal with greedy", "fifo with greedy"}, compared); diff != "" {
		t.Errorf("comparisons (-want +got):\n%s", diff)
	}
}

func TestSummarizeBesideEqualShares(t *testing.T) {
	summary := Summarize([]*sim.Result{result("optimal", 70), result("max-min", 70), result("optimal", 90)}, "optimal", 3, sim.Cuts{})
	for i, compared := range []bool{true, true, false} {
		if got := summary.Runs[i].LaterShare != nil; got != compared {
			t.Errorf("run %d is compared with max-min fair shares: %v; want %v", i, got, compared)
		}
	}
}

func TestSummaryOfNothingHasLists(t *testing.T) {
	summary := Summarize(nil, "greedy", 1, sim.Cuts{Jobs: 2})
	files, err := summary.Files(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Runs, Comparisons []any
		Cut               map[string]int
	}
	if err := json.Unmarshal(files[SummaryName], &got); err != nil {
		t.Fatal(err)
	}
	if got.Runs == nil || got.Comparisons == nil || got.Cut["jobs_cut"] != 2 {
		t.Errorf("the summary is %s", files[SummaryName])
	}
}

func TestJobsCSV(t *testing.T) {
	hostile := result("optimal", 70)
	hostile.Jobs[0].ID, hostile.Jobs[0].Group = "=1+1", "@\x1b"
	if got := string(JobsCSV([]*sim.Result{hostile}, 3)); !strings.Contains(got, `,'=1+1,`) || !strings.Contains(got, `,'@\x1b,`) {
		t.Errorf("jobs.csv is %s; want no formula and no control character", got)
	}
	const want = "trace,policy,nodes,seed,job_id,submit_s,start_s,end_s,queue_s,total_s,unserved_s," +
		"slowdown,weight,resizes,pauses,group,outcome\n" +
		"w,optimal,70,3,\"a,b\",5,7,67,2,62,12,2.000,2,3,1,t,completed\n"
	if diff := cmp.Diff(want, string(JobsCSV([]*sim.Result{result("optimal", 70)}, 3))); diff != "" {
		t.Errorf("jobs.csv (-want +got):\n%s", diff)
	}
}

// names returns what is in a folder and its content.
func names(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string]string)
	for _, entry := range entries {
		text, _ := os.ReadFile(filepath.Join(folder, entry.Name())) // A folder has no text.
		content[entry.Name()] = string(text)
	}
	return content
}

// write makes results of two files, without letting them appear.
func write(t *testing.T, target string) *Directory {
	t.Helper()
	d, err := NewDirectory(target)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{SummaryName, JobsName} {
		if err := d.Write(name, []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestDirectoryAppearsAtOnce(t *testing.T) {
	for name, prepare := range map[string]func(target string) error{
		"a new folder":     func(string) error { return nil },
		"an empty folder":  func(target string) error { return os.MkdirAll(target, 0o750) },
		"parents that are": func(target string) error { return os.MkdirAll(filepath.Dir(target), 0o750) },
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "deep", "out")
			if err := prepare(target); err != nil {
				t.Fatal(err)
			}
			d := write(t, target)
			if entries, err := os.ReadDir(target); err == nil && len(entries) > 0 {
				t.Errorf("there is something before the end: %v", entries)
			}
			if err := d.Commit(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{SummaryName: "new", JobsName: "new"}, names(t, target)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if left := names(t, filepath.Dir(target)); len(left) != 1 {
				t.Errorf("in addition to the results there is %v", left)
			}
			if err := d.Discard(); err != nil {
				t.Errorf("Discard() after Commit() = %v", err)
			}
		})
	}
}

func TestDirectoryThatHoldsFiles(t *testing.T) {
	target := t.TempDir()
	for name, text := range map[string]string{"notes.txt": "mine", SummaryName: "old"} {
		if err := os.WriteFile(filepath.Join(target, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := NewDirectory(target); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("the error is %v; want that it is not empty", err)
	}
	if diff := cmp.Diff(map[string]string{"notes.txt": "mine", SummaryName: "old"}, names(t, target)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestDirectoryThatFillsMeanwhile(t *testing.T) {
	target := filepath.Join(t.TempDir(), "out")
	d := write(t, target)
	if err := os.Mkdir(target, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("the error is %v; want that it is not empty", err)
	}
}

func TestDirectoryDiscarded(t *testing.T) {
	parent := t.TempDir()
	d := write(t, filepath.Join(parent, "out"))
	if err := d.Discard(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, parent); len(left) != 0 {
		t.Errorf("there is still %v", left)
	}
}

func TestDirectoryThatIsAFile(t *testing.T) {
	target := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewDirectory(target); err == nil {
		t.Error("a file can be a directory of results")
	}
}

func TestDirectoryWithFolders(t *testing.T) {
	target := filepath.Join(t.TempDir(), "out")
	d := write(t, target)
	if err := d.Write("folder/a.json", []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.json": "a"}, names(t, filepath.Join(target, "folder"))); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}
