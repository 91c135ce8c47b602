package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
)

const minute = time.Minute

// estimate is a job of a snapshot, with times in minutes. eta is the remaining ETA on its current nodes.
type estimate struct {
	id                                string
	allocation, eta, trained, waiting int
}

// recordedCall is a call at a minute, with the size of the pool and the allocated nodes of each job,
// nil for a failed call.
type recordedCall struct {
	at, pool int
	jobs     []estimate
	answer   []int32
}

func span(minutes int) *durationpb.Duration {
	return durationpb.New(time.Duration(minutes) * minute)
}

// recordingOf returns the entries of the calls of a caller.
func recordingOf(caller string, calls []recordedCall) []recording.Entry {
	var entries []recording.Entry
	for _, c := range calls {
		snapshot := &elastallocv1.Snapshot{TotalNodes: int32(c.pool)}
		response := new(elastallocv1.AllocateResponse)
		for i, j := range c.jobs {
			job := &elastallocv1.Job{
				Id: j.id, CurrentNodes: int32(j.allocation), RemainingEta: span(j.eta), TrainingTime: span(j.trained), WaitingTime: span(j.waiting),
			}
			if j.allocation > 0 {
				job.EtaNodes = new(int32(j.allocation))
			}
			snapshot.Jobs = append(snapshot.Jobs, job)
			if c.answer != nil {
				response.Allocations = append(response.Allocations, &elastallocv1.Allocation{JobId: j.id, Nodes: c.answer[i]})
			}
		}
		e := recording.Entry{
			Time: epoch.Add(time.Duration(c.at) * minute), Method: "Allocate", Caller: caller,
			Request: &elastallocv1.AllocateRequest{Snapshot: snapshot},
		}
		if c.answer != nil {
			e.Response = response
		}
		entries = append(entries, e)
	}
	return entries
}

// reading returns a Reader of entries in memory.
func reading(entries []recording.Entry) Reader {
	return func(yield func(recording.Entry) error) ([]recording.ReadError, error) {
		for _, e := range entries {
			if err := yield(e); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// replayed replays the calls of one caller, and also returns the recorded schedule.
func replayed(t *testing.T, entries []recording.Entry, o Options) (*Replay, *sim.Result) {
	t.Helper()
	r, err := New(reading(entries), o)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := r.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, recorded
}

// shadowed returns the calls of a scheduler that never applies the decisions. long has 4 nodes from the
// start until minute 40. short waits from minute 3, starts on 2 nodes at minute 12, is first seen with
// them at 15, and completes at 27. gone leaves the queue, and last remains.
func shadowed() []recordedCall {
	return []recordedCall{
		{0, 8, []estimate{{"long", 4, 40, 20, 5}}, []int32{8}},
		{5, 8, []estimate{{"long", 4, 35, 25, 5}, {"short", 0, 24, 0, 2}, {"gone", 0, 30, 0, 1}}, []int32{4, 4, 0}},
		{10, 8, []estimate{{"long", 4, 30, 30, 5}, {"short", 0, 24, 0, 7}}, []int32{4, 4}},
		{15, 6, []estimate{{"long", 4, 25, 35, 5}, {"short", 2, 12, 3, 9}}, []int32{2, 4}},
		{25, 8, []estimate{{"long", 4, 15, 45, 5}, {"short", 2, 2, 13, 9}}, nil},
		{30, 8, []estimate{{"long", 4, 10, 50, 5}, {"last", 0, 60, 0, 1}}, []int32{4, 4}},
		{50, 8, []estimate{{"last", 8, 20, 15, 6}}, []int32{8}},
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	r, recorded := replayed(t, recordingOf("a", shadowed()), Options{Name: "shadow"})
	type result struct {
		ID                         string
		Submit, Start, End, Unfed  time.Duration
		Nodes                      []sim.NodesAt
		WorkMinutes, HistoryMinute time.Duration
	}
	var got []result
	for i := range recorded.Jobs {
		job := &recorded.Jobs[i]
		for n := range r.Workload.Jobs {
			if w := &r.Workload.Jobs[n]; w.ID == job.ID {
				got = append(got, result{
					job.ID, job.Submit, job.Start, job.End, job.Unserved, job.Nodes, w.Work.Round(minute / 10), w.History.Trained,
				})
			}
		}
	}
	want := []result{
		// 40 minutes on 4 nodes, each doubling at 1.6: 40 * 2.56.
		{"long", 0, 0, 40 * minute, 0, []sim.NodesAt{{At: 0, Nodes: 4}, {At: 40 * minute}}, 1024 * minute / 10, 20 * minute},
		{"short", 3 * minute, 12 * minute, 27 * minute, 9 * minute,
			[]sim.NodesAt{{At: 12 * minute, Nodes: 2}, {At: 27 * minute}}, 24 * minute, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
	u := r.Unknown
	if u.Jobs != 4 || u.Compared != 2 || u.StillRunning != 1 || u.AtBegin != 1 || u.Withdrawn != 1 || u.CarriedOut > 0 ||
		u.UnseenChanges != 0 || u.SubmissionUnknown != 0 || u.LongGaps != 1 {
		t.Errorf("unknown is %+v", u)
	}
	if r.Source.Unanswered != 1 || r.Source.Decisions != 7 {
		t.Errorf("the source is %+v", r.Source)
	}
	wantPool := []sim.NodesAt{{At: 0, Nodes: 8}, {At: 15 * minute, Nodes: 6}, {At: 25 * minute, Nodes: 8}}
	if diff := cmp.Diff(wantPool, r.Config.Resized); diff != "" {
		t.Errorf("the pool (-want +got):\n%s", diff)
	}
	// 8 nodes for 50 minutes except 2 fewer for 10, minus 4 * 40, 2 * 15 and 8 * 15 of last. Of these, 4 * 5 are
	// before the stop of long, which is not subtracted from the idle nodes.
	if got, want := r.IdleNodeHours(nil)*60, 8.0*50-20-160-30-120+20; got < want-0.1 || got > want+0.1 {
		t.Errorf("%.1f node minutes were idle; want %.1f", got, want)
	}
	checkDifferences(t, r)
	optimal := policy(t, "optimal")
	run, err := optimal.Run(t.Context(), r.Workload, r.Config, newAllocator(t))
	if err != nil {
		t.Fatal(err)
	}
	if share := r.UnseenSizeShare(run); share <= 0 || share > 1 {
		t.Errorf("%v of the node hours are on sizes never seen; the jobs had one size each", share)
	}
}

// checkDifferences checks decisions on the recorded snapshots. In the first one, the long job could
// have the whole pool.
func checkDifferences(t *testing.T, r *Replay) {
	t.Helper()
	calls, err := r.Differences(t.Context(), policy(t, "optimal"), newAllocator(t), nil)
	if err != nil || len(calls) != 6 {
		t.Fatalf("%d decisions, %v; want those before the last", len(calls), err)
	}
	first := &calls[0]
	if len(first.Differences) != 1 || first.IdleRecorded != 4 || first.IdlePolicy != 0 || first.Moved() != 4 {
		t.Fatalf("the first decision differs by %+v", *first)
	}
	want := Difference{
		JobID: "long", Before: Allocation{Nodes: 4}, Recorded: Allocation{Nodes: 4}, Assigned: Allocation{Nodes: 8}, Policy: Allocation{Nodes: 8},
		Why: "trains 1.60 times as fast on 8 as on 4 nodes, more than other jobs would benefit",
	}
	if diff := cmp.Diff(want, first.Differences[0]); diff != "" {
		t.Errorf("the difference (-want +got):\n%s", diff)
	}
	if text := string(DecisionsCSV("optimal", calls)); !strings.HasPrefix(text,
		"time,snapshot_id,job_id,nodes_before,recorded,answered,optimal,why\n2026-11-02T03:04:05Z,,long,4,4,8,8,") {
		t.Errorf("decisions.csv is %s", text)
	}
	hostile := []CallDifference{{SnapshotID: "=1+1", Differences: []Difference{{JobID: "@a\x1b", Why: "-"}}}}
	if text := string(DecisionsCSV("optimal", hostile)); !strings.Contains(text, `,'=1+1,'@a\x1b,0,0,0,0,'-`) {
		t.Errorf("decisions.csv is %s; want no formula and no control character", text)
	}
	if r.Config.MaxDecisions != sim.MaxDecisions {
		t.Errorf("runs have at most %d decisions; want %d", r.Config.MaxDecisions, sim.MaxDecisions)
	}
	largest := Largest(calls, 2)
	if len(largest) != 2 || largest[0].Moved() < largest[1].Moved() {
		t.Errorf("the largest are %+v", largest)
	}
}

// TestMissingFields checks snapshots without training and waiting times. What is unknown is counted.
func TestMissingFields(t *testing.T) {
	t.Parallel()
	calls := shadowed()
	for i := range calls {
		for n := range calls[i].jobs {
			calls[i].jobs[n].trained, calls[i].jobs[n].waiting = 0, 0
		}
	}
	r, _ := replayed(t, recordingOf("a", calls), Options{})
	// short and last were resized; short, last and gone were submitted.
	if u := r.Unknown; u.UnseenChanges != 2 || u.SubmissionUnknown != 3 {
		t.Errorf("unknown is %+v", u)
	}
}

func TestBadRecordings(t *testing.T) {
	t.Parallel()
	calls := shadowed()
	hurried := recordingOf("a", calls)
	for i := range hurried {
		hurried[i].Time = epoch.Add(hurried[i].Time.Sub(epoch) / 300)
	}
	two := append(recordingOf("a", calls), recordingOf("b", calls[:2])...)
	kinds := recordingOf("a", calls)
	for _, e := range kinds {
		r := e.Request.(*elastallocv1.AllocateRequest)
		r.Options = &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}
		r.Snapshot.NodeTypes = []*elastallocv1.NodeType{{Id: "a", Nodes: r.Snapshot.TotalNodes}, {Id: "b"}}
		for _, job := range r.Snapshot.Jobs {
			if job.CurrentNodes > 0 {
				job.CurrentNodeType = "a"
			}
		}
	}
	for name, test := range map[string]struct {
		entries []recording.Entry
		callers []string
		want    string
	}{
		"nothing":        {nil, nil, "0 calls, but no Allocate call with jobs"},
		"one snapshot":   {recordingOf("a", calls[:1]), nil, "one snapshot"},
		"no end":         {recordingOf("a", calls[:3]), nil, "record for longer"},
		"simulated":      {hurried, nil, "increases by 1h10m0s in 14s"},
		"two kinds":      {kinds, nil, "the node types at 2026-11-02T03:19:05Z are not those at 2026-11-02T03:04:05Z"},
		"two clusters":   {two, nil, "choose those of one cluster: a (calls: 7), b (calls: 2)"},
		"unknown caller": {two, []string{"a", "c"}, `no calls of "c"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(reading(test.entries), Options{Callers: test.callers})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v; want %q", err, test.want)
			}
		})
	}
	r, err := New(reading(two), Options{Callers: []string{"a"}})
	if err != nil || r.Source.OtherCallers != 2 {
		t.Errorf("one of two callers: %v, %+v", err, r.Source)
	}
}

// TestReusedID checks a nightly job that always has the same id: each night is a separate job, but a
// job that is missing in snapshots for a short time is the same job.
func TestReusedID(t *testing.T) {
	t.Parallel()
	calls := []recordedCall{
		{0, 8, []estimate{{"nightly", 4, 30, 0, 0}, {"kept", 2, 500, 5, 0}}, nil},
		{20, 8, []estimate{{"nightly", 4, 10, 20, 0}}, nil},
		{40, 8, []estimate{{"kept", 2, 460, 45, 0}}, nil},
		{1440, 8, []estimate{{"nightly", 0, 30, 0, 5}}, nil},
		{1450, 8, []estimate{{"nightly", 4, 20, 10, 5}}, nil},
		{1480, 8, nil, nil},
	}
	r, _ := replayed(t, recordingOf("a", calls), Options{})
	ends := make(map[string][2]time.Duration)
	for i := range r.Workload.Jobs {
		job := &r.Workload.Jobs[i]
		ends[job.ID] = [2]time.Duration{job.Submit / minute, job.Recorded[len(job.Recorded)-1].At / minute}
	}
	want := map[string][2]time.Duration{"nightly": {0, 30}, "nightly (2)": {1435, 1470}, "kept": {0, 500}}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Errorf("submissions and ends (-want +got):\n%s", diff)
	}
	if u := r.Unknown; u.Jobs != 3 || u.IDsReused != 1 || u.Absent != 1 {
		t.Errorf("unknown is %+v", u)
	}
}

// TestTrainingTimeBeforeResponse checks a job that starts later than a response that allocates the same
// number of nodes by chance: the training time of the snapshot counts.
func TestTrainingTimeBeforeResponse(t *testing.T) {
	t.Parallel()
	calls := []recordedCall{
		{0, 8, []estimate{{"other", 4, 100, 5, 0}, {"job", 0, 30, 0, 0}}, []int32{4, 4}},
		{10, 8, []estimate{{"other", 4, 90, 15, 0}, {"job", 4, 28, 2, 8}}, []int32{4, 4}},
		{50, 8, []estimate{{"other", 4, 50, 55, 0}}, []int32{8}},
	}
	_, recorded := replayed(t, recordingOf("a", calls), Options{})
	if job := &recorded.Jobs[0]; job.ID != "job" || job.Start != 8*minute || job.Unserved != 8*minute || job.End != 38*minute {
		t.Errorf("the job is %+v; want it to start at minute 8", *job)
	}
}

// TestIdleWhilePoolIsShort checks a pool that loses half of its nodes for ten minutes, while its jobs
// occupy more nodes than it has. The excess does not reduce the later idle nodes.
func TestIdleWhilePoolIsShort(t *testing.T) {
	t.Parallel()
	calls := []recordedCall{
		{0, 8, []estimate{{"a", 4, 30, 0, 0}, {"b", 4, 60, 0, 0}}, nil},
		{10, 4, []estimate{{"a", 4, 20, 10, 0}, {"b", 4, 50, 10, 0}}, nil},
		{20, 8, []estimate{{"a", 4, 10, 20, 0}, {"b", 4, 40, 20, 0}}, nil},
		{35, 8, []estimate{{"b", 4, 25, 35, 0}}, nil},
	}
	r, _ := replayed(t, recordingOf("a", calls), Options{})
	if got := r.IdleNodeHours(nil) * 60; got < 19.9 || got > 20.1 {
		t.Errorf("%.1f node minutes were idle; want the 20 after the end of a", got)
	}
}
