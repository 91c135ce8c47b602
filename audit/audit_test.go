package audit_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// iterations returns how many random requests a test generates: short, or long in the conformance
// tier, in proportion to RAPID_CHECKS if it is set.
func iterations(short, long int) int {
	if os.Getenv("ELASTALLOC_TESTS") != "conformance" {
		return short
	}
	if checks, err := strconv.Atoi(os.Getenv("RAPID_CHECKS")); err == nil {
		return long * checks / 2000
	}
	return long
}

// TestHistoricProofs checks that responses are refuted that an early solver wrongly reported as
// optimal: with size 0 and 32 legal sizes, the largest size did not fit a set of 32 bits.
func TestHistoricProofs(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"false_2jobs_T2_K32_table.json", "false_3jobs_T2_K32.json", "false_11jobs_T24_K32.json"} {
		path := filepath.Join("../../shared/proofs", file)
		if _, err := os.Stat(path); err != nil {
			t.Skip("the requests are not available next to the checkout")
		}
		request := readRequest(t, path)
		m := newModel(t, request)
		right := decide(t, request)
		// The false claim is the best plan without the largest sizes.
		without := proto.CloneOf(request)
		for _, j := range without.GetSnapshot().GetJobs() {
			if n := len(j.GetAllowedNodes()); n == 32 {
				j.AllowedNodes = j.AllowedNodes[:n-1]
				if table := j.GetScaling().GetTable(); len(table.GetSpeeds()) == n {
					table.Speeds = table.Speeds[:n-1]
				}
			}
		}
		plan := m.plan(decide(t, without))
		wrong := m.respond(plan, m.Objective(plan), solver.ReasonOptimal, right.GetReport().GetNodePrices())
		got := audit.Check(t.Context(), request, wrong, audit.Options{Work: testtier.Conformance.Examples(2e7, 2e8)})
		// With 24 steps, the check may run out of work and return Open.
		if got.Verdict == audit.Confirmed || m.Steps < 24 && got.Verdict != audit.Refuted {
			t.Errorf("%s: %v", file, got)
		}
	}
}

// TestOrder checks that a verdict does not depend on the order of the jobs if there is no queue, and
// that it is the same when the check is repeated.
func TestOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(iterations(100, 3000)) {
		d := newGenerator(seed)
		request := d.small()
		request.Options.Objective, request.Options.TotalTime, request.Snapshot.Groups = elastallocv1.Objective_OBJECTIVE_PROGRESS, nil, nil
		request.Options.Admission = elastallocv1.Admission_ADMISSION_PREEMPTIVE
		request.Options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_REFUSE
		m := newModel(t, request)
		if m == nil || m.count() > 10_000 {
			continue
		}
		var plan problem.Plan
		m.each(func(p problem.Plan, _ float64) {
			if plan == nil || d.chance(7) {
				plan = p.Clone()
			}
		})
		response := m.respond(plan, m.Objective(plan), solver.ReasonOptimal, nil)
		want := audit.Check(t.Context(), request, response, audit.Options{})
		if again := audit.Check(t.Context(), request, response, audit.Options{}); again != want {
			t.Errorf("seed %d: %v, then %v", seed, want, again)
		}
		if len(request.GetSnapshot().GetJobs()) != len(response.GetAllocations()) {
			continue // Jobs with the same id have one allocation.
		}
		order := d.Perm(len(request.GetSnapshot().GetJobs()))
		jobs, allocations := request.GetSnapshot().GetJobs(), response.GetAllocations()
		request.Snapshot.Jobs, response.Allocations = nil, nil
		for _, i := range order {
			request.Snapshot.Jobs = append(request.Snapshot.Jobs, jobs[i])
			response.Allocations = append(response.Allocations, allocations[i])
		}
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != want.Verdict {
			t.Errorf("seed %d: %v in the order %v, %v before\n%s", seed, got, order, want, protojson.Format(request))
		}
	}
}

// TestWrongResponses changes one field of a correct response.
func TestWrongResponses(t *testing.T) {
	t.Parallel()
	request := readRequest(t, "../examples/teams.json")
	types := readRequest(t, "../examples/two-kinds.json")
	queued := readRequest(t, "../cmd/elastalloc/testdata/more_jobs_than_nodes.json")
	bad := proto.CloneOf(queued)
	bad.Options = &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD,
	}
	bad.Snapshot.Jobs[0].RemainingEta = nil
	empty := proto.CloneOf(queued)
	empty.Snapshot.TotalNodes = 0
	// The cost of a pause exceeds all values by many orders of magnitude.
	pause := proto.CloneOf(queued)
	pause.Options = &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: elastallocv1.Admission_ADMISSION_PREEMPTIVE,
		TotalTime: &elastallocv1.TotalTimeOptions{PausePriceFactor: new(1e6), ResizePrice: durationpb.New(365 * 24 * time.Hour)},
	}
	pause.Snapshot.Jobs = pause.Snapshot.Jobs[:1]
	pause.Snapshot.Jobs[0].CurrentNodes = 1
	// Greedy gives the first job all nodes. In a plan of a search, the second job must have nodes,
	// because it is admitted. The value of greedy's plan exceeds that of all legal plans by many
	// orders of magnitude.
	greedy := proto.CloneOf(queued)
	greedy.Options = &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY,
	}
	greedy.Snapshot.TotalNodes, greedy.Snapshot.Jobs = 11, []*elastallocv1.Job{
		{
			Id: "all", RemainingEta: durationpb.New(365 * 24 * time.Hour), AllowedNodes: []int32{1, 11},
			Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: []float64{1e-9, 1e6}}}},
		},
		{Id: "none", RemainingEta: durationpb.New(time.Hour), AllowedNodes: []int32{5}, Weight: new(1e-9)},
	}
	for name, test := range map[string]struct {
		request *elastallocv1.AllocateRequest
		change  func(*elastallocv1.AllocateResponse)
	}{
		"another snapshot": {request, func(r *elastallocv1.AllocateResponse) { r.SnapshotId += "x" }},
		"a job missing":    {request, func(r *elastallocv1.AllocateResponse) { r.Allocations = r.Allocations[1:] }},
		"jobs swapped": {request, func(r *elastallocv1.AllocateResponse) {
			r.Allocations[0], r.Allocations[1] = r.Allocations[1], r.Allocations[0]
		}},
		"objective":   {request, func(r *elastallocv1.AllocateResponse) { r.Report.Objective *= 1 + 1e-7 }},
		"both":        {request, func(r *elastallocv1.AllocateResponse) { r.Report.Objective *= 2; r.Report.Bound *= 2 }},
		"bound":       {request, func(r *elastallocv1.AllocateResponse) { r.Report.Bound *= 2 }},
		"bound below": {request, func(r *elastallocv1.AllocateResponse) { r.Report.Bound *= 1 - 1e-6 }},
		"optimal with a gap": {request, func(r *elastallocv1.AllocateResponse) {
			r.Report.Bound *= 1.01
			r.Report.RelativeGap = 1 - 1/1.01
		}},
		"a gap that was not requested": {request, func(r *elastallocv1.AllocateResponse) {
			r.Report.Bound *= 1.01
			r.Report.RelativeGap, r.Report.Reason, r.Report.Limit = 1-1/1.01, elastallocv1.Reason_REASON_FEASIBLE, elastallocv1.Limit_LIMIT_GAP
		}},
		"nodes of no type": {types, func(r *elastallocv1.AllocateResponse) {
			n := slices.IndexFunc(r.Allocations, func(a *elastallocv1.Allocation) bool { return a.Nodes > 0 })
			r.Allocations[n].NodeType = ""
		}},
		"nodes of a type":          {types, func(r *elastallocv1.AllocateResponse) { r.Report.NodeTypes[0].Nodes++ }},
		"idle nodes of a type":     {types, func(r *elastallocv1.AllocateResponse) { r.Report.NodeTypes[0].IdleNodes++ }},
		"missing type":             {types, func(r *elastallocv1.AllocateResponse) { r.Report.NodeTypes = r.Report.NodeTypes[:1] }},
		"correct, with node types": {types, nil},
		"not a number":             {request, func(r *elastallocv1.AllocateResponse) { r.Report.Bound = math.NaN() }},
		"gap":                      {request, func(r *elastallocv1.AllocateResponse) { r.Report.RelativeGap = 0.1 }},
		"idle nodes":               {request, func(r *elastallocv1.AllocateResponse) { r.Report.IdleNodes++ }},
		"limit":                    {request, func(r *elastallocv1.AllocateResponse) { r.Report.Limit = elastallocv1.Limit_LIMIT_GAP }},
		"feasible without a search": {
			greedy, func(r *elastallocv1.AllocateResponse) { r.Report.Reason = elastallocv1.Reason_REASON_FEASIBLE },
		},
		"the greedy backend with a search": {
			request, func(r *elastallocv1.AllocateResponse) { r.Report.Backend = elastallocv1.Backend_BACKEND_GREEDY },
		},
		"the exact backend without a search": {
			request, func(r *elastallocv1.AllocateResponse) { r.Report.Reason = elastallocv1.Reason_REASON_HEURISTIC },
		},
		"heuristic with limit GAP":  {greedy, func(r *elastallocv1.AllocateResponse) { r.Report.Limit = elastallocv1.Limit_LIMIT_GAP }},
		"heuristic with limit WORK": {greedy, func(r *elastallocv1.AllocateResponse) { r.Report.Limit = elastallocv1.Limit_LIMIT_WORK }},
		"group nodes":               {request, func(r *elastallocv1.AllocateResponse) { r.Report.Groups[0].Nodes++ }},
		"group short":               {request, func(r *elastallocv1.AllocateResponse) { r.Report.Groups[0].Short++ }},
		"missing group":             {request, func(r *elastallocv1.AllocateResponse) { r.Report.Groups = r.Report.Groups[1:] }},
		"no reason":                 {request, func(r *elastallocv1.AllocateResponse) { r.Report.Reason = 0 }},
		"nodes":                     {queued, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].Nodes++ }},
		"plan":                      {queued, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].PlannedNodes[1] = 3 }},
		"short plan":                {queued, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].PlannedNodes = []int32{1} }},
		"over the pool": {queued, func(r *elastallocv1.AllocateResponse) {
			for _, a := range r.GetAllocations() {
				for t := range a.PlannedNodes {
					a.PlannedNodes[t] = 16
				}
			}
		}},
		"progress":                    {queued, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].PlannedProgress[0] += 1e-6 }},
		"nodes of a frozen job":       {bad, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].Nodes++ }},
		"later nodes of a frozen job": {bad, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].PlannedNodes[1]++ }},
		"progress of a frozen job":    {bad, func(r *elastallocv1.AllocateResponse) { r.Allocations[0].PlannedProgress = []float64{1} }},
		"progress without nodes": {empty, func(r *elastallocv1.AllocateResponse) {
			r.Allocations[0].PlannedProgress[0] = 0.5
		}},
		"value without nodes": {empty, func(r *elastallocv1.AllocateResponse) {
			r.Report.Objective, r.Report.Bound = 1, 1
		}},
		"slightly too large an objective": {pause, func(r *elastallocv1.AllocateResponse) {
			r.Report.Objective += 1e-7
			r.Report.Bound += 1e-7
		}},
		"correct, empty pool":        {empty, nil},
		"correct, without a search":  {greedy, nil},
		"correct":                    {request, nil},
		"correct, with a queue":      {queued, nil},
		"correct, with a frozen job": {bad, nil},
	} {
		response := decide(t, test.request)
		want := audit.Confirmed
		if test.change != nil {
			test.change(response)
			want = audit.Refuted
		}
		if got := audit.Check(t.Context(), test.request, response, audit.Options{}); got.Verdict != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestKnowsAllFields fails if the API has fields that are newer than the check.
func TestKnowsAllFields(t *testing.T) {
	t.Parallel()
	for m, want := range map[proto.Message]int{
		&elastallocv1.AllocateRequest{}: 2, &elastallocv1.Snapshot{}: 7, &elastallocv1.SizeLimit{}: 3,
		&elastallocv1.SizeLimitReport{}: 5, &elastallocv1.Horizon{}: 2, &elastallocv1.Group{}: 5, &elastallocv1.GroupTypeLimit{}: 2,
		&elastallocv1.Job{}: 24, &elastallocv1.NodeType{}: 3, &elastallocv1.TypeSpeed{}: 4, &elastallocv1.NodeTypeReport{}: 4,
		&elastallocv1.Scaling{}: 2, &elastallocv1.SpeedTable{}: 1, &elastallocv1.AllocateOptions{}: 10,
		&elastallocv1.TotalTimeOptions{}: 10, &elastallocv1.AllocateResponse{}: 3, &elastallocv1.Allocation{}: 8,
		&elastallocv1.SolveReport{}: 16, &elastallocv1.GroupReport{}: 5, &elastallocv1.GroupTypeReport{}: 4,
		&elastallocv1.Certificate{}: 1, &elastallocv1.Certificate_SizePrices{}: 2,
	} {
		d := m.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != want {
			t.Errorf("%s has %d fields; the check knows %d: implement the new ones", d.Name(), got, want)
		}
	}
}

// TestGeneratorSetsAllFields fails if small sets a field of a snapshot or of an objective in no request, or an
// objective, so that no test would compare how the check and the core read it.
func TestGeneratorSetsAllFields(t *testing.T) {
	t.Parallel()
	set, objectives := make(map[protoreflect.FullName]bool), make(map[elastallocv1.Objective]bool)
	for seed := range uint64(300) {
		request := newGenerator(seed).small()
		objectives[request.GetOptions().GetObjective()] = true
		_ = protorange.Range(request.ProtoReflect(), func(at protopath.Values) error { // The function returns no error.
			if step := at.Index(-1).Step; step.Kind() == protopath.FieldAccessStep {
				set[step.FieldDescriptor().FullName()] = true
			}
			return nil
		})
	}
	for n, name := range elastallocv1.Objective_name {
		if !objectives[elastallocv1.Objective(n)] {
			t.Errorf("small has no request with %s; set it at the end of small", name)
		}
	}
	var check func(m protoreflect.MessageDescriptor)
	check = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			if !set[field.FullName()] {
				t.Errorf("small sets %s in no request; set it at the end of small", field.FullName())
			}
			if of := field.Message(); of != nil && of.ParentFile() == m.ParentFile() {
				check(of)
			}
		}
	}
	check(new(elastallocv1.Snapshot).ProtoReflect().Descriptor())
	check(new(elastallocv1.TotalTimeOptions).ProtoReflect().Descriptor())
}

// TestETAErrors audits decisions about many jobs with ETA errors. The errors of up to 1,000 jobs are
// exact. The errors of more jobs are rounded to quarters if there are more than 24 different ones. Some
// jobs have a restart time, so that their errors are at least 0.1.
func TestETAErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ jobs, different, restarts int }{
		{300, 1, 2}, {1000, 25, 3000}, {1000, 25, 2}, {1001, 24, 3000}, {1001, 25, 3000}, {1001, 25, 2}, {1001, 25, 1}, {1001, 26, 1},
	} {
		d := newGenerator(uint64(test.jobs + test.different))
		request := &elastallocv1.AllocateRequest{
			Snapshot: &elastallocv1.Snapshot{TotalNodes: 500},
			Options:  &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
		}
		for i := range test.jobs {
			request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
				Id: fmt.Sprint(i), RemainingEta: d.span(10, 1e5), Weight: new(1 + d.Float64()), EtaError: new(float64(1+i%test.different) * 0.05),
			})
			if i%test.restarts == 0 {
				request.Snapshot.Jobs[i].RestartTime = d.span(10, 1000)
			}
		}
		response := decide(t, request)
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
			t.Errorf("%+v: %v", test, got)
		}
		response.Report.Objective *= 1 + 1e-7
		response.Report.Bound *= 1 + 1e-7
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Refuted {
			t.Errorf("%+v, slightly too large an objective: %v", test, got)
		}
	}
}

// TestLeavesOpen checks that unknown fields, too much work and rounding result in Open.
func TestLeavesOpen(t *testing.T) {
	t.Parallel()
	unknown := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 4, Jobs: []*elastallocv1.Job{{Id: "a", RemainingEta: durationpb.New(time.Hour)}}},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, TotalTime: &elastallocv1.TotalTimeOptions{EtaError: new(1e-4)},
		},
	}
	many := proto.CloneOf(unknown)
	unknown.Snapshot.Jobs[0].ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 1})
	// Values cancel, so that the rounding of some values exceeds the tolerance.
	cancels := generate("hostile numbers", 60130125)
	for i := range 1 << 14 {
		many.Snapshot.Jobs = append(many.Snapshot.Jobs, &elastallocv1.Job{Id: fmt.Sprint(i), RemainingEta: durationpb.New(time.Hour)})
	}
	for reason, request := range map[string]*elastallocv1.AllocateRequest{
		"Job has fields that the check does not know": unknown, "the count of work is used up": many,
		"a plan reaches the objective up to rounding": cancels,
	} {
		response := &elastallocv1.AllocateResponse{Report: &elastallocv1.SolveReport{
			Reason: elastallocv1.Reason_REASON_OPTIMAL, Limit: elastallocv1.Limit_LIMIT_NONE,
		}}
		if request == cancels {
			response = decide(t, request)
			of := response.GetReport()
			if of.GetReason() != elastallocv1.Reason_REASON_FEASIBLE {
				t.Errorf("the reason of the objective %v is %v", of.GetObjective(), of.GetReason())
			}
			of.Reason, of.Bound, of.RelativeGap = elastallocv1.Reason_REASON_OPTIMAL, of.GetObjective(), 0
		}
		got := audit.Check(t.Context(), request, response, audit.Options{Work: 1e8})
		if got.Verdict != audit.Open || !strings.Contains(got.Reason, reason) {
			t.Errorf("want %q; got %v", reason, got)
		}
	}
}

// TestNoETAError checks that an ETA error below 1e-4 counts as none: equal jobs keep their order.
func TestNoETAError(t *testing.T) {
	t.Parallel()
	request := readRequest(t, "../examples/snapshot.json")
	request.Options = &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, TotalTime: &elastallocv1.TotalTimeOptions{EtaError: new(9e-5)},
	}
	for _, j := range request.GetSnapshot().GetJobs() {
		j.RemainingEta, j.EtaNodes = durationpb.New(time.Hour), nil
	}
	if got := audit.Check(t.Context(), request, decide(t, request), audit.Options{}); got.Verdict != audit.Confirmed {
		t.Error(got)
	}
}

// TestBudget checks that a check returns Open if its work or memory is used up or ctx is canceled.
func TestBudget(t *testing.T) {
	t.Parallel()
	request := readRequest(t, "../examples/snapshot.json")
	request.Options = &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS}
	response := decide(t, request)
	if got := audit.Check(t.Context(), request, response, audit.Options{Work: 1000}); got.Verdict != audit.Open {
		t.Errorf("%v with too little work", got)
	}
	if got := audit.Check(t.Context(), request, response, audit.Options{Numbers: 1}); got.Verdict != audit.Open {
		t.Errorf("%v with too little memory", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := audit.Check(ctx, request, response, audit.Options{}); got.Verdict != audit.Open {
		t.Errorf("%v after cancellation", got)
	}
}

// FuzzCheck checks that no response makes the check panic, and that it never refutes the optimum.
func FuzzCheck(f *testing.F) {
	for seed := range uint64(20) {
		d := newGenerator(seed)
		request, err := proto.Marshal(d.small())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(request, []byte{})
	}
	f.Fuzz(func(t *testing.T, requestBytes, responseBytes []byte) {
		request, response := &elastallocv1.AllocateRequest{}, &elastallocv1.AllocateResponse{}
		if proto.Unmarshal(requestBytes, request) != nil || proto.Unmarshal(responseBytes, response) != nil {
			t.Skip()
		}
		audit.Check(t.Context(), request, response, audit.Options{Work: 1e6})
		m := newModel(t, request)
		if m == nil || m.count() > 100 {
			return
		}
		best, optimum := m.best()
		got := audit.Check(t.Context(), request, m.respond(best, optimum, solver.ReasonOptimal, nil), audit.Options{Work: 1e7})
		if got.Verdict == audit.Refuted {
			t.Errorf("the optimum %v is refuted: %s\n%s", optimum, got.Reason, protojson.Format(request))
		}
	})
}

// best returns the best plan and its value, by enumeration.
func (m *model) best() (best problem.Plan, value float64) {
	value = math.Inf(-1)
	m.each(func(plan problem.Plan, v float64) {
		if v > value {
			best, value = plan.Clone(), v
		}
	})
	return best, value
}

// worse returns a random plan below a value and the plan's value, or nil if there is none.
func (d generator) worse(m *model, below float64) (worse problem.Plan, value float64) {
	m.each(func(plan problem.Plan, v float64) {
		if v < below && (worse == nil || d.chance(5)) {
			worse, value = plan.Clone(), v
		}
	})
	return worse, value
}

// prices returns random node prices in the order of magnitude of an optimum, or nonsense.
func (d generator) prices(m *model, optimum float64) (prices []float64) {
	for range max(m.Steps, len(m.request.GetSnapshot().GetNodeTypes())) {
		prices = append(prices, math.Abs(optimum)/float64(m.good.TotalNodes+1)/float64(m.Steps)*d.Float64()*2)
	}
	if d.chance(8) {
		prices[d.IntN(len(prices))] = d.nonsense()
	}
	return prices
}

// isRounding reports whether a claim is open only because of rounding.
func isRounding(got audit.Report) bool {
	return got.Verdict == audit.Open && strings.Contains(got.Reason, "up to rounding")
}

// TestExhaustive compares verdicts with an enumeration of all legal plans. At any prices, the best plan
// must not be refuted, and a worse plan must not be confirmed as optimal.
func TestExhaustive(t *testing.T) {
	t.Parallel()
	compared, shared, open := 0, 0, 0
	for seed := range uint64(iterations(600, 100_000)) {
		d := newGenerator(seed)
		m := newModel(t, d.small())
		if m == nil || m.count() > 50_000 {
			continue
		}
		best, optimum := m.best()
		worse, less := d.worse(m, optimum-10*audit.Tolerance*max(tiny, math.Abs(optimum)))
		prices := d.prices(m, optimum)
		response := m.respond(best, optimum, solver.ReasonOptimal, prices)
		if d.chance(2) {
			response.Report.Certificate = d.certificate(m)
		}
		got := audit.Check(t.Context(), m.request, response, audit.Options{Work: 1e8})
		if isRounding(got) {
			open++ // The terms are thousands of times larger than their sum.
			continue
		}
		if got.Verdict != audit.Confirmed {
			t.Errorf("seed %d: the optimum of %v is %v: %s\n%s", seed, optimum, got.Verdict, got.Reason, protojson.Format(m.request))
		}
		above := optimum + (0.1+d.Float64())*math.Abs(optimum)
		got = audit.Check(t.Context(), m.request, m.respond(best, above, solver.ReasonFeasible, prices), audit.Options{Work: 1e8})
		if got.Verdict != audit.Confirmed {
			t.Errorf("seed %d: the bound %v of %v is %v: %s", seed, above, optimum, got.Verdict, got.Reason)
		}
		if worse == nil {
			continue
		}
		below := less + (optimum-less)*d.Float64()*0.99
		got = audit.Check(t.Context(), m.request, m.respond(worse, below, solver.ReasonFeasible, prices), audit.Options{Work: 1e8})
		if got.Verdict != audit.Refuted && optimum-below > 2*audit.Tolerance*max(tiny, math.Abs(optimum), math.Abs(below)) {
			t.Errorf("seed %d: the bound %v of %v is %v: %s", seed, below, optimum, got.Verdict, got.Reason)
		}
		certificate := response.GetReport().GetCertificate()
		response = m.respond(worse, less, solver.ReasonOptimal, prices)
		response.Report.Certificate = certificate
		got = audit.Check(t.Context(), m.request, response, audit.Options{Work: 1e8})
		if got.Verdict != audit.Refuted {
			t.Errorf("seed %d: %v is %v; the optimum is %v\n%s", seed, less, got, optimum, protojson.Format(m.request))
		}
		if compared++; m.Rows != nil && m.Groups != nil {
			shared++
		}
	}
	t.Logf("%d worse plans, %d of groups on types or within size limits, %d optima open", compared, shared, open)
	if shared < compared/20 {
		t.Errorf("%d plans of groups on types or within size limits are too few", shared)
	}
	if open*1000 > compared {
		t.Errorf("%d optima are open", open)
	}
}
