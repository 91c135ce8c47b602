package server

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// request parses a request from protojson.
func request(t *testing.T, text string) *elastallocv1.AllocateRequest {
	t.Helper()
	parsed := &elastallocv1.AllocateRequest{}
	if err := protojson.Unmarshal([]byte(text), parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestConvertRequest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request string
		want    Request
	}{
		"everything unset takes its default": {
			request: `{"snapshot": {"jobs": [{"id": "a", "remainingEta": "60s"}]}}`,
			want: Request{
				Snapshot: &solver.Snapshot{
					Horizon: solver.DefaultHorizon(),
					Jobs:    []solver.Job{solver.NewJob("a", time.Minute)},
				},
				Options: solver.DefaultOptions(),
			},
		},
		"unset messages within set ones": {
			request: `{"snapshot": {"horizon": {}, "jobs": [{"id": "a", "remainingEta": "60s", "scaling": {}}]}, "options": {}}`,
			want: Request{
				Snapshot: &solver.Snapshot{
					Horizon: solver.DefaultHorizon(),
					Jobs:    []solver.Job{solver.NewJob("a", time.Minute)},
				},
				Options: solver.DefaultOptions(),
			},
		},
		"no jobs and no nodes": {
			request: `{"snapshot": {}}`,
			want: Request{
				Snapshot: &solver.Snapshot{Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{}},
				Options:  solver.DefaultOptions(),
			},
		},
		"everything set": {
			request: `{
				"snapshot": {
					"id": "full", "totalNodes": 70, "horizon": {"step": "60.5s", "steps": 24},
					"jobs": [
						{"id": "a", "remainingEta": "0.001s", "minNodes": 2, "maxNodes": 6, "currentNodes": 5,
						 "trainingTime": "7s", "allowedNodes": [1, 2, 4, 6], "scaling": {"table": {"speeds": [2, 3, 4]}},
						 "weight": 0, "rescaleDelay": "15s"},
						{"id": "b", "remainingEta": "315360000s", "scaling": {"doublingEfficiency": 1}, "weight": 2.5}
					]
				},
				"options": {
					"backend": "BACKEND_HIGHS", "formulation": "FORMULATION_PAPER", "timeBudget": "2s", "relativeGap": 0.01,
					"mode": "MODE_FILL_IDLE", "admission": "ADMISSION_PREEMPTIVE", "includePlan": true
				}
			}`,
			want: Request{
				Snapshot: &solver.Snapshot{
					ID: "full", TotalNodes: 70, Horizon: solver.Horizon{Step: 60500 * time.Millisecond, Steps: 24},
					Jobs: []solver.Job{
						{
							ID: "a", RemainingETA: time.Millisecond, MinNodes: 2, MaxNodes: 6, CurrentNodes: 5,
							TrainingTime: 7 * time.Second, AllowedNodes: []int{1, 2, 4, 6},
							Scaling:      solver.Scaling{DoublingEfficiency: 0.8, Speeds: []float64{2, 3, 4}},
							RescaleDelay: 15 * time.Second,
						},
						{
							ID: "b", RemainingETA: 3650 * 24 * time.Hour, MinNodes: 1, MaxNodes: 16,
							Scaling: solver.Scaling{DoublingEfficiency: 1}, Weight: 2.5,
						},
					},
				},
				Options: solver.Options{
					Backend: solver.BackendHiGHS, Formulation: solver.FormulationPaper, TimeBudget: 2 * time.Second,
					RelativeGap: 0.01, Mode: solver.ModeFillIdle, Admission: solver.AdmissionPreemptive,
				},
				IncludePlan: true,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ConvertRequest(request(t, test.request), solver.DefaultMaxJobs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("wrong conversion (-want +got):\n%s", diff)
			}
		})
	}
}

// badPaths returns the paths that the conversion of a request reports.
func badPaths(t *testing.T, r *elastallocv1.AllocateRequest, maxJobs int) []string {
	t.Helper()
	_, err := ConvertRequest(r, maxJobs)
	if err == nil {
		return nil
	}
	var invalid *solver.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %T %v; want *solver.InvalidError", err, err)
	}
	var paths []string
	for _, v := range invalid.Violations {
		if v.Description == "" {
			t.Errorf("%s has no description", v.Path)
		}
		paths = append(paths, v.Path)
	}
	return paths
}

// onJob returns a request whose second job is changed.
func onJob(change func(*elastallocv1.Job)) *elastallocv1.AllocateRequest {
	r := smallRequest()
	change(r.GetSnapshot().GetJobs()[1])
	return r
}

// onOptions returns a request whose options are changed.
func onOptions(change func(*elastallocv1.AllocateOptions)) *elastallocv1.AllocateRequest {
	r := smallRequest()
	change(r.GetOptions())
	return r
}

func TestConvertRequestReportsBadField(t *testing.T) {
	t.Parallel()
	type job = elastallocv1.Job
	type options = elastallocv1.AllocateOptions
	efficiency := func(e float64) *elastallocv1.Scaling {
		return &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: e}}
	}
	table := func(speeds ...float64) *elastallocv1.Scaling {
		return &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: speeds}}}
	}
	tests := map[string]struct {
		request *elastallocv1.AllocateRequest
		want    []string
	}{
		"no request":         {nil, []string{"snapshot"}},
		"no snapshot":        {&elastallocv1.AllocateRequest{}, []string{"snapshot"}},
		"negative nodes":     {&elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: -1}}, []string{"snapshot.total_nodes"}},
		"explicitly 0 steps": {request(t, `{"snapshot": {"horizon": {"steps": 0}}}`), []string{"snapshot.horizon.steps"}},
		"25 steps":           {request(t, `{"snapshot": {"horizon": {"steps": 25}}}`), []string{"snapshot.horizon.steps"}},
		"step of 0":          {request(t, `{"snapshot": {"horizon": {"step": "0s"}}}`), []string{"snapshot.horizon.step"}},
		"step of 300 years":  {request(t, `{"snapshot": {"horizon": {"step": "9467280000s"}}}`), []string{"snapshot.horizon.step"}},

		"job without an id":     {onJob(func(j *job) { j.Id = "" }), []string{"snapshot.jobs[1].id"}},
		"two jobs of one id":    {onJob(func(j *job) { j.Id = "running" }), []string{"snapshot.jobs[1].id"}},
		"no ETA":                {onJob(func(j *job) { j.RemainingEta = nil }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA of 0":              {onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{} }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA below 0":           {onJob(func(j *job) { j.RemainingEta = durationpb.New(-1) }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA beyond 292 years":  {onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{Seconds: 1e10} }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA beyond 10^4 years": {onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{Seconds: 1e12} }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA of mixed signs": {onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{Seconds: 9, Nanos: -1} }),
			[]string{"snapshot.jobs[1].remaining_eta"}},
		"training time far below 0": {onJob(func(j *job) { j.TrainingTime = &durationpb.Duration{Seconds: -1e10} }),
			[]string{"snapshot.jobs[1].training_time"}},
		"rescale delay below 0": {onJob(func(j *job) { j.RescaleDelay = durationpb.New(-time.Second) }), []string{"snapshot.jobs[1].rescale_delay"}},
		"explicitly 0 minimum":  {onJob(func(j *job) { j.MinNodes = proto.Int32(0) }), []string{"snapshot.jobs[1].min_nodes"}},
		"explicitly 0 maximum":  {onJob(func(j *job) { j.MaxNodes = proto.Int32(0) }), []string{"snapshot.jobs[1].max_nodes"}},
		"negative current":      {onJob(func(j *job) { j.CurrentNodes = -1 }), []string{"snapshot.jobs[1].current_nodes"}},
		"no legal size":         {onJob(func(j *job) { j.AllowedNodes = []int32{32} }), []string{"snapshot.jobs[1].allowed_nodes"}},
		"descending sizes":      {onJob(func(j *job) { j.AllowedNodes = []int32{4, 2} }), []string{"snapshot.jobs[1].allowed_nodes[1]"}},
		"infinite weight":       {onJob(func(j *job) { j.Weight = proto.Float64(math.Inf(1)) }), []string{"snapshot.jobs[1].weight"}},
		"weight that is NaN":    {onJob(func(j *job) { j.Weight = proto.Float64(math.NaN()) }), []string{"snapshot.jobs[1].weight"}},
		"explicitly 0 efficiency": {onJob(func(j *job) { j.Scaling = efficiency(0) }),
			[]string{"snapshot.jobs[1].scaling.doubling_efficiency"}},
		"efficiency that is NaN": {onJob(func(j *job) { j.Scaling = efficiency(math.NaN()) }),
			[]string{"snapshot.jobs[1].scaling.doubling_efficiency"}},
		"empty table": {onJob(func(j *job) { j.Scaling = table() }), []string{"snapshot.jobs[1].scaling.table.speeds"}},
		"null table": {onJob(func(j *job) { j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{}} }),
			[]string{"snapshot.jobs[1].scaling.table.speeds"}},
		"short table":     {onJob(func(j *job) { j.Scaling = table(1, 2) }), []string{"snapshot.jobs[1].scaling.table.speeds"}},
		"infinite speed":  {onJob(func(j *job) { j.Scaling = table(1, 2, 3, 4, math.Inf(1)) }), []string{"snapshot.jobs[1].scaling.table.speeds[4]"}},
		"null job":        {&elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Jobs: []*job{nil}}}, []string{"snapshot.jobs[0].remaining_eta", "snapshot.jobs[0].id"}},
		"unknown backend": {onOptions(func(o *options) { o.Backend = 99 }), []string{"options.backend"}},
		"negative enum":   {onOptions(func(o *options) { o.Mode = -1 }), []string{"options.mode"}},
		"unknown others": {onOptions(func(o *options) { o.Formulation, o.Admission = 3, 4 }),
			[]string{"options.formulation", "options.admission"}},
		"budget of 0":       {onOptions(func(o *options) { o.TimeBudget = &durationpb.Duration{} }), []string{"options.time_budget"}},
		"budget below 0":    {onOptions(func(o *options) { o.TimeBudget = durationpb.New(-1) }), []string{"options.time_budget"}},
		"budget far below":  {onOptions(func(o *options) { o.TimeBudget = &durationpb.Duration{Seconds: -1e10} }), []string{"options.time_budget"}},
		"invalid budget":    {onOptions(func(o *options) { o.TimeBudget = &durationpb.Duration{Nanos: -1e9} }), []string{"options.time_budget"}},
		"gap of 1":          {onOptions(func(o *options) { o.RelativeGap = 1 }), []string{"options.relative_gap"}},
		"gap below 0":       {onOptions(func(o *options) { o.RelativeGap = -1e-9 }), []string{"options.relative_gap"}},
		"gap that is NaN":   {onOptions(func(o *options) { o.RelativeGap = math.NaN() }), []string{"options.relative_gap"}},
		"infinite gap":      {onOptions(func(o *options) { o.RelativeGap = math.Inf(1) }), []string{"options.relative_gap"}},
		"nothing is wrong":  {smallRequest(), nil},
		"just within range": {onJob(func(j *job) { j.RemainingEta = durationpb.New(math.MaxInt64) }), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, badPaths(t, test.request, 10)); diff != "" {
				t.Errorf("wrong paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvertRequestReportsEveryBadFieldOnce(t *testing.T) {
	t.Parallel()
	bad := &durationpb.Duration{Seconds: 1e10}
	r := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			TotalNodes: -1,
			Horizon:    &elastallocv1.Horizon{Step: bad, Steps: proto.Int32(99)},
			Jobs: []*elastallocv1.Job{
				{
					MinNodes: proto.Int32(-1), MaxNodes: proto.Int32(-2), CurrentNodes: -1, RemainingEta: bad,
					TrainingTime: bad, RescaleDelay: bad, AllowedNodes: []int32{0}, Weight: proto.Float64(-1),
					Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 2}},
				},
				{Id: "b", Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{}}}},
			},
		},
		Options: &elastallocv1.AllocateOptions{
			Backend: 99, Formulation: 99, TimeBudget: bad, RelativeGap: math.NaN(), Mode: 99, Admission: 99,
		},
	}
	want := []string{
		"options.admission", "options.backend", "options.formulation", "options.mode", "options.relative_gap", "options.time_budget",
		"snapshot.horizon.step", "snapshot.horizon.steps",
		"snapshot.jobs[0].allowed_nodes[0]", "snapshot.jobs[0].current_nodes", "snapshot.jobs[0].id", "snapshot.jobs[0].max_nodes",
		"snapshot.jobs[0].min_nodes", "snapshot.jobs[0].remaining_eta", "snapshot.jobs[0].rescale_delay",
		"snapshot.jobs[0].scaling.doubling_efficiency", "snapshot.jobs[0].training_time", "snapshot.jobs[0].weight",
		"snapshot.jobs[1].remaining_eta", "snapshot.jobs[1].scaling.table.speeds", "snapshot.total_nodes",
	}
	got := badPaths(t, r, 10)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wrong paths (-want +got):\n%s", diff)
	}
}

func TestConvertRequestLimitsJobs(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"snapshot.jobs"}, badPaths(t, smallRequest(), 1)); diff != "" {
		t.Errorf("wrong paths (-want +got):\n%s", diff)
	}
	if bad := badPaths(t, smallRequest(), 2); bad != nil {
		t.Errorf("as many jobs as allowed are reported as %v", bad)
	}
}

// TestEnumsAreComplete ties the tables to the API: every number but 0 stands for a
// value of its own that converts back, and 0 for the default if callers send it.
func TestEnumsAreComplete(t *testing.T) {
	t.Parallel()
	checkEnum(t, "Backend", elastallocv1.Backend_name, backends(), solver.DefaultOptions().Backend)
	checkEnum(t, "Formulation", elastallocv1.Formulation_name, formulations(), solver.DefaultOptions().Formulation)
	checkEnum(t, "Mode", elastallocv1.Mode_name, modes(), solver.DefaultOptions().Mode)
	checkEnum(t, "Admission", elastallocv1.Admission_name, admissions(), solver.DefaultOptions().Admission)
	checkEnum(t, "Change", elastallocv1.Change_name, changes(), "")
	checkEnum(t, "Reason", elastallocv1.Reason_name, reasons(), "")
	checkEnum(t, "Limit", elastallocv1.Limit_name, limits(), "")
	checkEnum(t, "Outcome", elastallocv1.Outcome_name, outcomes(), "")
}

func checkEnum[Value ~string](t *testing.T, enum string, names map[int32]string, values []Value, unset Value) {
	t.Helper()
	if len(values) != len(names) {
		t.Errorf("%s has %d numbers, the table %d", enum, len(names), len(values))
		return
	}
	if values[0] != unset {
		t.Errorf("%s unset stands for %q; want %q", enum, values[0], unset)
	}
	for number := int32(1); number < int32(len(values)); number++ {
		if values[number] == "" {
			t.Errorf("%s %s stands for nothing", enum, names[number])
		}
		if back := enumOf[int32](values[number], values); back != number {
			t.Errorf("%s %s converts back to %s", enum, names[number], names[back])
		}
	}
}

func TestConvertDecision(t *testing.T) {
	t.Parallel()
	decision := solver.Decision{
		Allocations: []solver.Allocation{
			{JobID: "a", Current: 0, Nodes: 4, Change: solver.ChangeStart, PlannedNodes: []int{4, 8}, PlannedProgress: []float64{.25, 1}},
			{JobID: "b", Current: 2, Nodes: 0, Change: solver.ChangePreempt, PlannedNodes: []int{0, 0}, PlannedProgress: []float64{0, 0}},
		},
		Report: solver.Report{
			Backend: solver.BackendGreedy, Reason: solver.ReasonHeuristic, Limit: solver.LimitTime,
			Objective: 1.25, Bound: 2, RelativeGap: .375, GreedyObjective: 1.5, SolveTime: 1500 * time.Microsecond, IdleNodes: 3,
			Attempts: []solver.Attempt{
				{Backend: solver.BackendCBC, Outcome: solver.OutcomeUnavailable, Detail: "not installed"},
				{Backend: solver.BackendGreedy, Outcome: solver.OutcomeAnswered, Duration: 2 * time.Millisecond},
			},
		},
	}
	want := &elastallocv1.AllocateResponse{}
	if err := protojson.Unmarshal([]byte(`{
		"snapshotId": "s",
		"allocations": [
			{"jobId": "a", "nodes": 4, "change": "CHANGE_START", "plannedNodes": [4, 8], "plannedProgress": [0.25, 1]},
			{"jobId": "b", "change": "CHANGE_PREEMPT", "plannedNodes": [0, 0], "plannedProgress": [0, 0]}
		],
		"report": {
			"backend": "BACKEND_GREEDY", "reason": "REASON_HEURISTIC", "limit": "LIMIT_TIME",
			"objective": 1.25, "bound": 2, "relativeGap": 0.375, "greedyObjective": 1.5, "solveTime": "0.0015s", "idleNodes": 3,
			"attempts": [
				{"backend": "BACKEND_CBC", "outcome": "OUTCOME_UNAVAILABLE", "detail": "not installed", "duration": "0s"},
				{"backend": "BACKEND_GREEDY", "outcome": "OUTCOME_ANSWERED", "duration": "0.002s"}
			]
		}
	}`), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ConvertDecision("s", decision, true), protocmp.Transform()); diff != "" {
		t.Errorf("wrong response (-want +got):\n%s", diff)
	}
	for _, a := range want.GetAllocations() {
		a.PlannedNodes, a.PlannedProgress = nil, nil
	}
	if diff := cmp.Diff(want, ConvertDecision("s", decision, false), protocmp.Transform()); diff != "" {
		t.Errorf("wrong response without plans (-want +got):\n%s", diff)
	}
}

// FuzzConvert feeds the conversion whatever unmarshals as a request. It must not
// panic, name every bad field once, and let through only what the core calls
// valid and can calculate with.
func FuzzConvert(f *testing.F) {
	seed := func(r *elastallocv1.AllocateRequest) {
		wire, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		text, err := protojson.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
		f.Add(text)
	}
	seed(&elastallocv1.AllocateRequest{})
	seed(smallRequest())
	seed(onJob(func(j *elastallocv1.Job) {
		j.AllowedNodes = []int32{1, 3, 40}
		j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: []float64{1, 2}}}}
		j.Weight, j.MinNodes, j.MaxNodes = proto.Float64(math.NaN()), proto.Int32(1), proto.Int32(math.MaxInt32)
		j.RescaleDelay = durationpb.New(math.MaxInt64)
	}))
	const maxJobs = 50
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &elastallocv1.AllocateRequest{}
		if proto.Unmarshal(data, r) != nil && protojson.Unmarshal(data, r) != nil {
			t.Skip("not a request")
		}
		converted, err := ConvertRequest(r, maxJobs)
		if err != nil {
			checkViolations(t, err)
			return
		}
		if bad := converted.Snapshot.Validate(maxJobs); len(bad) > 0 {
			t.Errorf("a snapshot got through that is not valid: %v", bad)
		}
		if gap := converted.Options.RelativeGap; !(gap >= 0 && gap < 1) || converted.Options.TimeBudget < 0 {
			t.Errorf("options got through that are not valid: %+v", converted.Options)
		}
		for i := range converted.Snapshot.Jobs {
			job := &converted.Snapshot.Jobs[i]
			for _, v := range append(job.Scaling.Speeds, job.Weight, job.Scaling.DoublingEfficiency) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("job %d has the number %v", i, v)
				}
			}
		}
	})
}

// checkViolations fails unless err names at least one bad field, and none twice,
// and becomes a status that names them too.
func checkViolations(t *testing.T, err error) {
	t.Helper()
	var invalid *solver.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Violations) == 0 {
		t.Fatalf("error is %T %v; want violations", err, err)
	}
	seen := map[string]bool{}
	for _, v := range invalid.Violations {
		if v.Path == "" || v.Description == "" || seen[v.Path] {
			t.Errorf("bad violation %+v", v)
		}
		seen[v.Path] = true
	}
	if length := trailerLength(statusOfViolations(invalid.Violations)); length > maxTrailerLength {
		t.Errorf("status takes %d bytes", length)
	}
}
