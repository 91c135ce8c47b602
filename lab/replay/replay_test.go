package replay

import (
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/lab/workloads"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// remote is an allocator of the simulator that calls a server. The service has no clock, so the recording
// gets the times of the simulation from the ids of the snapshots.
type remote struct {
	client elastallocv1.AllocatorServiceClient
}

func (r remote) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	response, err := r.client.Allocate(ctx, apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: o}))
	return decisionOf(response), err
}

func (r remote) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	response, err := r.client.FillIdle(ctx, &elastallocv1.FillIdleRequest{Snapshot: apiconv.ToSnapshot(s)})
	return decisionOf(response), err
}

func decisionOf(response allocationsResponse) solver.Decision {
	var d solver.Decision
	for _, a := range response.GetAllocations() {
		d.Allocations = append(d.Allocations, solver.Allocation{JobID: a.GetJobId(), Nodes: int(a.GetNodes()), NodeType: a.GetNodeType()})
	}
	return d
}

// epoch is the real time of second 0 of the tests' simulations.
var epoch = time.Date(2026, 11, 2, 3, 4, 5, 678e6, time.UTC)

// simulatedTime is a recorder that knows the time of a simulation.
type simulatedTime struct{ *recording.Writer }

func (s simulatedTime) Record(e recording.Entry, requestBytes int) {
	id := e.Request.(interface{ GetSnapshot() *elastallocv1.Snapshot }).GetSnapshot().GetId()
	_, text, _ := strings.Cut(id, "@")
	now, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	e.Time = epoch.Add(now)
	s.Writer.Record(e, requestBytes)
}

// record simulates a scheduler that calls a real server with a recording. It returns the result of the
// simulation and the recording.
func record(t *testing.T, w sim.Workload, p catalog.Policy, c sim.Config) (*sim.Result, []recording.Entry) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "recording")
	writer, err := recording.New(recording.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	allocator := newAllocator(t)
	config := server.DefaultConfig()
	config.Listen, config.AdminListen, config.DrainDelay = "127.0.0.1:0", "127.0.0.1:0", 0
	config.Allocator, config.Recorder = allocator, simulatedTime{writer}
	s, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	connection, err := grpc.NewClient(s.Addr().(*net.TCPAddr).String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	result, err := p.Run(t.Context(), w, c, remote{elastallocv1.NewAllocatorServiceClient(connection)})
	_ = connection.Close()
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, readErrors, err := recording.ReadAll([]string{dir})
	if err != nil || len(readErrors) > 0 || writer.Stats().Written != int64(len(entries)) {
		t.Fatalf("%d calls, readErrors %v, %v, %+v", len(entries), readErrors, err, writer.Stats())
	}
	return result, entries
}

func newAllocator(t *testing.T) *elastalloc.Allocator {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return allocator
}

func policy(t *testing.T, name string) catalog.Policy {
	t.Helper()
	p, err := catalog.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRecordingOfASimulation replays the recording of a simulated scheduler. The recorded
// run must equal the simulation, and its policy, simulated on the jobs of the
// recording, must have the same results within a step.
func TestRecordingOfASimulation(t *testing.T) {
	t.Parallel()
	trace, err := workloads.Synthetic(workloads.Baseline, 1)
	if err != nil {
		t.Fatal(err)
	}
	plain := sim.NewWorkload("synthetic", trace[:testtier.Conformance.Examples(30, 60)],
		sim.WorkloadOptions{GPUsPerNode: sim.DefaultGPUsPerNode})
	tests := map[string]struct {
		policy      string
		disturbance sim.Disturbance
		change      func(*sim.Config)
	}{
		"optimal":                            {policy: "optimal"},
		"greedy with a delay of growth":      {policy: "greedy", change: func(c *sim.Config) { c.ScalingDelay = 15 * time.Second }},
		"total-time, which pauses, restarts": {policy: "total-time", change: func(c *sim.Config) { c.RestartTime = 90 * time.Second }},
		"ETAs that are wrong":                {policy: "total-time", disturbance: sim.Disturbance{ETAError: 0.5}},
		"users that kill jobs":               {policy: "optimal", disturbance: sim.Disturbance{KillShare: 0.3}},
		"two node types": {policy: "total-time", change: func(c *sim.Config) {
			c.NodeTypes, c.RestartTime = []solver.NodeType{{ID: "fast", Nodes: 14, Speed: 1}, {ID: "slow", Nodes: 26, Speed: 0.4}}, time.Minute
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := sim.DefaultConfig(40)
			if test.change != nil {
				test.change(&config)
			}
			p := policy(t, test.policy)
			w := plain.Disturb(test.disturbance, 2)
			for i := range w.Jobs {
				if len(config.NodeTypes) > 0 && i%3 == 0 { // Others run everywhere, at the speed of the type.
					w.Jobs[i].Phases = []sim.Phase{{Until: 1, Speeds: []solver.TypeSpeed{{NodeType: "fast"}, {NodeType: "slow", Factor: 0.9}}}}
				}
			}
			want, entries := record(t, w, p, config)
			r, recorded := replayed(t, entries, Options{Name: "replayed"})
			checkRecorded(t, r, want, recorded)
			checkUserETAs(t, r, plain.Disturb(test.disturbance, 2).Jobs)
			run, err := p.Run(t.Context(), r.Workload, r.Config, newAllocator(t))
			if err != nil {
				t.Fatal(err)
			}
			checkFigures(t, "the policy simulated again", r, want, r.Compared(run))
			if idle, again := r.IdleNodeHours(nil), r.IdleNodeHours(run); math.Abs(idle-again) > 0.02*idle+1 {
				t.Errorf("%.1f node hours were idle, and %.1f when simulated again", idle, again)
			}
			if share := r.UnseenSizeShare(run); share > 0.02 {
				t.Errorf("%.1f %% of the node hours are on sizes never seen; the policy is the one recorded", 100*share)
			}
		})
	}
}

// checkRecorded compares the history of each job according to a recording with the simulation.
func checkRecorded(t *testing.T, r *Replay, want, recorded *sim.Result) {
	t.Helper()
	byID := make(map[string]*sim.JobResult)
	for i := range want.Jobs {
		byID[want.Jobs[i].ID] = &want.Jobs[i]
	}
	step := r.Config.Frequency
	var offset time.Duration // of the first snapshot from the first submission
	endGap := make(map[string]time.Duration)
	for _, track := range r.tracks {
		endGap[track.id] = track.endGap
	}
	for i := range recorded.Jobs {
		got := &recorded.Jobs[i]
		job := byID[got.ID]
		if got.Submit != job.Submit-offset {
			t.Errorf("%s was submitted at %v; the recording has %v", got.ID, job.Submit, got.Submit)
		}
		for what, times := range map[string][2]time.Duration{
			"start": {job.Start, got.Start}, "end": {job.End, got.End}, "time without nodes": {job.Unserved, got.Unserved},
		} {
			// If no job was left, the next snapshot was recorded with the next job.
			within := max(step, endGap[got.ID])
			if off := times[1] - times[0]; off > within || off < -within {
				t.Errorf("the %s of %s is %v; the recording has %v", what, got.ID, times[0], times[1])
			}
		}
		if got.Resizes != job.Resizes || got.Moves != job.Moves || !slices.Equal(got.NodeTypes(), job.NodeTypes()) {
			t.Errorf("%s was resized %d times and moved %d times over %v; the recording has %d, %d and %v",
				got.ID, job.Resizes, job.Moves, job.NodeTypes(), got.Resizes, got.Moves, got.NodeTypes())
		}
	}
	u := &r.Unknown
	if u.Jobs != len(want.Jobs) || u.Compared < u.Jobs-4 || u.Compared+u.StillRunning != u.Jobs ||
		u.UnseenChanges > 0 || u.SubmissionUnknown > 0 || u.CarriedOut != u.Changes {
		t.Errorf("unknown is %+v; the scheduler reports everything and applies all decisions", *u)
	}
	checkFigures(t, "what really happened", r, want, recorded)
}

// checkUserETAs compares the reported errors of ETAs with the jobs of the simulation.
func checkUserETAs(t *testing.T, r *Replay, jobs []sim.WorkloadJob) {
	t.Helper()
	byID := make(map[string]*sim.WorkloadJob)
	for i := range jobs {
		byID[jobs[i].ID] = &jobs[i]
	}
	estimate := r.jobEstimates()
	checked := 0
	for _, track := range r.tracks {
		if track.fate != fateCompleted {
			continue
		}
		checked++
		job := byID[track.id]
		i := slices.IndexFunc(estimate, func(e JobEstimate) bool { return e.Work == track.work.Work })
		if i < 0 {
			t.Fatalf("%s did %v, which is not among what jobs did", track.id, track.work.Work)
		}
		// It may have done as much more as it could between the snapshots about its end.
		slack := (max(track.endGap, r.Config.Frequency).Seconds() + 1) * 6.56
		took, first := job.Work.Seconds(), job.UserEstimate.Seconds()
		low, high := math.Log(max(1, took-slack)/first), math.Log((took+slack)/first)
		if got := estimate[i].First; got < low-1e-6 || got > high+1e-6 {
			t.Errorf("%s took %v with an ETA of %v: off by %v; want %v to %v", track.id, job.Work, job.UserEstimate, got, low, high)
		}
		low = math.Log(max(1, took/2-slack) / max(1, first-took/2+slack))
		high = math.Log((took/2 + slack) / max(1, first-took/2-slack))
		if got := estimate[i].Halfway; got < low-1e-6 || got > high+1e-6 {
			t.Errorf("%s took %v with an ETA of %v: off by %v halfway; want %v to %v", track.id, job.Work, job.UserEstimate, got, low, high)
		}
	}
	if checked != len(estimate) {
		t.Errorf("%d jobs completed; errors of ETAs are reported for %d", checked, len(estimate))
	}
}

// checkFigures compares figures over the same jobs.
func checkFigures(t *testing.T, what string, r *Replay, want, got *sim.Result) {
	t.Helper()
	compared := *want
	compared.Jobs = nil
	ids := make(map[string]bool)
	for i := range got.Jobs {
		ids[got.Jobs[i].ID] = true
	}
	for i := range want.Jobs {
		if ids[want.Jobs[i].ID] {
			compared.Jobs = append(compared.Jobs, want.Jobs[i])
		}
	}
	w, g := statistics.Summarize(&compared, 0), statistics.Summarize(got, 0)
	step := r.Config.Frequency.Seconds()
	for name, figures := range map[string][2]float64{
		"mean total": {w.MeanTotalSeconds, g.MeanTotalSeconds}, "mean queue": {w.MeanQueueSeconds, g.MeanQueueSeconds},
		"mean unserved": {w.MeanUnservedSeconds, g.MeanUnservedSeconds}, "p95": {w.P95TotalSeconds, g.P95TotalSeconds},
		"max": {w.MaxTotalSeconds, g.MaxTotalSeconds},
	} {
		// A job that ends a little earlier or later than it did, where its ETA was wrong,
		// changes the decisions after it, and with them the times of single jobs.
		within := step
		if name == "p95" || name == "max" {
			within = max(step, 0.02*figures[0])
		}
		if math.Abs(figures[1]-figures[0]) > within {
			t.Errorf("%s: the %s is %.0f s; want %.0f", what, name, figures[1], figures[0])
		}
	}
	t.Log(what, fmt.Sprintf("mean total %.1f s of %.1f, resizes %d of %d", g.MeanTotalSeconds, w.MeanTotalSeconds, g.Resizes, w.Resizes))
}

// TestTotalTime checks that the parameters are those of the last decision with the objective, without the cadence.
func TestTotalTime(t *testing.T) {
	t.Parallel()
	call := func(decision bool, objective solver.Objective, aging time.Duration) Call {
		return Call{Decision: decision, Options: solver.Options{
			Objective: objective, TotalTime: solver.TotalTimeOptions{Aging: &aging, Cadence: &aging},
		}}
	}
	r := Replay{Calls: []Call{
		call(true, solver.ObjectiveTotalTime, 1), call(true, solver.ObjectiveTotalTime, 2),
		call(true, solver.ObjectiveProgress, 3), call(false, solver.ObjectiveTotalTime, 4),
	}}
	if got := r.TotalTime(); got.Cadence != nil || *got.Aging != 2 {
		t.Errorf("TotalTime() = %+v", got)
	}
	if got := new(Replay).TotalTime(); got != (solver.TotalTimeOptions{}) {
		t.Errorf("TotalTime() of no calls = %+v", got)
	}
}
