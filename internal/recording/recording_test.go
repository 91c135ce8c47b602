package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// call returns a call at a time with n jobs.
func call(at time.Time, n int) Entry {
	snapshot := &elastallocv1.Snapshot{Id: fmt.Sprint(at.Unix()), TotalNodes: int32(n)}
	response := &elastallocv1.AllocateResponse{SnapshotId: snapshot.Id}
	random := rand.New(rand.NewPCG(1, uint64(at.UnixNano())))
	for i := range n {
		id := fmt.Sprintf("job-%d-%x", i, random.Uint64())
		snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{Id: id, RemainingEta: durationpb.New(time.Duration(random.Int64N(1e15)))})
		response.Allocations = append(response.Allocations, &elastallocv1.Allocation{JobId: id, Nodes: 1})
	}
	return Entry{
		Time: at, Method: "Allocate", Caller: `scheduler "a" of 10.0.0.1`,
		Request: &elastallocv1.AllocateRequest{Snapshot: snapshot}, Response: response,
	}
}

// start is the time of the first call of the tests.
var start = time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)

// open returns a writer whose directory does not exist yet.
func open(t *testing.T, maxBytes int64) (*Writer, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a", "b")
	w, err := New(Config{Dir: dir, MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	return w, dir
}

func closeWriter(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a directory without read errors.
func readAll(t *testing.T, dir string) []Entry {
	t.Helper()
	entries, errs, err := ReadAll([]string{dir})
	if err != nil || len(errs) > 0 {
		t.Fatalf("read errors %v, error %v", errs, err)
	}
	return entries
}

func diff(want, got any) string { return cmp.Diff(want, got, protocmp.Transform()) }

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	want := []Entry{
		call(start, 3),
		{
			Time: start.Add(time.Second), Method: "FillIdle", Caller: "b\n\x00ü", RequestID: `id "1"`,
			Request:  &elastallocv1.FillIdleRequest{Snapshot: &elastallocv1.Snapshot{Id: "é \" \n"}},
			Response: &elastallocv1.FillIdleResponse{IdleNodes: 4},
		},
		{
			Time: start.Add(2 * time.Second), Method: "Allocate", Request: &elastallocv1.AllocateRequest{},
			Status: &spb.Status{Code: 3, Message: "snapshot: is missing"},
		},
		{Time: start.Add(3 * time.Second), Method: "Allocate", Status: &spb.Status{Code: 8, Message: "too many"}},
	}
	w, dir := open(t, 0)
	for _, e := range want {
		w.Record(e, 100)
	}
	closeWriter(t, w)
	if d := diff(want, readAll(t, dir)); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if s := w.Stats(); s != (Stats{Written: int64(len(want))}) {
		t.Errorf("stats are %+v", s)
	}
	for path, mode := range map[string]fs.FileMode{dir: 0o700, mustFiles(t, dir)[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v; want %v, because job ids are confidential", path, info.Mode(), err, mode)
		}
	}
}

func TestMessageThatJSONCannotRepresent(t *testing.T) {
	t.Parallel()
	bad := call(start, 1)
	bad.Request.(*elastallocv1.AllocateRequest).Snapshot.Jobs[0].RemainingEta = &durationpb.Duration{Seconds: 1 << 60}
	bad.Response, bad.Status = nil, &spb.Status{Code: 3, Message: "remaining_eta"}
	w, dir := open(t, 0)
	w.Record(bad, 100)
	w.Record(call(start, 1), 100)
	closeWriter(t, w)
	bad.Request = nil
	if d := diff([]Entry{bad, call(start, 1)}, readAll(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestFlush reads a file while it is being written, as after SIGKILL.
func TestFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, dir := open(t, 0)
		w.Record(call(start, 1), 100)
		time.Sleep(flushInterval)
		synctest.Wait()
		w.Record(call(start.Add(time.Hour), 1), 100)
		synctest.Wait()
		got, errs, err := ReadAll([]string{dir})
		if err != nil || len(errs) != 1 || errs[0].Calls != 1 {
			t.Errorf("read %d calls, errors %v, %v; want one call and one read error", len(got), errs, err)
		}
		if d := diff([]Entry{call(start, 1)}, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		closeWriter(t, w)
		if got := readAll(t, dir); len(got) != 2 {
			t.Errorf("%d calls after Close; want 2", len(got))
		}
	})
}

// TestTruncatedFile cuts a file at every byte: what is read are the first calls, and the file is reported.
func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	w, dir := open(t, 0)
	var want []Entry
	for i := range 5 {
		want = append(want, call(start.Add(time.Duration(i)*time.Second), 2))
		w.Record(want[i], 100)
	}
	closeWriter(t, w)
	path := mustFiles(t, dir)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for length := range text {
		if err := os.WriteFile(path, text[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		got, errs, err := ReadAll([]string{dir})
		if err != nil || len(got) > len(want) || len(errs) != 1 {
			t.Fatalf("%d bytes: %d calls, read errors %v, %v", length, len(got), errs, err)
		}
		if d := diff(want[:len(got)], slices.Concat(got)); len(got) > 0 && d != "" {
			t.Fatalf("%d bytes (-want +got):\n%s", length, d)
		}
	}
}

// TestFileWithoutCalls checks that a file of a server without calls is complete.
func TestFileWithoutCalls(t *testing.T) {
	t.Parallel()
	w, dir := open(t, 0)
	closeWriter(t, w)
	if entries := readAll(t, dir); len(entries) > 0 {
		t.Errorf("read %d calls", len(entries))
	}
}

// TestLongLines checks that lines of more than maxLine are neither written nor read.
func TestLongLines(t *testing.T) {
	t.Parallel()
	w, dir := open(t, 0)
	long := call(start, 1)
	long.RequestID = strings.Repeat("x", maxLine)
	w.Record(long, 1)
	w.Record(call(start, 2), 1)
	closeWriter(t, w)
	if got := readAll(t, dir); len(got) != 1 || w.Stats().Failed != 1 {
		t.Errorf("read %d calls, %+v; want the short one", len(got), w.Stats())
	}
	f, err := create(dir, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.encoder.Write([]byte(strings.Repeat(" ", maxLine+1<<20)))
	if err := errors.Join(err, f.close()); err != nil {
		t.Fatal(err)
	}
	entries, errs, err := ReadAll([]string{dir})
	if err != nil || len(entries) != 1 || len(errs) != 1 || !errors.Is(errs[0].Err, errLineTooLong) {
		t.Errorf("%d calls, errors %v, %v; want a read error at the long line", len(entries), errs, err)
	}
}

// TestMemoryOfLongLines checks that a line that is too long is rejected before it is built. Control
// characters in ids are six times as long in JSON.
func TestMemoryOfLongLines(t *testing.T) {
	e := call(start, 22_000) // The JSON of the request alone is shorter than a line.
	for i, job := range e.Request.(*elastallocv1.AllocateRequest).GetSnapshot().GetJobs() {
		job.Id = strings.Repeat("\x01", solver.MaxIDBytes)
		e.Response.(*elastallocv1.AllocateResponse).Allocations[i].JobId = job.Id
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := e.line()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errLineTooLong) || took > maxLine/2 {
		t.Errorf("error %v, allocated %d MiB", err, took>>20)
	}
}

func TestRotationByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, dir := open(t, 0)
		for i := range 3 {
			w.Record(call(start.Add(time.Duration(i)*time.Hour), 1), 100)
			time.Sleep(maxFileAge + flushInterval)
		}
		synctest.Wait()
		closeWriter(t, w)
		if n := len(mustFiles(t, dir)); n != 3 {
			t.Errorf("%d files; want 3, one per hour", n)
		}
		if n := len(readAll(t, dir)); n != 3 {
			t.Errorf("%d calls; want 3", n)
		}
	})
}

func TestOldestFilesAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, dir := open(t, MinMaxBytes)
		foreign := filepath.Join(dir, "decisions-notes.txt")
		const calls = 400
		for i := range calls {
			w.Record(call(start.Add(time.Duration(i)*time.Second), 300), 100)
			time.Sleep(flushInterval)
			synctest.Wait()
			if i == 0 {
				if err := os.WriteFile(foreign, []byte("not a recording"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		closeWriter(t, w)
		total := int64(0)
		for _, path := range mustFiles(t, dir) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
		if total > MinMaxBytes || total < MinMaxBytes/2 {
			t.Errorf("%d bytes remain; want at most %d and at least half of it", total, MinMaxBytes)
		}
		got := readAll(t, dir)
		if len(got) == calls || !got[len(got)-1].Time.Equal(start.Add((calls-1)*time.Second)) {
			t.Errorf("%d calls remain until %v; want the newest", len(got), got[len(got)-1].Time)
		}
		for i := 1; i < len(got); i++ {
			if got[i].Time.Sub(got[i-1].Time) != time.Second {
				t.Fatalf("calls between %v and %v are missing", got[i-1].Time, got[i].Time)
			}
		}
		if _, err := os.Stat(foreign); err != nil {
			t.Errorf("another file was deleted: %v", err)
		}
		if s := w.Stats(); s.Written != calls {
			t.Errorf("stats are %+v", s)
		}
	})
}

// TestDanglingLinkIsDeleted checks that a dangling link as the oldest file does not prevent the
// deletion of others.
func TestDanglingLinkIsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "decisions-20200101T000000Z.jsonl.zst")); err != nil {
		t.Skip(err)
	}
	for n := range 5 {
		name := filepath.Join(dir, fmt.Sprintf("decisions-2021010%dT000000Z.jsonl.zst", n+1))
		if err := os.WriteFile(name, make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := deleteOldest(dir, 2500); err != nil || len(mustFiles(t, dir)) != 2 {
		t.Errorf("%q remain, %v; want two files", mustFiles(t, dir), err)
	}
}

// TestBrokenDisk removes the directory after the start, while no file is open.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, dir := open(t, 0)
		parent := filepath.Dir(dir)
		time.Sleep(maxFileAge + flushInterval) // The first file is closed.
		synctest.Wait()
		if err := os.RemoveAll(parent); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(parent, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.Record(call(start, 1), 100)
		w.Record(call(start, 1), 100)
		synctest.Wait()
		if s := w.Stats(); s != (Stats{Failed: 2}) {
			t.Errorf("stats %+v without the directory; want 2 failed", s)
		}
		if err := os.Remove(parent); err != nil {
			t.Fatal(err)
		}
		time.Sleep(flushInterval)
		w.Record(call(start, 1), 100)
		closeWriter(t, w)
		if s := w.Stats(); s != (Stats{Written: 1, Failed: 2}) {
			t.Errorf("stats %+v with the directory; want 1 written", s)
		}
		if n := len(readAll(t, dir)); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
}

// TestOverflow checks that Record does not block if the writer does not write, and drops calls by
// number and size.
func TestOverflow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ bytes, accepted int }{
		"many":                  {100, maxQueued},
		"large":                 {maxQueuedBytes / 8, 8},
		"larger than the queue": {2 * maxQueuedBytes, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := call(start, 1)
			var logs strings.Builder
			w := &Writer{queue: make(chan queuedCall, maxQueued)} // Without a goroutine that writes.
			w.config.Logger = slog.New(slog.NewTextHandler(&logs, nil))
			for range test.accepted + 7 {
				w.Record(e, test.bytes)
			}
			if s := w.Stats(); s.Overflowed != 7 || len(w.queue) != test.accepted {
				t.Errorf("%d calls queued and %d dropped; want %d and 7", len(w.queue), s.Overflowed, test.accepted)
			}
			if strings.Count(logs.String(), "calls are not recorded") != 1 {
				t.Errorf("log %q; want one warning", &logs)
			}
		})
	}
}

func TestCloseTimeout(t *testing.T) {
	t.Parallel()
	w := &Writer{queue: make(chan queuedCall, 3), done: make(chan struct{})}
	w.config.Logger = slog.New(slog.DiscardHandler)
	for range 3 {
		w.Record(call(start, 1), 100)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "3 calls were not") || w.Stats().Failed != 3 {
		t.Errorf("Close() = %v, stats %+v; want context.Canceled and 3 lost calls", err, w.Stats())
	}
	w.Record(call(start, 1), 100)
	if s := w.Stats(); s.Overflowed != 1 {
		t.Errorf("stats %+v after Close; want 1 dropped call", s)
	}
}

func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{{}, {Dir: "x", MaxBytes: -1}, {Dir: "x", MaxBytes: MinMaxBytes - 1}} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is accepted", config)
		}
	}
}

// TestNewFails checks the error if the directory cannot be created.
func TestNewFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err := New(Config{Dir: filepath.Join(file, "recordings")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("New() = %v, %v; want an error with the name of the file", w, err)
	}
}

func TestNoRecordings(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, _, err := ReadAll([]string{dir}); err == nil {
			t.Errorf("ReadAll(%s) succeeds without recordings; want an error", dir)
		}
	}
}

func mustFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := files(dir)
	if err != nil || len(paths) == 0 {
		t.Fatalf("files() = %v, %v", paths, err)
	}
	return paths
}

func FuzzParse(f *testing.F) {
	e := call(start, 2)
	text, err := e.line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"time":"2026-11-21T10:00:00Z","method":"FillIdle","status":{"code":3,"details":[{"@type":"x"}]}}`))
	f.Add([]byte(`{"time":"2026-11-21T10:00:00Z","method":"New","request":{"a":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parse(text)
		if err != nil {
			return
		}
		written, err := e.line()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(written)
		if err != nil {
			t.Fatalf("the line of %q cannot be parsed: %v", text, err)
		}
		if !again.Time.Equal(e.Time) || again.Method != e.Method {
			t.Errorf("%q becomes %v", text, again)
		}
	})
}

// TestClockSetBack checks that all calls are read and an error is returned if the clock was set back by
// an hour.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	w, dir := open(t, 0)
	for _, at := range []time.Duration{0, -30 * time.Second, time.Minute, -time.Hour, 0} {
		w.Record(call(start.Add(at), 1), 100)
	}
	closeWriter(t, w)
	entries, errs, err := ReadAll([]string{dir})
	if err != nil || len(entries) != 5 || !entries[0].Time.Equal(start.Add(-time.Hour)) {
		t.Errorf("read %d calls, %v; want 5 in the order of time", len(entries), err)
	}
	if len(errs) != 1 || errs[0].Calls != 3 || !errors.Is(errs[0].Err, ErrClockSetBack) {
		t.Errorf("read errors %v; want one after 3 calls", errs)
	}
}

// TestEarlierDefaults checks that a request of an earlier version has the options with which it was decided.
func TestEarlierDefaults(t *testing.T) {
	const start = `{"time":"2026-11-21T10:00:00Z","method":`
	for text, want := range map[string]string{
		`"Allocate","request":{"snapshot":{}}}`:                                  `{"snapshot":{},"options":{"objective":1,"admission":1}}`,
		`"Allocate","request":{"options":{"objective":"OBJECTIVE_TOTAL_TIME"}}}`: `{"options":{"objective":2,"admission":1}}`,
		`"Explain","request":{"options":{"admission":"ADMISSION_OPTIMIZED"}}}`:   `{"options":{"objective":1,"admission":2}}`,
		`"Allocate","request":{"snapshot":{"jobs":[{"id":"\"rescaleDelay\":","rescaleDelay":"1s"}]},` +
			`"options":{"totalTime":{"rescalePrice":"2s"}}}}`: `{"snapshot":{"jobs":[
			{"id":"\"rescaleDelay\":","resizeDelay":"1s"}]},"options":{"objective":1,"admission":1,"totalTime":{"resizePrice":"2s"}}}`,
		`"Forecast","request":{}}`: `{"options":{"objective":1,"admission":1}}`,
		`"WhatIf","request":{"scenarios":[{"options":{}},{}]}}`: `{"options":{"objective":1,"admission":1},
			"scenarios":[{"options":{"objective":1,"admission":1}},{}]}`,
		`"FillIdle","request":{}}`:                   `{}`,
		`"Allocate"}`:                                ``,
		`"Allocate","format":2,"request":{}}`:        `{}`,
		`"Allocate","format":3,"request":{"new":1}}`: `{}`,
	} {
		e, err := parse([]byte(start + text))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if e.Request != nil {
				t.Errorf("%s: request %v", text, e.Request)
			}
			continue
		}
		expected := e.Request.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal([]byte(want), expected); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(e.Request, expected) {
			t.Errorf("%s: request %v; want %v", text, e.Request, expected)
		}
		// A line that is written again has the current format.
		if line, err := e.JSON(); err != nil {
			t.Error(err)
		} else if again, err := parse(line); err != nil || !proto.Equal(again.Request, e.Request) {
			t.Errorf("%s: read again: %v, %v; want %v", line, again.Request, err, e.Request)
		}
	}
}

// TestRecordDuringClose checks that each call that is recorded while the writer closes is counted once, as written or
// as dropped. There are more threads than cores, so that the operating system suspends some of them within Record.
func TestRecordDuringClose(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	for round := range 100 {
		w, _ := open(t, 0)
		var recorders sync.WaitGroup
		var recorded atomic.Int64
		var closed atomic.Bool
		for range 8 {
			recorders.Go(func() {
				for !closed.Load() {
					w.Record(Entry{Time: start, Method: "Allocate"}, 1)
					recorded.Add(1)
				}
			})
		}
		for recorded.Load() == 0 {
			runtime.Gosched()
		}
		closeWriter(t, w)
		closed.Store(true)
		recorders.Wait()
		if s := w.Stats(); s.Written+s.Overflowed+s.Failed != recorded.Load() {
			t.Fatalf("round %d: %+v; want %d calls in total", round, s, recorded.Load())
		}
	}
}
