package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// withoutThirdRestart returns the request with two restarts of each job that has three, so that no job has used
// its restart budget. The values of plans do not change.
func withoutThirdRestart(request *elastallocv1.AllocateRequest) *elastallocv1.AllocateRequest {
	request = proto.CloneOf(request)
	for _, j := range request.GetSnapshot().GetJobs() {
		if len(j.RecentRestarts) == 3 {
			j.RecentRestarts = j.RecentRestarts[:2]
		}
	}
	return request
}

// forbids returns "grows", "moves" or "pauses" for a plan in which only one job has options that it does not have
// in the model, by the first of them, and otherwise "".
func (m *model) forbids(plan problem.Plan) (change string) {
	for i, row := range plan {
		job := &m.Jobs[i]
		n := slices.IndexFunc(row, func(k solver.Option) bool { return !slices.Contains(job.Options, k) })
		switch {
		case n < 0:
		case change != "":
			return ""
		case row[n].IsZero():
			change = "pauses"
		case row[n].Type != job.Current.Type:
			change = "moves"
		default:
			change = "grows"
		}
	}
	return change
}

// TestUsedRestartBudgets checks that plans are refuted in which one job that has used its restart budget grows,
// moves, or pauses by choice, and only those: they are legal if no job has restarted three times.
func TestUsedRestartBudgets(t *testing.T) {
	t.Parallel()
	refuted := make(map[string]int)
	for seed := range uint64(iterations(8000, 200_000)) {
		d := newGenerator(seed)
		request := d.restarted(1 + d.IntN(4))
		m, other := newModel(t, request), newModel(t, withoutThirdRestart(request))
		if m == nil || other.count() > 2000 {
			continue
		}
		plans, optimum := make(map[string]problem.Plan), 0.0
		other.each(func(plan problem.Plan, v float64) {
			optimum = max(optimum, v)
			plan = plan.Clone()
			other.ReleaseFinished(plan)
			if change := m.forbids(plan); plans[change] == nil || d.chance(5) {
				plans[change] = plan
			}
		})
		delete(plans, "")
		for change, plan := range plans {
			response := other.respond(plan, optimum, solver.ReasonFeasible, nil)
			got := audit.Check(t.Context(), request, response, audit.Options{})
			if got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "none of its sizes") &&
				!strings.Contains(got.Reason, "must have nodes of one type") {
				t.Errorf("seed %d: a job %s: %v\n%s", seed, change, got, protojson.Format(request))
			}
			if got := audit.Check(t.Context(), other.request, response, audit.Options{}); got.Verdict != audit.Confirmed {
				t.Errorf("seed %d: without a third restart, a job %s: %v\n%s", seed, change, got, protojson.Format(request))
			}
			refuted[fmt.Sprintf("%s %s %s", m.options.Objective, m.options.Admission, change)]++
		}
	}
	// Under FIFO and OPTIMIZED, no running job may pause. Under PROGRESS, there is one node type.
	if t.Log(refuted); len(refuted) != 4+2+4+4+2 {
		t.Errorf("%d kinds of changes; want 16", len(refuted))
	}
}
