package controller_test

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestRecordingIsReplayed: what the loops of two pools record is read by replay, which is given
// the name of one.
func TestRecordingIsReplayed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := recording.New(recording.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, 8, busy()...)
	c.calls, c.step = w, c.pool.Cadence
	c.start()
	began := c.now
	elsewhere := worldtest.Job("elsewhere", 2, map[string]string{"work": "10h", "nodes": "2"})
	elsewhere.SetLabels(map[string]string{world.PoolLabel: "other"})
	other := newCluster(t, 8, elsewhere)
	other.calls, other.pool.Name = w, "other"
	other.start()
	var ended time.Duration
	for range 100 {
		c.passes(1)
		other.passes(1)
		// As declared: an hour on one node, on 4 from the beginning.
		if since := c.now.Sub(began); ended == 0 && since >= 24*time.Minute {
			c.end("short")
			ended = since
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Written < 10 || s.Failed+s.Overflowed > 0 {
		t.Fatalf("%+v; want all decisions written", s)
	}

	replay := func(args ...string) (string, error) {
		lab := exec.CommandContext(t.Context(), "go",
			append([]string{"run", "./cmd/elastalloc-lab", "replay", "--recording", dir, "--policy=max-min"}, args...)...)
		lab.Dir = "../../lab" // A module of its own.
		printed, err := lab.CombinedOutput()
		return string(printed), err
	}
	printed, err := replay("--out", filepath.Join(t.TempDir(), "out"))
	if err == nil || !strings.Contains(printed, "choose those of one cluster: other") {
		t.Errorf("calls of two pools are replayed as one: %v, %s", err, printed)
	}
	out := filepath.Join(t.TempDir(), "out")
	printed, err = replay("--caller", c.pool.Name, "--out", out)
	if err != nil || !strings.Contains(strings.Join(strings.Fields(printed), " "), "1 of 2 jobs completed") {
		t.Fatalf("%v, %s", err, printed)
	}
	text, err := os.ReadFile(filepath.Join(out, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v, %s", err, text)
	}
	// The job was submitted at time zero, started in the first minute, and completed according to its remaining
	// time, 23m26s on 4 nodes later.
	short := make(map[string]string)
	for i, name := range rows[0] {
		short[name] = rows[1][i]
	}
	seconds := func(name string) int {
		n, err := strconv.Atoi(short[name])
		if err != nil {
			t.Errorf("%s of %v: %v", name, short, err)
		}
		return n
	}
	queued, ran := seconds("start_s")-seconds("submit_s"), seconds("end_s")-seconds("start_s")
	if short["policy"] != "recorded" || short["job_id"] != "Job/default/short" || queued > 60 || ran < 23*60 || ran > 24*60 {
		t.Errorf("really it was %v", short)
	}
}
