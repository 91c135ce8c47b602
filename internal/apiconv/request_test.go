package apiconv

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// request parses an AllocateRequest from protojson.
func request(t *testing.T, text string) *elastallocv1.AllocateRequest {
	t.Helper()
	return parsed(t, text, new(elastallocv1.AllocateRequest))
}

// parsed fills in a message from protojson and returns it.
func parsed[M proto.Message](t *testing.T, text string, message M) M {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), message); err != nil {
		t.Fatal(err)
	}
	return message
}

// inProcess returns an allocator in this process, without a default budget.
func inProcess(t *testing.T) InProcess {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	return InProcess{Allocator: allocator}
}

func TestFromAllocateRequest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request string
		want    Request
	}{
		"everything unset stays unset": {
			request: `{"snapshot": {"jobs": [{"id": "a", "remainingEta": "60s"}]}}`,
			want: Request{
				Snapshot: &solver.Snapshot{Jobs: []solver.Job{{ID: "a", RemainingETA: time.Minute}}},
			},
		},
		"unset messages within set ones": {
			request: `{"snapshot": {"horizon": {}, "jobs": [{"id": "a", "remainingEta": "60s", "scaling": {}}]}, "options": {}}`,
			want: Request{
				Snapshot: &solver.Snapshot{Jobs: []solver.Job{{ID: "a", RemainingETA: time.Minute}}},
			},
		},
		"no jobs and no nodes": {
			request: `{"snapshot": {}}`,
			want:    Request{Snapshot: &solver.Snapshot{Jobs: []solver.Job{}}},
		},
		"everything set": {
			request: `{
				"snapshot": {
					"id": "full", "totalNodes": 70, "horizon": {"step": "60.5s", "steps": 24},
					"jobs": [
						{"id": "a", "remainingEta": "0.001s", "minNodes": 2, "maxNodes": 6, "currentNodes": 5,
						 "trainingTime": "7s", "allowedNodes": [1, 2, 4, 6], "scaling": {"table": {"speeds": [2, 3, 4]}},
						 "weight": 0, "resizeDelay": "15s"},
						{"id": "b", "remainingEta": "315360000s", "scaling": {"doublingEfficiency": 1}, "weight": 2.5,
						 "restartTime": "90s", "waitingTime": "3600s", "etaNodes": 8, "groupId": "vision",
						 "etaError": 0, "workDone": "60s", "overrun": 2.5, "pieceNodes": 4}
					],
					"sizeLimits": [{"size": 4, "nodes": 64, "nodeType": "a100"}, {"size": 8}],
					"groups": [{"id": "vision", "parentId": "all", "limit": 0, "quota": 7}, {"id": "all"}]
				},
				"options": {
					"backend": "BACKEND_HIGHS", "formulation": "FORMULATION_PAPER", "timeBudget": "2s", "relativeGap": 0.01,
					"admission": "ADMISSION_START_FIRST", "includePlan": true,
					"objective": "OBJECTIVE_TOTAL_TIME", "badJobs": "BAD_JOBS_HOLD",
					"totalTime": {"fairness": 0, "aging": "0s", "resizePrice": "15s", "payback": "300s", "pausePriceFactor": 8,
						"startBonus": "60s", "cadence": "300s", "quotaPrice": 0, "etaError": 1.4}
				}
			}`,
			want: Request{
				Snapshot: &solver.Snapshot{
					ID: "full", TotalNodes: 70, Horizon: solver.Horizon{Step: 60500 * time.Millisecond, Steps: 24},
					Jobs: []solver.Job{
						{
							ID: "a", RemainingETA: time.Millisecond, MinNodes: 2, MaxNodes: 6, CurrentNodes: 5,
							TrainingTime: 7 * time.Second, AllowedNodes: []int{1, 2, 4, 6},
							Scaling: solver.Scaling{Speeds: []float64{2, 3, 4}}, Weight: new(0.0),
							ResizeDelay: 15 * time.Second,
						},
						{
							ID: "b", RemainingETA: 3650 * 24 * time.Hour,
							Scaling: solver.Scaling{DoublingEfficiency: 1}, Weight: new(2.5),
							RestartTime: 90 * time.Second, WaitingTime: time.Hour, ETANodes: 8, GroupID: "vision",
							ETAError: new(0.0), WorkDone: time.Minute, Overrun: 2.5, PieceNodes: 4,
						},
					},
					SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 64, NodeType: "a100"}, {Size: 8}},
					Groups:     []solver.Group{{ID: "vision", ParentID: "all", Limit: new(0), Quota: 7}, {ID: "all"}},
				},
				Options: solver.Options{
					Backend: solver.BackendHiGHS, Formulation: solver.FormulationPaper, TimeBudget: 2 * time.Second,
					RelativeGap: 0.01, Admission: solver.AdmissionStartFirst,
					Objective: solver.ObjectiveTotalTime, BadJobs: solver.BadJobsHold,
					TotalTime: solver.TotalTimeOptions{
						Fairness: new(0.0), Aging: new(time.Duration(0)), ResizePrice: new(15 * time.Second),
						Payback: new(5 * time.Minute), PausePriceFactor: new(8.0), StartBonus: new(time.Minute), Cadence: new(5 * time.Minute),
						QuotaPrice: new(0.0), ETAError: new(1.4),
					},
				},
				IncludePlan: true,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromAllocateRequest(request(t, test.request), solver.DefaultMaxJobs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("wrong conversion (-want +got):\n%s", diff)
			}
		})
	}
}

// validate converts a request and has the core validate it, as an allocator does.
func validate(r *elastallocv1.AllocateRequest, maxJobs int) error {
	converted, err := FromAllocateRequest(r, maxJobs)
	if err != nil {
		return err
	}
	known := elastalloc.BackendNames()
	bad := solver.Validate(converted.Snapshot.WithDefaults(), converted.Options.WithDefaults(), maxJobs, known)
	if len(bad) > 0 {
		return &solver.InvalidError{Violations: bad}
	}
	return nil
}

// badPaths returns the paths of the bad fields of a request.
func badPaths(t *testing.T, r *elastallocv1.AllocateRequest, maxJobs int) []string {
	t.Helper()
	return solvertest.InvalidPaths(t, validate(r, maxJobs))
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

func TestFromAllocateRequestReportsBadField(t *testing.T) {
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

		"job without an id":  {onJob(func(j *job) { j.Id = "" }), []string{"snapshot.jobs[1].id"}},
		"two jobs of one id": {onJob(func(j *job) { j.Id = "running" }), []string{"snapshot.jobs[1].id"}},
		"no ETA":             {onJob(func(j *job) { j.RemainingEta = nil }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA of 0":           {onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{} }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA below 0":        {onJob(func(j *job) { j.RemainingEta = durationpb.New(-1) }), []string{"snapshot.jobs[1].remaining_eta"}},
		"ETA beyond 292 years": {
			onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{Seconds: 1e10} }), []string{"snapshot.jobs[1].remaining_eta"},
		},
		"ETA beyond 10^4 years": {
			onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{Seconds: 1e12} }), []string{"snapshot.jobs[1].remaining_eta"},
		},
		"ETA of mixed signs": {onJob(func(j *job) { j.RemainingEta = &durationpb.Duration{Seconds: 9, Nanos: -1} }),
			[]string{"snapshot.jobs[1].remaining_eta"}},
		"training time far below 0": {onJob(func(j *job) { j.TrainingTime = &durationpb.Duration{Seconds: -1e10} }),
			[]string{"snapshot.jobs[1].training_time"}},
		"resize_delay below 0": {onJob(func(j *job) { j.ResizeDelay = durationpb.New(-time.Second) }), []string{"snapshot.jobs[1].resize_delay"}},
		"explicitly 0 minimum": {onJob(func(j *job) { j.MinNodes = proto.Int32(0) }), []string{"snapshot.jobs[1].min_nodes"}},
		"explicitly 0 maximum": {onJob(func(j *job) { j.MaxNodes = proto.Int32(0) }), []string{"snapshot.jobs[1].max_nodes"}},
		"negative current":     {onJob(func(j *job) { j.CurrentNodes = -1 }), []string{"snapshot.jobs[1].current_nodes"}},
		"no legal size": {
			onJob(func(j *job) { j.AllowedNodes, j.MaxNodes = []int32{32}, new(int32(16)) }), []string{"snapshot.jobs[1].allowed_nodes"},
		},
		"descending sizes":   {onJob(func(j *job) { j.AllowedNodes = []int32{4, 2} }), []string{"snapshot.jobs[1].allowed_nodes[1]"}},
		"infinite weight":    {onJob(func(j *job) { j.Weight = proto.Float64(math.Inf(1)) }), []string{"snapshot.jobs[1].weight"}},
		"weight that is NaN": {onJob(func(j *job) { j.Weight = proto.Float64(math.NaN()) }), []string{"snapshot.jobs[1].weight"}},
		"explicitly 0 efficiency": {onJob(func(j *job) { j.Scaling = efficiency(0) }),
			[]string{"snapshot.jobs[1].scaling.doubling_efficiency"}},
		"efficiency that is NaN": {onJob(func(j *job) { j.Scaling = efficiency(math.NaN()) }),
			[]string{"snapshot.jobs[1].scaling.doubling_efficiency"}},
		"empty table": {onJob(func(j *job) { j.Scaling = table() }), []string{"snapshot.jobs[1].scaling.table.speeds"}},
		"null table": {onJob(func(j *job) { j.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{}} }),
			[]string{"snapshot.jobs[1].scaling.table.speeds"}},
		"short table": {onJob(func(j *job) { j.Scaling = table(1, 2) }), []string{"snapshot.jobs[1].scaling.table.speeds"}},
		"infinite speed": {
			onJob(func(j *job) { j.Scaling = table(1, 2, 3, 4, math.Inf(1)) }), []string{"snapshot.jobs[1].scaling.table.speeds[4]"},
		},
		"null job": {
			&elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Jobs: []*job{nil}}},
			[]string{"snapshot.jobs[0].id", "snapshot.jobs[0].remaining_eta"},
		},
		"unknown backend": {onOptions(func(o *options) { o.Backend = 99 }), []string{"options.backend"}},
		"negative enum":   {onOptions(func(o *options) { o.Admission = -1 }), []string{"options.admission"}},
		"unknown others": {onOptions(func(o *options) { o.Formulation, o.Admission, o.Objective, o.BadJobs = 99, 99, 99, 99 }),
			[]string{"options.formulation", "options.objective", "options.admission", "options.bad_jobs"}},
		"parameters of total-time": {onOptions(func(o *options) {
			o.TotalTime = &elastallocv1.TotalTimeOptions{
				Fairness: new(-1.0), Aging: durationpb.New(-1), ResizePrice: durationpb.New(-1), Payback: &durationpb.Duration{},
				PausePriceFactor: new(math.NaN()), StartBonus: &durationpb.Duration{Seconds: 1e10}, Cadence: durationpb.New(-1),
				QuotaPrice: new(math.Inf(1)), EtaError: new(5.1),
			}
		}), []string{
			"options.total_time.start_bonus", "options.total_time.fairness", "options.total_time.pause_price_factor",
			"options.total_time.quota_price", "options.total_time.eta_error", "options.total_time.aging",
			"options.total_time.resize_price", "options.total_time.payback", "options.total_time.cadence",
		}},
		"total-time in the paper's formulation": {onOptions(func(o *options) {
			o.Backend, o.Formulation = elastallocv1.Backend_BACKEND_HIGHS, elastallocv1.Formulation_FORMULATION_PAPER
		}), []string{"options.formulation"}},
		"two costs of a change": {onJob(func(j *job) { j.ResizeDelay, j.RestartTime = durationpb.New(1), durationpb.New(1) }),
			[]string{"snapshot.jobs[1].restart_time"}},
		"restart time below 0": {onJob(func(j *job) { j.RestartTime = durationpb.New(-1) }), []string{"snapshot.jobs[1].restart_time"}},
		"waiting time below 0": {onJob(func(j *job) { j.WaitingTime = durationpb.New(-1) }), []string{"snapshot.jobs[1].waiting_time"}},
		"work done below 0":    {onJob(func(j *job) { j.WorkDone = durationpb.New(-1) }), []string{"snapshot.jobs[1].work_done"}},
		"work beyond 292 years": {
			onJob(func(j *job) { j.WorkDone = &durationpb.Duration{Seconds: 1e10} }), []string{"snapshot.jobs[1].work_done"},
		},
		"overrun below 0":       {onJob(func(j *job) { j.Overrun = -1e-300 }), []string{"snapshot.jobs[1].overrun"}},
		"overrun that is NaN":   {onJob(func(j *job) { j.Overrun = math.NaN() }), []string{"snapshot.jobs[1].overrun"}},
		"infinite overrun":      {onJob(func(j *job) { j.Overrun = math.Inf(1) }), []string{"snapshot.jobs[1].overrun"}},
		"ETA error below 0":     {onJob(func(j *job) { j.EtaError = new(-0.1) }), []string{"snapshot.jobs[1].eta_error"}},
		"ETA error above 5":     {onJob(func(j *job) { j.EtaError = new(5.1) }), []string{"snapshot.jobs[1].eta_error"}},
		"ETA error that is NaN": {onJob(func(j *job) { j.EtaError = new(math.NaN()) }), []string{"snapshot.jobs[1].eta_error"}},
		"negative piece":        {onJob(func(j *job) { j.PieceNodes = new(int32(-8)) }), []string{"snapshot.jobs[1].piece_nodes"}},
		"size limits of every kind of fault": {request(t, `{"snapshot": {"sizeLimits": [
			{"size": 1}, {"size": 2, "nodes": -1}, {"size": 4, "nodeType": "x"}, {"size": 8}, {"size": 8, "nodes": 1}
		]}, "options": {"objective": "OBJECTIVE_PROGRESS"}}`), []string{
			"snapshot.size_limits[0].size", "snapshot.size_limits[1].nodes", "snapshot.size_limits[2].node_type", "snapshot.size_limits[4].size",
			"snapshot.size_limits",
		}},
		"size limits of several node types": {request(t, `{
			"snapshot": {
				"nodeTypes": [{"id": "a", "nodes": 1}, {"id": "b", "nodes": 1}],
				"sizeLimits": [{"size": 2}, {"size": 2, "nodeType": "a"}, {"size": 2, "nodeType": "b"},
				{"size": 2, "nodeType": "c"}, {"size": 2, "nodeType": "b"}]
			},
			"options": {"objective": "OBJECTIVE_TOTAL_TIME"}
		}`), []string{"snapshot.size_limits[0].node_type", "snapshot.size_limits[3].node_type", "snapshot.size_limits[4].size"}},
		"size limits of one node type": {request(t, `{
			"snapshot": {"nodeTypes": [{"id": "a", "nodes": 1}], "sizeLimits": [{"size": 2}, {"size": 2, "nodeType": "a"}]},
			"options": {"objective": "OBJECTIVE_TOTAL_TIME"}
		}`), []string{"snapshot.size_limits[1].size"}},
		"65 size limits": {&elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{SizeLimits: make([]*elastallocv1.SizeLimit, 65)}},
			[]string{"snapshot.size_limits"}},
		"size limits of groups": {request(t, `{
			"snapshot": {"groups": [{"id": "a"}], "sizeLimits": [{"size": 2}]}, "options": {"objective": "OBJECTIVE_TOTAL_TIME"}
		}`), nil},
		"size limits of groups without total-time": {request(t, `{
			"snapshot": {"groups": [{"id": "a"}], "sizeLimits": [{"size": 2}]}, "options": {"objective": "OBJECTIVE_PROGRESS"}
		}`),
			[]string{"snapshot.groups"}},
		"type limits without node types": {request(t, `{"snapshot": {"groups": [{"id": "a", "typeLimits": [{"nodeType": "x", "limit": 1}]}]}}`),
			[]string{"snapshot.groups[0].type_limits"}},
		"bad type limits": {request(t, `{"snapshot": {
			"nodeTypes": [{"id": "x", "nodes": 1}, {"id": "y", "nodes": 1}],
			"groups": [{"id": "a", "typeLimits": [{"nodeType": "x", "limit": -1}, {"nodeType": "z"}, {"nodeType": "x", "limit": 2}, {"limit": 1}]}]
		}}`), []string{
			"snapshot.groups[0].type_limits[0].limit", "snapshot.groups[0].type_limits[1].node_type",
			"snapshot.groups[0].type_limits[2].node_type", "snapshot.groups[0].type_limits[3].node_type",
		}},
		"size limits without total-time": {request(t,
			`{"snapshot": {"sizeLimits": [{"size": 2}]}, "options": {"objective": "OBJECTIVE_PROGRESS"}}`),
			[]string{"snapshot.size_limits"}},
		"explicitly 0 eta nodes": {onJob(func(j *job) { j.EtaNodes = new(int32(0)) }), []string{"snapshot.jobs[1].eta_nodes"}},
		"negative eta nodes":     {onJob(func(j *job) { j.EtaNodes = new(int32(-8)) }), []string{"snapshot.jobs[1].eta_nodes"}},
		"eta nodes beyond the table": {onJob(func(j *job) {
			j.EtaNodes, j.AllowedNodes, j.Scaling = new(int32(1)), []int32{2, 4}, table(1.5, 2)
		}), []string{"snapshot.jobs[1].eta_nodes"}},
		"groups of every kind of fault": {request(t, `{"snapshot": {
			"groups": [{"id": "a", "parentId": "b"}, {"id": "b", "parentId": "a", "quota": -1}, {"limit": -1}, {"id": "a", "parentId": "x"}],
			"jobs": [{"id": "1", "remainingEta": "1s"}, {"id": "2", "remainingEta": "1s", "groupId": "y"},
			{"id": "3", "remainingEta": "1s", "groupId": "b"}]
		}, "options": {"objective": "OBJECTIVE_PROGRESS"}}`), []string{
			"snapshot.groups[0].parent_id", "snapshot.groups[1].quota", "snapshot.groups[1].parent_id", "snapshot.groups[2].id",
			"snapshot.groups[2].limit", "snapshot.groups[3].id", "snapshot.groups[3].parent_id",
			"snapshot.jobs[0].group_id", "snapshot.jobs[1].group_id", "snapshot.jobs[2].group_id", "snapshot.groups",
		}},
		"null group": {&elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{Groups: []*elastallocv1.Group{nil}},
			Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
		}, []string{"snapshot.groups[0].id"}},
		"budget of 0":    {onOptions(func(o *options) { o.TimeBudget = &durationpb.Duration{} }), []string{"options.time_budget"}},
		"budget below 0": {onOptions(func(o *options) { o.TimeBudget = durationpb.New(-1) }), []string{"options.time_budget"}},
		"budget far below": {
			onOptions(func(o *options) { o.TimeBudget = &durationpb.Duration{Seconds: -1e10} }), []string{"options.time_budget"},
		},
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

func TestFromAllocateRequestReportsEveryBadFieldOnce(t *testing.T) {
	t.Parallel()
	bad := &durationpb.Duration{Seconds: 1e10}
	r := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			TotalNodes: -1,
			Horizon:    &elastallocv1.Horizon{Step: bad, Steps: proto.Int32(99)},
			Jobs: []*elastallocv1.Job{
				{
					MinNodes: proto.Int32(-1), MaxNodes: proto.Int32(-2), CurrentNodes: -1, RemainingEta: bad,
					TrainingTime: bad, ResizeDelay: bad, AllowedNodes: []int32{0}, Weight: proto.Float64(-1),
					Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 2}},
				},
				{Id: "b", Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{}}}},
			},
		},
		Options: &elastallocv1.AllocateOptions{
			Backend: 99, Formulation: 99, TimeBudget: bad, RelativeGap: math.NaN(), Admission: 99,
		},
	}
	want := []string{
		"options.admission", "options.backend", "options.formulation", "options.relative_gap", "options.time_budget",
		"snapshot.horizon.step", "snapshot.horizon.steps",
		"snapshot.jobs[0].allowed_nodes[0]", "snapshot.jobs[0].current_nodes", "snapshot.jobs[0].id", "snapshot.jobs[0].max_nodes",
		"snapshot.jobs[0].min_nodes", "snapshot.jobs[0].remaining_eta", "snapshot.jobs[0].resize_delay",
		"snapshot.jobs[0].scaling.doubling_efficiency", "snapshot.jobs[0].training_time", "snapshot.jobs[0].weight",
		"snapshot.jobs[1].remaining_eta", "snapshot.jobs[1].scaling.table.speeds", "snapshot.total_nodes",
	}
	got := badPaths(t, r, 10)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wrong paths (-want +got):\n%s", diff)
	}
}

func TestFromAllocateRequestLimitsJobs(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"snapshot.jobs"}, badPaths(t, smallRequest(), 1)); diff != "" {
		t.Errorf("wrong paths (-want +got):\n%s", diff)
	}
	if bad := badPaths(t, smallRequest(), 2); bad != nil {
		t.Errorf("as many jobs as allowed are reported as %v", bad)
	}
}

func TestToAllocateResponse(t *testing.T) {
	t.Parallel()
	decision := solver.Decision{
		Allocations: []solver.Allocation{
			{JobID: "a", Current: 0, Nodes: 4, Change: solver.ChangeStart, PlannedNodes: []int{4, 8}, PlannedProgress: []float64{.25, 1}},
			{JobID: "b", Current: 2, Nodes: 0, Change: solver.ChangePreempt, WaitReason: solver.WaitBehind,
				BehindJobID: "c", PlannedNodes: []int{0, 0}, PlannedProgress: []float64{0, 0}},
		},
		Report: solver.Report{
			Backend: solver.BackendGreedy, Reason: solver.ReasonHeuristic, Limit: solver.LimitTime,
			Objective: 1.25, Bound: 2, RelativeGap: .375, GreedyObjective: 1.5, SolveTime: 1500 * time.Microsecond, IdleNodes: 3,
			Attempts: []solver.Attempt{
				{Backend: solver.BackendCBC, Outcome: solver.OutcomeUnavailable, Detail: "not installed"},
				{Backend: solver.BackendGreedy, Outcome: solver.OutcomeAnswered, Duration: 2 * time.Millisecond},
			},
			Warnings: []solver.Warning{{Code: solver.WarningNeverFits, JobID: "b", Message: "too large"}},
			Groups:   []solver.GroupReport{{ID: "vision", Nodes: 4, Short: 2, Price: 0.5}, {ID: "speech"}},
			SizeLimits: []solver.SizeLimitReport{
				{SizeLimit: solver.SizeLimit{Size: 4, Nodes: 64, NodeType: "a100"}, Used: 32, Price: 0.25}, {SizeLimit: solver.SizeLimit{Size: 8}},
			},
		},
	}
	want := &elastallocv1.AllocateResponse{}
	if err := protojson.Unmarshal([]byte(`{
		"snapshotId": "s",
		"allocations": [
			{"jobId": "a", "nodes": 4, "change": "CHANGE_START", "plannedNodes": [4, 8], "plannedProgress": [0.25, 1]},
			{"jobId": "b", "change": "CHANGE_PREEMPT", "waitReason": "WAIT_REASON_BEHIND",
				"behindJobId": "c", "plannedNodes": [0, 0], "plannedProgress": [0, 0]}
		],
		"report": {
			"backend": "BACKEND_GREEDY", "reason": "REASON_HEURISTIC", "limit": "LIMIT_TIME",
			"objective": 1.25, "bound": 2, "relativeGap": 0.375, "greedyObjective": 1.5, "solveTime": "0.0015s", "idleNodes": 3,
			"attempts": [
				{"backend": "BACKEND_CBC", "outcome": "OUTCOME_UNAVAILABLE", "detail": "not installed", "duration": "0s"},
				{"backend": "BACKEND_GREEDY", "outcome": "OUTCOME_ANSWERED", "duration": "0.002s"}
			],
			"warnings": [{"code": "WARNING_CODE_NEVER_FITS", "jobId": "b", "message": "too large"}],
			"groups": [{"id": "vision", "nodes": 4, "short": 2, "price": 0.5}, {"id": "speech"}],
			"sizeLimits": [{"size": 4, "nodes": 64, "nodeType": "a100", "used": 32, "price": 0.25}, {"size": 8}]
		}
	}`), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ToAllocateResponse("s", decision, true), protocmp.Transform()); diff != "" {
		t.Errorf("wrong response (-want +got):\n%s", diff)
	}
	for _, a := range want.GetAllocations() {
		a.PlannedNodes, a.PlannedProgress = nil, nil
	}
	if diff := cmp.Diff(want, ToAllocateResponse("s", decision, false), protocmp.Transform()); diff != "" {
		t.Errorf("wrong response without plans (-want +got):\n%s", diff)
	}
}

// FuzzConvert feeds the conversion whatever unmarshals as a request. It must not
// panic, name every bad field once, let through only what the core can calculate with,
// and lose nothing on the way back to the API and forth again.
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
		j.ResizeDelay = durationpb.New(math.MaxInt64)
	}))
	seed(onOptions(func(o *elastallocv1.AllocateOptions) {
		o.Objective, o.TotalTime = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, &elastallocv1.TotalTimeOptions{Aging: durationpb.New(0)}
	}))
	grouped := smallRequest()
	grouped.Options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	grouped.Snapshot.Groups = []*elastallocv1.Group{{Id: "a", Limit: new(int32(3)), Quota: 2, ParentId: "b"}, {Id: "b"}}
	for _, j := range grouped.GetSnapshot().GetJobs() {
		j.GroupId = "a"
	}
	seed(grouped)
	limited := onJob(func(j *elastallocv1.Job) { j.PieceNodes = new(int32(4)) })
	limited.Options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	limited.Snapshot.SizeLimits = []*elastallocv1.SizeLimit{{Size: 2, Nodes: 4}}
	seed(limited)
	const maxJobs = 50
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &elastallocv1.AllocateRequest{}
		if proto.Unmarshal(data, r) != nil && protojson.Unmarshal(data, r) != nil {
			t.Skip("not a request")
		}
		if err := validate(r, maxJobs); err != nil {
			checkViolations(t, err)
			return
		}
		converted, err := FromAllocateRequest(r, maxJobs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range converted.Snapshot.Jobs {
			job := &converted.Snapshot.Jobs[i]
			for _, v := range append(job.Scaling.Speeds, job.WeightOrDefault(), job.Scaling.DoublingEfficiency) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("job %d has the number %v", i, v)
				}
			}
		}
		again, err := FromAllocateRequest(ToAllocateRequest(converted), maxJobs)
		if err != nil {
			t.Fatalf("back and forth: %v", err)
		}
		if diff := cmp.Diff(converted, again); diff != "" {
			t.Errorf("back and forth (-before +after):\n%s", diff)
		}
	})
}

// checkViolations fails unless err names at least one bad field, and none twice.
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
}

// smallRequest is a good request: one running job, one queued job.
func smallRequest() *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			Id: "small", TotalNodes: 8,
			Jobs: []*elastallocv1.Job{
				{Id: "running", RemainingEta: durationpb.New(time.Hour), CurrentNodes: 2},
				{Id: "queued", RemainingEta: durationpb.New(10 * time.Minute)},
			},
		},
		Options: &elastallocv1.AllocateOptions{IncludePlan: true},
	}
}

// setAllFields sets every field of a message. Lists have one element. Of a oneof, it sets the alternative
// with the given index, or the last one.
func setAllFields(m protoreflect.Message, alternative int) {
	fields := m.Descriptor().Fields()
	for n := range fields.Len() {
		f := fields.Get(n)
		if of := f.ContainingOneof(); of != nil && !of.IsSynthetic() && of.Fields().Get(min(alternative, of.Fields().Len()-1)) != f {
			continue
		}
		scalar := func() protoreflect.Value {
			switch f.Kind() {
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			case protoreflect.Int32Kind:
				return protoreflect.ValueOfInt32(3)
			case protoreflect.Int64Kind:
				return protoreflect.ValueOfInt64(60)
			case protoreflect.DoubleKind:
				return protoreflect.ValueOfFloat64(0.75)
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(2)
			case protoreflect.StringKind:
				return protoreflect.ValueOfString(string(f.Name()))
			default:
				panic("no value for " + f.FullName())
			}
		}
		switch {
		case f.IsList() && f.Message() != nil:
			setAllFields(m.Mutable(f).List().AppendMutable().Message(), alternative)
		case f.IsList():
			m.Mutable(f).List().Append(scalar())
		case f.Message() != nil:
			setAllFields(m.Mutable(f).Message(), alternative)
		default:
			m.Set(f, scalar())
		}
	}
}

// TestAllFieldsBothWays converts a request with all fields to the core and back. It fails if a field is
// missing in one of the conversions.
func TestAllFieldsBothWays(t *testing.T) {
	t.Parallel()
	for alternative := range 2 {
		want := new(elastallocv1.AllocateRequest)
		setAllFields(want.ProtoReflect(), alternative)
		converted, err := FromAllocateRequest(want, 10)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ToAllocateRequest(converted), protocmp.Transform()); diff != "" {
			t.Errorf("alternative %d of each oneof: request (-want +got):\n%s", alternative, diff)
		}
	}
}

// TestNodeTypesBothWays converts the node types of a request to the core and back.
func TestNodeTypesBothWays(t *testing.T) {
	t.Parallel()
	want := request(t, `{"snapshot": {"totalNodes": 6,
		"nodeTypes": [{"id": "a100", "nodes": 2, "speed": 2.5}, {"id": "t4", "nodes": 4}], "jobs": [{
		"id": "a", "remainingEta": "60s", "currentNodes": 1, "currentNodeType": "t4", "etaNodeType": "a100", "moveTime": "0s", "speeds": [
			{"nodeType": "t4"},
			{"nodeType": "a100", "factor": 3, "scaling": {"table": {"speeds": [1, 1.5]}}, "allowedNodes": [1, 2]}]}]}}`)
	converted, err := FromAllocateRequest(want, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.GetSnapshot(), ToSnapshot(converted.Snapshot), protocmp.Transform()); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	_, err = FromAllocateRequest(request(t, `{"snapshot": {"nodeTypes": [{"id": "a", "speed": 0}], "jobs": [
		{"id": "a", "remainingEta": "60s", "speeds": [{"nodeType": "a", "factor": 0, "scaling": {"doublingEfficiency": 0}}]}]}}`), 10)
	var bad *solver.InvalidError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var got []string
	for _, v := range bad.Violations {
		got = append(got, v.Path)
	}
	paths := []string{
		"snapshot.node_types[0].speed", "snapshot.jobs[0].speeds[0].factor", "snapshot.jobs[0].speeds[0].scaling.doubling_efficiency",
	}
	if !slices.Equal(got, paths) {
		t.Errorf("bad fields %v; want %v", bad.Violations, paths)
	}
}
