package audit_test

import (
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestCornerCases audits decisions that random requests rarely contain.
func TestCornerCases(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a frozen job without sizes on node types": `"options": {
			"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_START_FIRST", "badJobs": "BAD_JOBS_HOLD"}, "snapshot": {
			"nodeTypes": [{"id": "x", "nodes": 2}, {"id": "y", "nodes": 2}],
			"jobs": [{"id": "a", "remainingEta": "3600s", "minNodes": 5, "maxNodes": 2}]}`,
		"frozen jobs of a group with more nodes than an int32": `"options": {"objective": "OBJECTIVE_TOTAL_TIME", "badJobs": "BAD_JOBS_HOLD"},
			"snapshot": {
			"totalNodes": 3, "groups": [{"id": "g", "quota": 3}], "jobs": [{"id": "a", "groupId": "g", "currentNodes": 2147483647},
			{"id": "b", "groupId": "g", "currentNodes": 2147483647}, {"id": "c", "groupId": "g", "remainingEta": "3600s"}]}`,
		"no options": `"snapshot": {"totalNodes": 6, "groups": [{"id": "g", "limit": 2}],
			"jobs": [{"id": "a", "groupId": "g", "remainingEta": "3600s"},
			{"id": "b", "groupId": "g", "remainingEta": "7200s", "currentNodes": 4, "trainingTime": "60s"}]}`,
		"tiny values": `"options": {"objective": "OBJECTIVE_PROGRESS", "admission": "ADMISSION_PREEMPTIVE"},
			"snapshot": {"totalNodes": 6, "horizon": {"steps": 1},
			"jobs": [{"id": "a", "remainingEta": "60s", "weight": 1e-300}, {"id": "b", "remainingEta": "9000000000s", "weight": 5e-324}]}`,
		"the quotient of two speeds overflows": `"options": {"objective": "OBJECTIVE_TOTAL_TIME",
			"admission": "ADMISSION_PREEMPTIVE"}, "snapshot": {
			"totalNodes": 9, "jobs": [{"id": "a", "remainingEta": "3600s"}, {"id": "b", "remainingEta": "3600s",
			"allowedNodes": [4, 8], "scaling": {"table": {"speeds": [1e-300, 1e9]}}}]}`,
		"equal jobs with ETA errors": `"options": {"objective": "OBJECTIVE_TOTAL_TIME", "totalTime": {"etaError": 1e-4}}, "snapshot": {
			"totalNodes": 4, "jobs": [{"id": "a", "remainingEta": "3600s"}, {"id": "b", "remainingEta": "3600s"}]}`,
		"a size that does not fit has the largest value": `"options": {"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {
			"nodeTypes": [{"id": "x", "nodes": 4}, {"id": "y", "nodes": 0}], "jobs": [{"id": "a", "remainingEta": "3600s"},
			{"id": "b", "remainingEta": "7200s", "allowedNodes": [1, 4], "scaling": {"table": {"speeds": [1e-9, 1e9]}}}]}`,
		"a size beyond the limit of a group has the largest value": `"options": {"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {
			"totalNodes": 6, "groups": [{"id": "g", "limit": 2}, {"id": "h"}], "jobs": [{"id": "a", "groupId": "h", "remainingEta": "3600s"},
			{"id": "c", "groupId": "h", "remainingEta": "3600s", "maxNodes": 1},
			{"id": "b", "groupId": "g", "remainingEta": "7200s", "allowedNodes": [1, 4], "scaling": {"table": {"speeds": [1e-9, 1e9]}}}]}`,
		"a job that does not fit the limit of its group": `"options": {"objective": "OBJECTIVE_TOTAL_TIME",
			"admission": "ADMISSION_PREEMPTIVE"}, "snapshot": {
			"totalNodes": 6, "groups": [{"id": "g", "limit": 2, "quota": 5}, {"id": "h", "quota": 3}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "3600s", "minNodes": 4}, {"id": "b", "groupId": "h", "remainingEta": "3600s", "minNodes": 8},
			{"id": "c", "groupId": "g", "remainingEta": "3600s", "maxNodes": 2}]}`,
		"a running job without free nodes in the limit of its group on a type blocks no other": `"options": {"objective": "OBJECTIVE_TOTAL_TIME",
			"admission": "ADMISSION_FIFO"}, "snapshot": {
			"nodeTypes": [{"id": "x", "nodes": 3}, {"id": "y", "nodes": 7}],
			"groups": [{"id": "g", "typeLimits": [{"nodeType": "x", "limit": 1}]}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "3600s", "maxNodes": 1, "currentNodes": 1, "currentNodeType": "x"},
			{"id": "b", "groupId": "g", "remainingEta": "3600s", "currentNodes": 1, "currentNodeType": "x", "speeds": [{"nodeType": "x"}]},
			{"id": "c", "groupId": "g", "remainingEta": "3600s", "maxNodes": 2}]}`,
		"a running job that exceeds the limit of its group blocks the queued jobs of the group": `"options": {"objective": "OBJECTIVE_TOTAL_TIME",
			"admission": "ADMISSION_OPTIMIZED"}, "snapshot": {
			"totalNodes": 8, "groups": [{"id": "g", "limit": 3}], "jobs": [
			{"id": "a", "groupId": "g", "remainingEta": "3600s", "minNodes": 2, "maxNodes": 2, "currentNodes": 2, "trainingTime": "60s"},
			{"id": "b", "groupId": "g", "remainingEta": "3600s", "minNodes": 2, "maxNodes": 2, "currentNodes": 2, "trainingTime": "60s"},
			{"id": "c", "groupId": "g", "remainingEta": "3600s", "maxNodes": 1}]}`,
		"a size beyond the pool does not count in a quota": `"options": {"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {
			"totalNodes": 6, "groups": [{"id": "g", "quota": 5}], "jobs": [{"id": "a", "groupId": "g", "remainingEta": "3600s"}]}`,
		"weights that differ in their last digits": `"options": {"objective": "OBJECTIVE_TOTAL_TIME"}, "snapshot": {"totalNodes": 3, "jobs": [
			{"id": "a", "remainingEta": "3600s", "weight": 1}, {"id": "b", "remainingEta": "3600s", "weight": 1.0000000000000346}]}`,
	} {
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal([]byte("{"+text+"}"), request); err != nil {
			t.Fatal(err)
		}
		if got := audit.Check(t.Context(), request, decide(t, request), audit.Options{}); got.Verdict != audit.Confirmed {
			t.Errorf("%s: %s: %s", name, got.Verdict, got.Reason)
		}
	}
}

// TestEqualSpeeds audits plans in which a job changes to other nodes of the same speed: to as many nodes of
// another type, and to more nodes of its type. Such a change is not paid back over the time since the last restart,
// and rounding does not decide whether it is.
func TestEqualSpeeds(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal(fmt.Appendf(nil, `{"options": {"objective": "OBJECTIVE_TOTAL_TIME",
			"admission": "ADMISSION_PREEMPTIVE", "includePlan": true},
			"snapshot": {"nodeTypes": [{"id": "x", "nodes": 4}, {"id": "y", "nodes": 4}], "jobs": [{"id": "a", "remainingEta": "360000s",
			"currentNodes": 3, "currentNodeType": "x", "trainingTime": "72000s", "restartTime": "60s", "allowedNodes": [3, 4],
			"scaling": {"table": {"speeds": [%[1]v, %[1]v]}}, "speeds": [{"nodeType": "x"},
			{"nodeType": "y", "factor": 3,
				"scaling": {"table": {"speeds": [%[2]v, %[2]v]}}}]}]}}`, 1+0.0371*float64(n), (1+0.0371*float64(n))/3), request); err != nil {
			t.Fatal(err)
		}
		m := newModel(t, request)
		m.each(func(plan problem.Plan, v float64) {
			response := m.respond(plan, v+10, solver.ReasonFeasible, nil)
			if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
				t.Errorf("%v: %v", plan, got)
			}
		})
	}
}

// TestEmptyPool checks that a response without a plan is confirmed if no job is admitted.
func TestEmptyPool(t *testing.T) {
	t.Parallel()
	request, response := new(elastallocv1.AllocateRequest), new(elastallocv1.AllocateResponse)
	err := protojson.Unmarshal([]byte(`{"snapshot": {"totalNodes": 0, "jobs": [{"id": "a", "remainingEta": "3600s"}]}}`), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal([]byte(`{"allocations": [{"jobId": "a", "change": "CHANGE_WAIT", "waitReason": "WAIT_REASON_NEVER_FITS"}],
		"report": {"backend": "BACKEND_EXACT", "reason": "REASON_OPTIMAL", "limit": "LIMIT_NONE",
		"warnings": [{"code": "WARNING_CODE_EMPTY_POOL"}]}}`), response); err != nil {
		t.Fatal(err)
	}
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
		t.Errorf("%s: %s", got.Verdict, got.Reason)
	}
}

// TestHugeValues audits a response that leaves a job waiting although its values are so large that an
// infinite price overflows in their units.
func TestHugeValues(t *testing.T) {
	t.Parallel()
	request, response := new(elastallocv1.AllocateRequest), new(elastallocv1.AllocateResponse)
	if err := protojson.Unmarshal([]byte(`{"options": {"objective": "OBJECTIVE_TOTAL_TIME",
		"admission": "ADMISSION_PREEMPTIVE", "totalTime": {"aging": "1s"}},
		"snapshot": {"nodeTypes": [{"id": "x", "nodes": 4, "speed": 1e-315}, {"id": "y", "nodes": 4}], "jobs": [{"id": "a",
		"remainingEta": "0.000000001s", "weight": 1e12, "waitingTime": "9000000000s", "speeds": [{"nodeType": "x"}]}]}}`), request); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal([]byte(`{"allocations": [{"jobId": "a", "change": "CHANGE_WAIT"}], "report": {"backend": "BACKEND_EXACT",
		"reason": "REASON_OPTIMAL", "limit": "LIMIT_NONE", "idleNodes": 8, "nodePrices": [0, "Infinity"],
		"nodeTypes": [{"id": "x", "nodes": 4, "idleNodes": 4}, {"id": "y", "nodes": 4, "idleNodes": 4}]}}`), response); err != nil {
		t.Fatal(err)
	}
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict == audit.Confirmed {
		t.Errorf("%s: %s", got.Verdict, got.Reason)
	}
}

// TestLargestPool audits a decision about the largest possible pool, whose tables would not fit the
// memory. The check must return before it allocates them.
func TestLargestPool(t *testing.T) {
	request := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal([]byte(`{"options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_PREEMPTIVE"}, "snapshot": {
		"totalNodes": 2147483647, "groups": [{"id": "g", "quota": 2147483647}], "jobs": [
		{"id": "a", "groupId": "g", "remainingEta": "3600s", "allowedNodes": [1, 1073741823, 2147483646]},
		{"id": "b", "groupId": "g", "remainingEta": "3600s", "allowedNodes": [2, 1073741824, 2147483645]}]}}`), request); err != nil {
		t.Fatal(err)
	}
	response := decide(t, request)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict == audit.Refuted {
		t.Errorf("%s: %s", got.Verdict, got.Reason)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
		t.Errorf("the check has allocated %d bytes", used)
	}
}
